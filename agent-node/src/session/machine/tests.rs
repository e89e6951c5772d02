//! The conversation, step by step, and what must hold whatever happens.

use super::*;
use fleet_config::wire::v1::{Assign, Blob, Progress, RecordVerdict, Recorded};
use proptest::prelude::*;

const T0: Moment = Moment(1_000);

fn device(id: &str) -> Device {
    Device { id: id.to_owned(), description: vec![] }
}

fn key(cell: u8, fence: u64) -> AttemptKey {
    AttemptKey { cell: CellId([cell; 32]), fence: Fence(fence) }
}

fn assign(cell: u8, fence: u64, device: &str) -> Box<Assign> {
    let blob = Blob { blake3: [0; 32], sha256: [0; 32], size: 0 };
    Box::new(Assign {
        submission: [0; 32],
        cell: [cell; 32],
        fence,
        task: blob,
        candidate: blob,
        policy: blob,
        device: device.to_owned(),
        nonce: [0; 32],
        seeds: vec![],
        compile_ms: 1,
        run_ms: 1,
        queued_ms: 0,
    })
}

fn welcome(stop: Vec<([u8; 32], u64)>) -> Welcome {
    let text = String::new();
    Welcome { node: [0; 32], origin: text.clone(), log_vkey: text, heartbeat_ms: 2_000, stop }
}

fn recorded(verdict: RecordVerdict) -> Recorded {
    Recorded { record: [1; 32], verdict }
}

fn accepted() -> Recorded {
    recorded(RecordVerdict::Accepted { index: 7, promise: vec![1] })
}

fn later() -> Recorded {
    recorded(RecordVerdict::Later { code: String::new(), cause: String::new() })
}

fn goodbye(retry: bool) -> Goodbye {
    let next = "ask".to_owned();
    Goodbye { code: "join/invite-expired".to_owned(), cause: "late".to_owned(), next, retry }
}

fn new() -> Machine {
    Machine::new(vec![device("A"), device("B")], vec![])
}

/// A machine that was welcomed at [`T0`].
fn ready() -> Machine {
    ready_with(vec![], vec![])
}

fn ready_with(signed: Vec<(AttemptKey, String)>, stop: Vec<([u8; 32], u64)>) -> Machine {
    let mut machine = Machine::new(vec![device("A"), device("B")], signed);
    assert_eq!(machine.step(T0, Input::Begin), [Effect::Connect { dial: 0 }]);
    machine.step(T0, Input::Connected);
    machine.step(T0, Input::Welcomed(welcome(stop)));
    machine
}

fn assigned(machine: &mut Machine, stream: u64, cell: u8, fence: u64, device: &str) -> Vec<Effect> {
    machine.step(T0, Input::Assigned { stream: StreamKey(stream), assign: assign(cell, fence, device) })
}

