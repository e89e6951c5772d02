//! Leases that end without a result, and the attempts that follow.

use super::*;

#[test]
fn a_broken_connection_loses_nothing_and_silence_loses_the_lease() {
    let mut bench = Bench::new();
    bench.join(1);
    let (cells, effects) = bench.submit(1, "a");
    let (granted, _) = bench.record(&effects);
    bench.step(Input::NodeDisconnected { node: node(1), session: session(1) });
    assert_eq!(losses(&bench.wait(20)), []);
    let back = bench.hello(node(1), 2, &[device("CPU-1", CLASS, 2000)], &[held(&granted[0])]);
    assert_eq!((losses(&back), cancels(&back), assigned(&back)), (vec![], vec![], vec![]));
    let effects = bench.wait(NODE_TIMEOUT.as_secs());
    assert_eq!(losses(&effects), [(granted[0].fence, LostReason::NodeSilent)]);
    assert_eq!(bench.scheduler.nodes()[0].state, NodeState::Lost);
    assert!(matches!(bench.standing(cells[0]), Standing::Leased { .. }), "the ledger has yet to say so");
    bench.lost(&granted[0]);
    assert_eq!(bench.standing(cells[0]), Standing::Backoff);
}

#[test]
fn a_node_that_wakes_after_its_loss_is_told_to_stop_before_it_gets_work() {
    let mut bench = Bench::new();
    bench.join(1);
    let (_, effects) = bench.submit(1, "a");
    let (granted, _) = bench.record(&effects);
    bench.wait(NODE_TIMEOUT.as_secs());
    bench.lost(&granted[0]);
    bench.wait(2);
    let back = bench.hello(node(1), 2, &[device("CPU-1", CLASS, 2000)], &[held(&granted[0])]);
    assert_eq!(cancels(&back), [granted[0].fence]);
    assert_eq!(grants(&back), [], "the device may still run the old attempt");
    assert_eq!(cancels(&bench.beat(1, 2)), [granted[0].fence], "said again with each heartbeat");
    let (cell, fence, how) = (granted[0].cell, granted[0].fence, Stop::Cancelled);
    let (node, session) = (node(1), session(2));
    let after = bench.step(Input::AttemptStopped { node, session, cell, fence, how });
    assert_eq!(grants(&after)[0].attempt, 2);
    assert!(grants(&after)[0].fence > fence);
}

#[test]
fn a_lease_past_its_deadline_is_lost_and_retried_elsewhere() {
    let mut bench = Bench::new();
    bench.join(1);
    let (_, effects) = bench.submit(1, "a");
    let (granted, _) = bench.record(&effects);
    bench.join(2);
    let mut all = Effects::new();
    for _ in 0..lease::term(&terms()).as_secs() {
        all.extend(bench.wait(1));
        bench.beat(1, 1);
        bench.beat(2, 2);
    }
    assert_eq!(losses(&all), [(granted[0].fence, LostReason::DeadlinePassed)]);
    assert_eq!(cancels(&all), [granted[0].fence]);
    bench.lost(&granted[0]);
    let again = grants(&bench.wait(1));
    assert_eq!((again[0].node, again[0].attempt), (node(2), 2));
    assert_ne!(again[0].nonce, granted[0].nonce);
    assert_ne!(again[0].seeds, granted[0].seeds);
}

#[test]
fn a_result_that_the_ledger_took_before_the_loss_stands() {
    let mut bench = Bench::new();
    bench.join(1);
    let (cells, effects) = bench.submit(1, "a");
    let (granted, _) = bench.record(&effects);
    assert_eq!(losses(&bench.wait(NODE_TIMEOUT.as_secs())).len(), 1);
    bench.commit(&granted[0], Status::Ok, Blame::Nobody);
    assert!(matches!(bench.standing(cells[0]), Standing::Finished(Ending::Result { .. })));
    assert_eq!(bench.lost(&granted[0]), [], "and a repeat of the loss changes nothing");
}

#[test]
fn only_faults_of_the_fleet_are_retried_and_only_so_often() {
    for (status, blame) in [
        (Status::WrongResult, Blame::Candidate),
        (Status::Timeout, Blame::Candidate),
        (Status::WorkerLost, Blame::Candidate),
        (Status::CompileError, Blame::Candidate),
        (Status::TaskWeak, Blame::Task),
    ] {
        let mut bench = Bench::new();
        bench.join(1);
        let (cells, effects) = bench.submit(1, "a");
        let (granted, _) = bench.record(&effects);
        bench.commit(&granted[0], status, blame);
        assert!(matches!(bench.standing(cells[0]), Standing::Finished(_)), "{status}");
    }
    let mut bench = Bench::new();
    bench.join(1);
    let (cells, mut effects) = bench.submit(1, "a");
    for attempt in 1..=ATTEMPTS_MAX {
        let (granted, _) = bench.record(&effects);
        assert_eq!(granted[0].attempt, attempt);
        let after = bench.commit(&granted[0], Status::Infrastructure, Blame::Fleet);
        let exhausted = attempt == ATTEMPTS_MAX;
        let expected = if exhausted { vec![(cells[0], EndReason::AttemptsExhausted)] } else { vec![] };
        assert_eq!(ends(&after), expected);
        effects = (0..10).flat_map(|_| [bench.beat(1, 1), bench.wait(1)].concat()).collect();
    }
    assert_eq!(bench.standing(cells[0]), Standing::Ending);
    // A crash before the end was recorded asks for it again.
    assert_eq!(ends(&bench.restarted().1), [(cells[0], EndReason::AttemptsExhausted)]);
    let (cell, reason, index) = (cells[0], EndReason::AttemptsExhausted, LeafIndex(99));
    bench.ledger(LedgerEvent::Ended { cell, reason, index });
    assert_eq!(bench.standing(cell), Standing::Finished(Ending::Ended { reason, index }));
}

#[test]
fn a_queue_budget_ends_the_wait() {
    let mut bench = Bench::new();
    let submission = submission(1, "a");
    let cell = submission.cells(submission.id().unwrap())[0].0;
    bench.submit_with(submission, Terms { queue: Some(Milliseconds(5_000)), ..terms() });
    assert_eq!(ends(&bench.wait(4)), []);
    assert_eq!(ends(&bench.wait(1)), [(cell, EndReason::QueueBudgetSpent)]);
    assert_eq!(grants(&bench.join(1)), []);
}

#[test]
fn a_pause_of_the_coordinator_itself_costs_no_node() {
    let mut bench = Bench::new();
    bench.join(1);
    let (_, effects) = bench.submit(1, "a");
    bench.record(&effects);
    bench.now += Duration::from_secs(3_600);
    assert_eq!(losses(&bench.step(Input::Tick)), []);
    assert_eq!(losses(&bench.wait(NODE_TIMEOUT.as_secs())).len(), 1, "silence after it counts");
}
