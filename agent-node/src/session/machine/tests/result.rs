//! Results on their way: sent, sent again, acknowledged once.

use super::*;

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
