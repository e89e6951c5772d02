//! Work that is taken, declined and cancelled.

use super::*;

#[test]
fn an_assignment_is_taken_and_started() {
    let mut machine = ready();
    let effects = assigned(&mut machine, 3, 1, 5, "A");
    let take = Effect::Take { stream: StreamKey(3), attempt: key(1, 5) };
    assert_eq!(effects, [take, Effect::StartJob { assign: assign(1, 5, "A") }]);
}

#[test]
fn an_assignment_that_overtakes_the_welcome_starts_nothing() {
    let mut machine = new();
    machine.step(T0, Input::Begin);
    declined(&assigned(&mut machine, 0, 1, 5, "A"), "node/not-welcomed");
    machine.step(T0, Input::Connected);
    declined(&assigned(&mut machine, 1, 1, 5, "A"), "node/not-welcomed");
    machine.step(T0, Input::Welcomed(welcome(vec![])));
    assert_eq!(assigned(&mut machine, 2, 1, 5, "A").len(), 2);
    machine.step(T0, Input::Disconnected { entropy: 0 });
    declined(&assigned(&mut machine, 3, 2, 6, "B"), "node/not-welcomed");
}

#[test]
fn the_same_assignment_again_starts_nothing() {
    let mut machine = ready();
    assigned(&mut machine, 0, 1, 5, "A");
    let take = Effect::Take { stream: StreamKey(1), attempt: key(1, 5) };
    assert_eq!(assigned(&mut machine, 1, 1, 5, "A"), [take]);
}

#[test]
fn what_cannot_run_is_declined_with_a_code() {
    let mut machine = ready();
    declined(&assigned(&mut machine, 0, 1, 5, "C"), "node/unknown-device");
    assigned(&mut machine, 1, 1, 5, "A");
    declined(&assigned(&mut machine, 2, 2, 6, "A"), "node/device-busy");
    machine.step(T0, Input::Drained);
    declined(&assigned(&mut machine, 3, 3, 7, "B"), "node/draining");
    machine.step(T0, Input::Undrained);
    assert_eq!(assigned(&mut machine, 4, 3, 7, "B").len(), 2);
}

#[test]
fn a_full_outbox_takes_no_more_work() {
    let signed = (0..HELD_MAX as u64).map(|fence| (key(9, fence), "A".to_owned())).collect();
    let mut machine = ready_with(signed, vec![]);
    declined(&assigned(&mut machine, 0, 1, 5000, "B"), "node/outbox-full");
    assert_eq!(machine.held().len(), HELD_MAX);
}

#[test]
fn a_drain_ends_with_the_connection() {
    let mut machine = ready();
    machine.step(T0, Input::Drained);
    machine.step(T0, Input::Disconnected { entropy: 0 });
    machine.step(T0.after(BACKOFF_MAX_MS), Input::Woken { entropy: 0 });
    machine.step(T0, Input::Connected);
    machine.step(T0, Input::Welcomed(welcome(vec![])));
    assert_eq!(assigned(&mut machine, 0, 1, 5, "A").len(), 2);
}

#[test]
fn a_cancelled_job_gives_its_device_to_the_next() {
    let mut machine = ready();
    assigned(&mut machine, 0, 1, 5, "A");
    let cancel = machine.step(T0, Input::Cancelled { attempt: key(1, 5) });
    assert_eq!(cancel, [Effect::CancelJob { attempt: key(1, 5) }]);
    declined(&assigned(&mut machine, 1, 1, 5, "A"), "node/cancelled");
    let take = Effect::Take { stream: StreamKey(2), attempt: key(2, 6) };
    assert_eq!(assigned(&mut machine, 2, 2, 6, "A"), [take], "waits for the device");
    declined(&assigned(&mut machine, 3, 3, 7, "A"), "node/device-busy");
    let effects = machine
        .step(T0, Input::JobAbandoned { attempt: key(1, 5), code: "x".to_owned(), cause: "y".to_owned() });
    let given_up = Effect::GiveUp {
        attempt: key(1, 5),
        code: "node/cancelled".to_owned(),
        cause: "it was cancelled".to_owned(),
    };
    assert_eq!(effects, [given_up, Effect::StartJob { assign: assign(2, 6, "A") }]);
}

#[test]
fn a_waiting_attempt_can_be_cancelled() {
    let mut machine = ready();
    assigned(&mut machine, 0, 1, 5, "A");
    machine.step(T0, Input::Cancelled { attempt: key(1, 5) });
    assigned(&mut machine, 1, 2, 6, "A");
    let effects = machine.step(T0, Input::Cancelled { attempt: key(2, 6) });
    assert!(matches!(effects.as_slice(), [Effect::GiveUp { attempt, .. }] if *attempt == key(2, 6)));
    let effects = machine.step(T0, Input::JobFinished { attempt: key(1, 5) });
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::StartJob { .. })));
}

#[test]
fn a_cancel_that_overtakes_its_assignment_still_counts() {
    let mut machine = ready();
    assert_eq!(machine.step(T0, Input::Cancelled { attempt: key(1, 5) }), []);
    declined(&assigned(&mut machine, 0, 1, 5, "A"), "node/cancelled");
    assert_eq!(assigned(&mut machine, 1, 1, 6, "A").len(), 2, "another fence is another attempt");
}

#[test]
fn a_welcome_stops_what_the_coordinator_no_longer_wants() {
    let mut machine = ready();
    assigned(&mut machine, 0, 1, 5, "A");
    machine.step(T0, Input::Disconnected { entropy: 0 });
    machine.step(T0.after(BACKOFF_MAX_MS), Input::Woken { entropy: 0 });
    machine.step(T0, Input::Connected);
    let effects = machine.step(T0, Input::Welcomed(welcome(vec![([1; 32], 5), ([8; 32], 8)])));
    assert_eq!(effects[1..], [Effect::CancelJob { attempt: key(1, 5) }]);
}

#[test]
fn progress_is_passed_on_while_the_job_runs() {
    let mut machine = ready();
    let attempt = key(1, 5);
    let progress = Progress { stage: "compile".to_owned(), detail: String::new() };
    let input = || Input::Progressed { attempt, progress: progress.clone() };
    assert_eq!(machine.step(T0, input()), []);
    assigned(&mut machine, 0, 1, 5, "A");
    assert_eq!(machine.step(T0, input()), [Effect::Progress { attempt, progress: progress.clone() }]);
}
