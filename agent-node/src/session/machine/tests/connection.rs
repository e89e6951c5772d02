//! Dialling, greeting, waiting and parting.

use super::*;

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
