//! What a new process makes of journal and ledger.

use super::*;

#[test]
fn after_a_restart_running_work_goes_on_where_its_node_lives() {
    let mut bench = Bench::new();
    bench.join(1);
    bench.join(2);
    let (_, effects) = bench.submit(2, "a");
    let (granted, _) = bench.record(&effects);
    let (mut bench, effects) = bench.restarted();
    assert_eq!(effects, [], "nothing is granted, nothing is lost");
    let first = &granted[0];
    let name = first.device.clone();
    let back = bench.hello(first.node, 9, &[device(&name.0, CLASS, 2000)], &[held(first)]);
    assert_eq!((losses(&back), cancels(&back), assigned(&back)), (vec![], vec![], vec![]));
    // The other node comes back empty-handed: its attempt is lost at once.
    let second = &granted[1];
    let back = bench.hello(second.node, 10, &[device(&second.device.0, CLASS, 2000)], &[]);
    assert_eq!(losses(&back), [(second.fence, LostReason::NotHeld)]);
    // A node that holds what nobody knows is told to stop.
    let unknown =
        HeldAttempt { cell: CellId([3; 32]), fence: Fence(1), device: DeviceId("CPU-3".to_owned()) };
    let back = bench.hello(node(3), 11, &[device("CPU-3", CLASS, 2000)], &[unknown]);
    assert_eq!(cancels(&back), [Fence(1)]);
}

#[test]
fn a_grant_that_was_journalled_and_not_recorded_is_recorded_after_a_restart() {
    let mut bench = Bench::new();
    bench.join(1);
    let (_, effects) = bench.submit(1, "a");
    let granted = grants(&effects);
    let (mut bench, effects) = bench.restarted();
    assert_eq!(grants(&effects), granted, "same fence, nonce and seeds");
    bench.join(1);
    let (_, after) = bench.record(&effects);
    assert_eq!(assigned(&after), [granted[0].fence]);
}

#[test]
fn journal_and_ledger_of_different_histories_halt_the_start() {
    let mut bench = Bench::new();
    bench.join(1);
    let (_, effects) = bench.submit(1, "a");
    let (granted, _) = bench.record(&effects);
    bench.commit(&granted[0], Status::Infrastructure, Blame::Fleet);
    let again: Effects = bench.wait(2);
    assert_eq!(grants(&again).len(), 1);
    // The ledger was rolled back: it lacks the end of the first attempt.
    let mut short = Scheduler::replay(bench.facts.clone()).unwrap();
    assert_eq!(refusal(&short.step(Duration::ZERO, Input::RecoveryComplete)), "state/ledger-behind-journal");
    // The journal was rolled back: it lacks the fence that the ledger names.
    let mut old = Scheduler::replay(bench.facts[..1].iter().cloned()).unwrap();
    let halted = old.step(Duration::ZERO, Input::Ledger(bench.ledger[1].clone()));
    assert_eq!(refusal(&halted), "state/journal-behind-ledger");
    // Facts that do not follow from each other are no journal.
    assert!(matches!(Scheduler::replay(bench.facts[1..].iter().cloned()), Err(ReplayError::Sequence { .. })));
    let (_, lease) = bench.facts[1].clone();
    assert!(matches!(Scheduler::replay([(1, lease)]), Err(ReplayError::Fence { .. })));
}

#[test]
fn nobody_is_served_while_the_history_is_read() {
    let mut scheduler = Scheduler::replay([]).unwrap();
    let request = RequestId(1);
    let target = CancelTarget::Cell(CellId([0; 32]));
    let effects = scheduler.step(Duration::ZERO, Input::Cancel { request, target });
    assert_eq!(refusal(&effects), "coordinator/recovering");
    let beat = Input::Heartbeat { node: node(1), session: session(1) };
    assert_eq!(refusal(&scheduler.step(Duration::ZERO, beat)), "coordinator/recovering");
    assert_eq!(scheduler.next_wake(), None);
}