#[track_caller]
fn declined(effects: &[Effect], expected: &str) {
    match effects {
        [Effect::Decline { code, .. }] => assert_eq!(*code, expected),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_dials_greets_and_is_ready() {
    let mut machine = new();
    assert_eq!(machine.step(T0, Input::Begin), [Effect::Connect { dial: 0 }]);
    assert_eq!(machine.wake_at(), None);
    let hello = machine.step(T0, Input::Connected);
    assert_eq!(hello, [Effect::Hello { running: vec![], devices: vec![device("A"), device("B")] }]);
    assert_eq!(machine.wake_at(), Some(T0.after(WELCOME_WITHIN_MS)));
    let welcome = welcome(vec![]);
    let effects = machine.step(T0, Input::Welcomed(welcome.clone()));
    assert_eq!(effects, [Effect::RememberCoordinator { welcome }]);
    assert_eq!(machine.wake_at(), Some(T0.after(2_000)));
}

#[test]
fn heartbeats_count_up_and_name_what_runs() {
    let mut machine = ready();
    assigned(&mut machine, 0, 1, 5, "A");
    assert_eq!(machine.step(T0.after(1_999), Input::Woken { entropy: 0 }), []);
    let running = vec![Running { cell: [1; 32], fence: 5, device: "A".to_owned() }];
    let beat = |sequence| Effect::Heartbeat { sequence, running: running.clone() };
    assert_eq!(machine.step(T0.after(2_000), Input::Woken { entropy: 0 }), [beat(1)]);
    assert_eq!(machine.step(T0.after(4_000), Input::Woken { entropy: 0 }), [beat(2)]);
}

#[test]
fn the_pause_grows_to_ten_seconds_and_never_falls_below_a_fifth() {
    for failures in 0..100 {
        for entropy in [0, 1, 12_345, u64::MAX] {
            let pause = backoff(failures, entropy);
            assert!((BACKOFF_MIN_MS..=BACKOFF_MAX_MS).contains(&pause));
        }
    }
    assert_eq!(backoff(0, u64::MAX), BACKOFF_MIN_MS);
    assert_eq!(backoff(30, BACKOFF_MAX_MS - BACKOFF_MIN_MS), BACKOFF_MAX_MS);
}

#[test]
fn an_unreachable_coordinator_is_dialled_again_at_the_next_address() {
    let mut machine = new();
    machine.step(T0, Input::Begin);
    for dial in 1..5 {
        let failure = ConnectFailure::Unreachable;
        assert_eq!(machine.step(T0, Input::ConnectFailed { failure, entropy: 3 }), []);
        let at = machine.wake_at().unwrap();
        assert!(at.0 - T0.0 >= BACKOFF_MIN_MS);
        assert_eq!(machine.step(Moment(at.0 - 1), Input::Woken { entropy: 0 }), []);
        assert_eq!(machine.step(at, Input::Woken { entropy: 0 }), [Effect::Connect { dial }]);
    }
}

#[test]
fn a_wrong_identity_is_final_for_a_stranger_and_waited_out_later() {
    let refusal = Refusal::new("join/wrong-coordinator", "x", "other key", "check");
    let wrong = || Input::ConnectFailed { failure: ConnectFailure::Wrong(refusal.clone()), entropy: 0 };
    let mut machine = new();
    machine.step(T0, Input::Begin);
    let end = Effect::End(SessionEnd::Refused(refusal.clone()));
    assert_eq!(machine.step(T0, wrong()), [Effect::Disconnect, end]);

    let mut machine = ready();
    machine.step(T0, Input::Disconnected { entropy: 0 });
    machine.step(T0.after(BACKOFF_MAX_MS), Input::Woken { entropy: 0 });
    assert_eq!(machine.step(T0, wrong()), []);
    assert!(machine.wake_at().is_some());
}

#[test]
fn a_goodbye_without_retry_ends_the_session_and_its_jobs() {
    let mut machine = ready();
    assigned(&mut machine, 0, 1, 5, "A");
    let effects = machine.step(T0, Input::Dismissed { goodbye: goodbye(false), entropy: 0 });
    assert_eq!(effects[0], Effect::CancelJob { attempt: key(1, 5) });
    assert_eq!(effects[1], Effect::Disconnect);
    assert!(matches!(&effects[2], Effect::End(SessionEnd::Refused(r)) if r.code == "join/invite-expired"));
    assert_eq!(machine.step(T0, Input::Begin), []);
    assert_eq!(machine.wake_at(), None);
}

#[test]
fn a_goodbye_with_retry_waits_and_keeps_jobs() {
    let mut machine = ready();
    assigned(&mut machine, 0, 1, 5, "A");
    let effects = machine.step(T0, Input::Dismissed { goodbye: goodbye(true), entropy: 0 });
    assert_eq!(effects, [Effect::Disconnect]);
    assert_eq!(machine.held().len(), 1);
    assert!(machine.wake_at().is_some());
}

#[test]
fn a_late_welcome_is_not_waited_for_for_ever() {
    let mut machine = new();
    machine.step(T0, Input::Begin);
    machine.step(T0, Input::Connected);
    let effects = machine.step(T0.after(WELCOME_WITHIN_MS), Input::Woken { entropy: 0 });
    assert_eq!(effects, [Effect::Disconnect]);
    assert_eq!(machine.step(T0, Input::Welcomed(welcome(vec![]))), [], "of the connection that is gone");
}

#[test]
fn short_connections_do_not_end_a_series_of_failures() {
    let mut machine = ready();
    machine.step(T0.after(STEADY_MS - 1), Input::Disconnected { entropy: 0 });
    assert_eq!(machine.failures, 1);
    let mut machine = ready();
    machine.failures = 9;
    machine.step(T0.after(STEADY_MS), Input::Disconnected { entropy: 0 });
    assert_eq!(machine.failures, 1);
}

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
fn a_result_signed_in_spite_of_a_cancel_is_reported() {
    let mut machine = ready();
    assigned(&mut machine, 0, 1, 5, "A");
    machine.step(T0, Input::Cancelled { attempt: key(1, 5) });
    let effects = machine.step(T0, Input::JobFinished { attempt: key(1, 5) });
    assert!(effects.contains(&Effect::SendReport { attempt: key(1, 5) }));
}

#[test]
fn a_report_is_sent_until_it_is_acknowledged_and_then_settled_once() {
    let mut machine = ready();
    let attempt = key(1, 5);
    assigned(&mut machine, 0, 1, 5, "A");
    let effects = machine.step(T0, Input::JobFinished { attempt });
    assert_eq!(effects, [Effect::CloseAnswers { attempt }, Effect::SendReport { attempt }]);
    assert_eq!(machine.step(T0, Input::JobFinished { attempt }), [], "said twice");
    assert_eq!(machine.step(T0, Input::Acknowledged { attempt, recorded: later(), entropy: 0 }), []);
    assert_eq!(machine.wake_at(), Some(T0.after(BACKOFF_MIN_MS)));
    let again = machine.step(T0.after(BACKOFF_MIN_MS), Input::Woken { entropy: 0 });
    assert_eq!(again, [Effect::SendReport { attempt }]);
    machine.step(T0, Input::ReportFailed { attempt, entropy: u64::MAX });
    let at = machine.wake_at().unwrap();
    assert_eq!(machine.step(at, Input::Woken { entropy: 0 }), [Effect::SendReport { attempt }]);
    let recorded = accepted();
    let settled = machine.step(at, Input::Acknowledged { attempt, recorded: recorded.clone(), entropy: 0 });
    assert_eq!(settled, [Effect::Settle { attempt, recorded }]);
    assert_eq!(machine.step(at, Input::Acknowledged { attempt, recorded: accepted(), entropy: 0 }), []);
    assert_eq!(machine.held(), []);
}

#[test]
fn every_final_verdict_settles() {
    for verdict in [
        RecordVerdict::Accepted { index: 1, promise: vec![] },
        RecordVerdict::Refused { index: 1, reason: String::new() },
        RecordVerdict::Invalid { code: String::new(), cause: String::new() },
    ] {
        let mut machine = ready_with(vec![(key(1, 5), "A".to_owned())], vec![]);
        let recorded = recorded(verdict);
        let input = Input::Acknowledged { attempt: key(1, 5), recorded: recorded.clone(), entropy: 0 };
        assert_eq!(machine.step(T0, input), [Effect::Settle { attempt: key(1, 5), recorded }]);
    }
}

#[test]
fn a_report_in_flight_is_sent_again_on_the_next_connection() {
    let mut machine = ready();
    let attempt = key(1, 5);
    assigned(&mut machine, 0, 1, 5, "A");
    machine.step(T0, Input::JobFinished { attempt });
    machine.step(T0, Input::Disconnected { entropy: 0 });
    machine.step(T0.after(BACKOFF_MAX_MS), Input::Woken { entropy: 0 });
    let hello = machine.step(T0, Input::Connected);
    assert!(matches!(&hello[..], [Effect::Hello { running, .. }] if running.len() == 1));
    let effects = machine.step(T0, Input::Welcomed(welcome(vec![])));
    assert_eq!(effects[1..], [Effect::SendReport { attempt }]);
}

#[test]
fn jobs_outlive_the_connection_and_finish_without_one() {
    let mut machine = ready();
    let attempt = key(1, 5);
    assigned(&mut machine, 0, 1, 5, "A");
    assert_eq!(machine.step(T0, Input::Disconnected { entropy: 0 }), []);
    let effects = machine.step(T0, Input::JobFinished { attempt });
    assert_eq!(effects, [Effect::CloseAnswers { attempt }], "nothing to send it on");
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
fn the_outbox_of_an_earlier_run_is_sent_within_the_window() {
    let signed: Vec<_> = (0..10).map(|fence| (key(1, fence), "A".to_owned())).collect();
    let mut machine = Machine::new(vec![device("A")], signed);
    machine.step(T0, Input::Begin);
    machine.step(T0, Input::Connected);
    let effects = machine.step(T0, Input::Welcomed(welcome(vec![])));
    let sent = effects.iter().filter(|effect| matches!(effect, Effect::SendReport { .. })).count();
    assert_eq!(sent, REPORTS_IN_FLIGHT);
    let input = Input::Acknowledged { attempt: key(1, 0), recorded: accepted(), entropy: 0 };
    let effects = machine.step(T0, input);
    assert_eq!(effects[1..], [Effect::SendReport { attempt: key(1, 4) }]);
    let effects = machine.step(T0, Input::ReportDamaged { attempt: key(1, 1) });
    assert_eq!(effects, [Effect::SendReport { attempt: key(1, 5) }]);
}

#[test]
fn a_full_window_is_not_woken_for() {
    let signed: Vec<_> = (0..10).map(|fence| (key(1, fence), "A".to_owned())).collect();
    let mut machine = ready_with(signed, vec![]);
    machine.step(T0, Input::ReportFailed { attempt: key(1, 0), entropy: 0 });
    assert_eq!(machine.wake_at(), Some(T0.after(BACKOFF_MIN_MS)));
    let effects = machine.step(T0, Input::ReportFailed { attempt: key(1, 1), entropy: 0 });
    assert_eq!(effects, []);
    let due = T0.after(BACKOFF_MIN_MS);
    assert_eq!(machine.step(due, Input::Woken { entropy: 0 }).len(), 2);
    machine.step(due, Input::ReportFailed { attempt: key(1, 0), entropy: 0 });
    machine.step(due.after(BACKOFF_MAX_MS), Input::Woken { entropy: 0 });
    assert_eq!(machine.room(), 0);
    assert!(machine.wake_at() > Some(due.after(BACKOFF_MAX_MS)), "the next heartbeat, not a busy loop");
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

#[test]
fn stopping_cancels_jobs_and_keeps_the_outbox() {
    let mut machine = ready_with(vec![(key(2, 2), "B".to_owned())], vec![]);
    assigned(&mut machine, 0, 1, 5, "A");
    let effects = machine.step(T0, Input::Stop);
    let expected =
        [Effect::CancelJob { attempt: key(1, 5) }, Effect::Disconnect, Effect::End(SessionEnd::Stopped)];
    assert_eq!(effects, expected);
    assert_eq!(machine.held().len(), 2);
}

#[test]
fn changed_devices_are_announced_when_connected() {
    let mut machine = new();
    assert_eq!(machine.step(T0, Input::DevicesChanged { devices: vec![device("Z")] }), []);
    let mut machine = ready();
    let effects = machine.step(T0, Input::DevicesChanged { devices: vec![device("Z")] });
    assert_eq!(effects, [Effect::Capacity { devices: vec![device("Z")] }]);
    declined(&assigned(&mut machine, 0, 1, 5, "A"), "node/unknown-device");
}

fn inputs() -> impl Strategy<Value = Input> {
    let attempt = || (0u8..3, 0u64..3).prop_map(|(cell, fence)| key(cell, fence));
    prop_oneof![
        Just(Input::Connected),
        Just(Input::Welcomed(welcome(vec![([1; 32], 1)]))),
        any::<u64>()
            .prop_map(|entropy| Input::ConnectFailed { failure: ConnectFailure::Unreachable, entropy }),
        any::<u64>().prop_map(|entropy| Input::Disconnected { entropy }),
        any::<u64>().prop_map(|entropy| Input::Dismissed { goodbye: goodbye(true), entropy }),
        any::<u64>().prop_map(|entropy| Input::Woken { entropy }),
        (0u8..3, 0u64..3, any::<bool>(), any::<u64>()).prop_map(|(cell, fence, a, stream)| Input::Assigned {
            stream: StreamKey(stream),
            assign: assign(cell, fence, if a { "A" } else { "B" })
        }),
        attempt().prop_map(|attempt| Input::Cancelled { attempt }),
        attempt().prop_map(|attempt| Input::JobFinished { attempt }),
        attempt().prop_map(|attempt| Input::JobAbandoned {
            attempt,
            code: String::new(),
            cause: String::new()
        }),
        (attempt(), any::<u64>()).prop_map(|(attempt, entropy)| Input::Acknowledged {
            attempt,
            recorded: if entropy % 2 == 0 { accepted() } else { later() },
            entropy
        }),
        attempt().prop_map(|attempt| Input::ReportFailed { attempt, entropy: 1 }),
    ]
}

proptest! {
    /// Whatever happens: one job per device, each attempt is started at most once, each result settled at most
    /// once, and while there is no connection the machine always has a next step or waits for its dial.
    #[test]
    fn invariants_hold(script in proptest::collection::vec((0u64..3_000, inputs()), 0..200)) {
        let mut machine = new();
        let mut now = T0;
        let mut running: BTreeMap<AttemptKey, String> = BTreeMap::new();
        let mut signed: BTreeSet<AttemptKey> = BTreeSet::new();
        let mut dialling = !machine.step(now, Input::Begin).is_empty();
        for (pause, input) in script {
            now = now.after(pause);
            // The driver speaks only of what it was asked to do.
            match &input {
                Input::Connected | Input::ConnectFailed { .. } if !dialling => continue,
                Input::JobFinished { attempt } => {
                    if running.remove(attempt).is_none() { continue }
                    signed.insert(*attempt);
                }
                Input::JobAbandoned { attempt, .. } if running.remove(attempt).is_none() => continue,
                _ => {}
            }
            if matches!(input, Input::Connected | Input::ConnectFailed { .. } | Input::Disconnected { .. }) {
                dialling = false;
            }
            for effect in machine.step(now, input) {
                match effect {
                    Effect::StartJob { assign } => {
                        prop_assert!(!running.values().any(|device| *device == assign.device));
                        prop_assert!(running.insert(AttemptKey::of(&assign), assign.device).is_none());
                    }
                    Effect::Settle { attempt, .. } => prop_assert!(signed.remove(&attempt)),
                    Effect::SendReport { attempt } => prop_assert!(signed.contains(&attempt)),
                    Effect::Connect { .. } => { prop_assert!(!dialling); dialling = true; }
                    Effect::Disconnect => dialling = false,
                    _ => {}
                }
            }
            prop_assert!(machine.wake_at().is_some() || dialling);
        }
    }
}
