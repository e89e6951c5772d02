//! Tests of the scheduler, one step at a time; whole histories are in `tests/sim`.

use super::explain::{Explanation, Obstacle};
use super::limits::{ATTEMPTS_MAX, NODE_TIMEOUT};
use super::view::Standing;
use super::*;
use fleet_config::domain::Nonce;
use fleet_config::domain::{
    Blame, Bytes, CandidateId, DeviceDescription, DeviceId, DeviceKind, Facts, LeafIndex, Milliseconds,
    RecordId, Reuse, Stage, Status, Submission,
};

const CLASS: &str = "cpu:x86-64-v2";

/// A scheduler with a journal that is always durable and a ledger that answers at once when told to.
struct Bench {
    scheduler: Scheduler,
    now: Duration,
    facts: Vec<(u64, Fact)>,
    ledger: Vec<LedgerEvent>,
    requests: u64,
}

fn node(byte: u8) -> NodeId {
    NodeId([byte; 32])
}

fn session(number: u64) -> SessionId {
    SessionId(number)
}

fn device(name: &str, architecture: &str, memory: u64) -> DeviceDescription {
    DeviceDescription {
        id: DeviceId(name.to_owned()),
        kind: DeviceKind::Cpu,
        architecture: architecture.parse().unwrap(),
        memory,
        identity: Facts::new(),
        configuration: Facts::new(),
        attributes: BTreeMap::new(),
    }
}

fn submission(candidates: u8, nonce: &str) -> Submission {
    Submission {
        format: Submission::FORMAT.to_owned(),
        task: TaskId([9; 32]),
        candidates: (0..candidates).map(|byte| CandidateId([byte; 32])).collect(),
        targets: vec![CLASS.parse().unwrap()],
        policy: PolicyId([8; 32]),
        reuse: Reuse::Allowed,
        nonce: nonce.to_owned(),
    }
}

fn terms() -> Terms {
    Terms {
        memory: Bytes(1000),
        queue: None,
        compile: Milliseconds(10_000),
        run: Milliseconds(10_000),
        seeds: 3,
    }
}

impl Bench {
    fn new() -> Self {
        let scheduler = Scheduler::replay([]).unwrap();
        let mut bench =
            Self { scheduler, now: Duration::ZERO, facts: Vec::new(), ledger: Vec::new(), requests: 0 };
        bench.step(Input::RecoveryComplete);
        bench
    }

    fn step(&mut self, input: Input) -> Effects {
        let effects = self.scheduler.step(self.now, input);
        for effect in &effects {
            if let Effect::Persist { sequence, fact } = effect {
                self.facts.push((*sequence, fact.clone()));
            }
        }
        effects
    }

    fn ledger(&mut self, event: LedgerEvent) -> Effects {
        self.ledger.push(event.clone());
        self.step(Input::Ledger(event))
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    fn submit_with(&mut self, submission: Submission, terms: Terms) -> Effects {
        let (request, entropy, reused) = (self.request(), Digest([5; 32]), BTreeMap::new());
        self.step(Input::Submit(SubmitRequest { request, submission, terms, entropy, reused }))
    }

    fn submit(&mut self, candidates: u8, nonce: &str) -> (Vec<CellId>, Effects) {
        let submission = submission(candidates, nonce);
        let id = submission.id().unwrap();
        let cells = submission.cells(id).into_iter().map(|(cell, _, _)| cell).collect();
        (cells, self.submit_with(submission, terms()))
    }

    fn hello(
        &mut self,
        id: NodeId,
        number: u64,
        devices: &[DeviceDescription],
        held: &[HeldAttempt],
    ) -> Effects {
        let (devices, held) = (devices.to_vec(), held.to_vec());
        self.step(Input::NodeHello { node: id, session: session(number), devices, held })
    }

    /// A node with one device of the class, named after it.
    fn join(&mut self, byte: u8) -> Effects {
        let name = format!("CPU-{byte}");
        self.hello(node(byte), u64::from(byte), &[device(&name, CLASS, 2000)], &[])
    }

    /// Records the grants of `effects`; returns them and what followed.
    fn record(&mut self, effects: &Effects) -> (Vec<Grant>, Effects) {
        let grants = grants(effects);
        let index = LeafIndex(self.ledger.len() as u64);
        let fences = grants.iter().map(|grant| grant.fence).collect();
        let after = self.ledger(LedgerEvent::GrantsRecorded { fences, index });
        (grants, after)
    }

    fn commit(&mut self, grant: &Grant, status: Status, blame: Blame) -> Effects {
        let index = LeafIndex(self.ledger.len() as u64);
        let (cell, fence, record) = (grant.cell, grant.fence, RecordId([1; 32]));
        self.ledger(LedgerEvent::Committed { cell, fence, record, status, blame, index })
    }

    fn lost(&mut self, grant: &Grant) -> Effects {
        let index = LeafIndex(self.ledger.len() as u64);
        self.ledger(LedgerEvent::Lost { cell: grant.cell, fence: grant.fence, index })
    }

    fn beat(&mut self, byte: u8, number: u64) -> Effects {
        self.step(Input::Heartbeat { node: node(byte), session: session(number) })
    }

    fn wait(&mut self, seconds: u64) -> Effects {
        let mut all = Effects::new();
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            all.extend(self.step(Input::Tick));
        }
        all
    }

    fn restarted(&self) -> (Self, Effects) {
        let mut scheduler = Scheduler::replay(self.facts.clone()).unwrap();
        for event in &self.ledger {
            assert_eq!(scheduler.step(Duration::ZERO, Input::Ledger(event.clone())), []);
        }
        let (facts, ledger) = (self.facts.clone(), self.ledger.clone());
        let mut bench = Self { scheduler, now: Duration::ZERO, facts, ledger, requests: 0 };
        let effects = bench.step(Input::RecoveryComplete);
        (bench, effects)
    }

    fn standing(&self, cell: CellId) -> Standing {
        self.scheduler.cell(cell).unwrap().standing
    }

    fn obstacles(&self, cell: CellId) -> Vec<Obstacle> {
        match self.scheduler.explain(cell) {
            Some(Explanation::Waiting { obstacles, .. }) => obstacles,
            other => panic!("not waiting: {other:?}"),
        }
    }
}

fn grants(effects: &Effects) -> Vec<Grant> {
    let batches = effects.iter().filter_map(|effect| match effect {
        Effect::RecordGrants(grants) => Some(grants.clone()),
        _ => None,
    });
    batches.flatten().collect()
}

fn held(grant: &Grant) -> HeldAttempt {
    HeldAttempt { cell: grant.cell, fence: grant.fence, device: grant.device.clone() }
}

fn losses(effects: &Effects) -> Vec<(Fence, LostReason)> {
    let losses = effects.iter().filter_map(|effect| match effect {
        Effect::RecordLost { fence, reason, .. } => Some((*fence, *reason)),
        _ => None,
    });
    losses.collect()
}

fn ends(effects: &Effects) -> Vec<(CellId, EndReason)> {
    let ends = effects.iter().filter_map(|effect| match effect {
        Effect::RecordEnd { about, reason, .. } => Some((about.cell, *reason)),
        _ => None,
    });
    ends.collect()
}

fn cancels(effects: &Effects) -> Vec<Fence> {
    let cancels = effects.iter().filter_map(|effect| match effect {
        Effect::CancelOnNode { fence, .. } => Some(*fence),
        _ => None,
    });
    cancels.collect()
}

fn assigned(effects: &Effects) -> Vec<Fence> {
    let assigned = effects.iter().filter_map(|effect| match effect {
        Effect::Assign { grant, .. } => Some(grant.fence),
        _ => None,
    });
    assigned.collect()
}

fn refusal(effects: &Effects) -> String {
    let mut refusals = effects.iter().filter_map(|effect| match effect {
        Effect::Reply { reply: Reply::Refused(refusal), .. }
        | Effect::Disconnect { refusal, .. }
        | Effect::Halt { refusal } => Some(refusal.code.to_string()),
        _ => None,
    });
    refusals.next().unwrap_or_default()
}

#[test]
fn a_cell_is_journalled_recorded_assigned_and_finished_in_this_order() {
    let mut bench = Bench::new();
    bench.join(1);
    let (cells, effects) = bench.submit(1, "a");
    assert!(matches!(effects[0], Effect::Persist { sequence: 1, fact: Fact::SubmissionAccepted(_) }));
    assert!(matches!(effects.last(), Some(Effect::RecordGrants(_))));
    assert_eq!(assigned(&effects), [], "nothing is sent before the grant is recorded");
    let (granted, after) = bench.record(&effects);
    assert_eq!(granted[0].fence, Fence(2), "the fence is the journal's number");
    assert_eq!((granted[0].attempt, granted[0].seeds.len()), (1, 3));
    assert_eq!(assigned(&after), [Fence(2)]);
    let done = bench.commit(&granted[0], Status::Ok, Blame::Nobody);
    assert!(done.iter().any(|effect| matches!(effect, Effect::Publish(Event::SubmissionFinished { .. }))));
    assert!(matches!(
        bench.standing(cells[0]),
        Standing::Finished(Ending::Result { status: Status::Ok, .. })
    ));
}

#[test]
fn submissions_take_turns_and_nodes_are_used_evenly() {
    let mut bench = Bench::new();
    let (first, _) = bench.submit(3, "a");
    let (second, _) = bench.submit(3, "b");
    let effects = (1..=4).flat_map(|byte| bench.join(byte)).collect();
    let cells: Vec<CellId> = grants(&effects).iter().map(|grant| grant.cell).collect();
    assert_eq!(cells, [first[0], second[0], first[1], second[1]]);
    let nodes: BTreeSet<NodeId> = grants(&effects).iter().map(|grant| grant.node).collect();
    assert_eq!(nodes.len(), 4);
}

#[test]
fn a_device_too_small_or_of_another_class_gets_nothing_and_explain_says_so() {
    let mut bench = Bench::new();
    let (cells, effects) = bench.submit(1, "a");
    let warned = effects.iter().any(|effect| match effect {
        Effect::Reply { reply: Reply::Accepted { warnings, .. }, .. } => {
            warnings.len() == 1 && warnings[0].code == "submit/no-such-class"
        }
        _ => false,
    });
    assert!(warned);
    assert_eq!(bench.obstacles(cells[0]), [Obstacle::NoDeviceOfClass]);
    bench.hello(node(1), 1, &[device("CPU-1", "cpu:aarch64", 2000)], &[]);
    assert_eq!(bench.obstacles(cells[0]), [Obstacle::NoDeviceOfClass]);
    let effects = bench.hello(node(2), 2, &[device("CPU-2", CLASS, 999)], &[]);
    assert_eq!(grants(&effects), []);
    let small = Obstacle::MemoryTooSmall { devices: 1, need: Bytes(1000), largest: Bytes(999) };
    assert_eq!(bench.obstacles(cells[0]), [small]);
    assert_eq!(grants(&bench.join(3)).len(), 1);
}

#[test]
fn a_cell_that_fits_nowhere_does_not_hold_up_other_submissions() {
    let mut bench = Bench::new();
    bench.submit_with(submission(1, "huge"), Terms { memory: Bytes(1 << 40), ..terms() });
    let (cells, _) = bench.submit(1, "small");
    let effects = bench.join(1);
    assert_eq!(grants(&effects)[0].cell, cells[0]);
}

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
fn words_of_an_old_connection_are_ignored() {
    let mut bench = Bench::new();
    bench.join(1);
    let (_, effects) = bench.submit(1, "a");
    let (granted, _) = bench.record(&effects);
    bench.hello(node(1), 2, &[device("CPU-1", CLASS, 2000)], &[held(&granted[0])]);
    let (cell, fence, how) = (granted[0].cell, granted[0].fence, Stop::Abandoned);
    let old = (node(1), session(1));
    assert_eq!(bench.step(Input::AttemptStopped { node: old.0, session: old.1, cell, fence, how }), []);
    assert_eq!(bench.step(Input::NodeDisconnected { node: old.0, session: old.1 }), []);
    assert_eq!(bench.scheduler.nodes()[0].link, view::Link::Connected);
    let stage = Stage::Compile;
    assert_eq!(bench.step(Input::Progress { node: old.0, session: old.1, cell, fence, stage }), []);
    let older = bench.hello(node(1), 1, &[], &[]);
    assert_eq!(refusal(&older), "node/replaced");
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
fn cancel_stops_what_runs_and_what_waits() {
    let mut bench = Bench::new();
    bench.join(1);
    let (cells, effects) = bench.submit(2, "a");
    let (granted, _) = bench.record(&effects);
    let id = submission(2, "a").id().unwrap();
    let request = bench.request();
    let effects = bench.step(Input::Cancel { request, target: CancelTarget::Submission(id) });
    assert!(matches!(effects[0], Effect::Persist { fact: Fact::Cancelled(_), .. }));
    assert_eq!(ends(&effects).len(), 2);
    assert_eq!(cancels(&effects), [granted[0].fence]);
    // After a crash the cancel is known and its ends are asked for again.
    assert_eq!(ends(&bench.restarted().1).len(), 2);
    // The result of the running one was in the ledger first: it stands.
    bench.commit(&granted[0], Status::Ok, Blame::Nobody);
    assert!(matches!(bench.standing(cells[0]), Standing::Finished(Ending::Result { .. })));
    let (cell, reason, index) = (cells[1], EndReason::Cancelled, LeafIndex(50));
    bench.ledger(LedgerEvent::Ended { cell, reason, index });
    assert_eq!(bench.standing(cell), Standing::Finished(Ending::Ended { reason, index }));
    let again = bench.step(Input::Cancel { request, target: CancelTarget::Submission(id) });
    assert_eq!(again, [Effect::Reply { request, reply: Reply::Cancelled { cells: 0 } }]);
    let target = CancelTarget::Cell(CellId([0; 32]));
    assert_eq!(refusal(&bench.step(Input::Cancel { request, target })), "cancel/unknown");
}

#[test]
fn a_drained_node_finishes_and_takes_no_more_even_after_a_restart() {
    let mut bench = Bench::new();
    bench.join(1);
    let (cells, effects) = bench.submit(2, "a");
    let (granted, _) = bench.record(&effects);
    let request = bench.request();
    let effects = bench.step(Input::Drain { request, node: node(1), intent: DrainIntent::Drain });
    assert!(effects.contains(&Effect::Reply { request, reply: Reply::Drained { running: 1 } }));
    let told = |number, intent| Effect::Intake { node: node(1), session: session(number), intent };
    assert!(effects.contains(&told(1, DrainIntent::Drain)), "{effects:?}");
    let effects = bench.commit(&granted[0], Status::Ok, Blame::Nobody);
    assert_eq!(grants(&effects), []);
    assert_eq!(bench.obstacles(cells[1]), [Obstacle::Draining { devices: 1 }]);
    let (mut bench, _) = bench.restarted();
    let joined = bench.join(1);
    assert_eq!(grants(&joined), []);
    assert!(joined.contains(&told(1, DrainIntent::Drain)), "a drain is said again on each connection");
    let effects = bench.step(Input::Drain { request, node: node(1), intent: DrainIntent::Resume });
    assert_eq!(grants(&effects).len(), 1);
    assert!(effects.contains(&told(1, DrainIntent::Resume)), "{effects:?}");
    let unknown = bench.step(Input::Drain { request, node: node(7), intent: DrainIntent::Drain });
    assert_eq!(refusal(&unknown), "node/unknown");
}

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
fn a_submission_made_twice_is_one_and_bad_ones_are_refused() {
    let mut bench = Bench::new();
    let (_, first) = bench.submit(1, "a");
    assert_eq!(refusal(&first), "");
    let (_, again) = bench.submit(1, "a");
    let already =
        |effect: &Effect| matches!(effect, Effect::Reply { reply: Reply::AlreadyAccepted { .. }, .. });
    assert!(again.len() == 1 && already(&again[0]));
    let check = |change: fn(&mut Submission, &mut Terms), code: &str| {
        let (mut wrong, mut terms) = (submission(2, "wrong"), terms());
        change(&mut wrong, &mut terms);
        let effects = Bench::new().submit_with(wrong, terms);
        assert_eq!((refusal(&effects).as_str(), effects.len()), (code, 1));
    };
    check(|wrong, _| wrong.candidates.clear(), "submit/empty");
    check(|wrong, _| wrong.targets.clear(), "submit/empty");
    check(|wrong, _| wrong.candidates[1] = wrong.candidates[0], "submit/duplicate-cell");
    check(|wrong, _| wrong.candidates = vec![CandidateId([0; 32]); 10_001], "submit/too-many-cells");
    check(|_, terms| terms.seeds = 0, "submit/seeds");
    check(|_, terms| terms.seeds = 1 << 20, "submit/seeds");
}

#[test]
fn a_cell_answered_by_an_earlier_result_is_finished_at_once() {
    let mut bench = Bench::new();
    bench.join(1);
    let submission = submission(1, "a");
    let cell = submission.cells(submission.id().unwrap())[0].0;
    let request = bench.request();
    let (terms, entropy, reused) = (terms(), Digest([5; 32]), BTreeMap::from([(cell, LeafIndex(4))]));
    let effects = bench.step(Input::Submit(SubmitRequest { request, submission, terms, entropy, reused }));
    assert_eq!(grants(&effects), []);
    assert!(matches!(effects.last(), Some(Effect::Publish(Event::SubmissionFinished { .. }))));
    assert_eq!(bench.standing(cell), Standing::Finished(Ending::Reused { index: LeafIndex(4) }));
    assert_eq!(bench.restarted().0.standing(cell), bench.standing(cell));
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

#[test]
fn an_invite_is_bound_to_the_first_key_that_uses_it() {
    let mut bench = Bench::new();
    let (id, secret, key) = (InviteId("i".to_owned()), Digest([1; 32]), Digest([2; 32]));
    let invite = Invite { id: id.clone(), secret_hash: secret, expires_unix_ms: 1_000, uses: 1, class: None };
    let request = bench.request();
    let effects = bench.step(Input::CreateInvite { request, invite: invite.clone() });
    assert!(effects.contains(&Effect::Reply { request, reply: Reply::InviteCreated }));
    let consume = |bench: &mut Bench, secret_hash, key, now_unix_ms| {
        let invite = id.clone();
        bench.step(Input::ConsumeInvite { request, invite, secret_hash, key, now_unix_ms })
    };
    assert_eq!(refusal(&consume(&mut bench, key, key, 0)), "invite/unknown");
    assert_eq!(refusal(&consume(&mut bench, secret, key, 1_000)), "invite/expired");
    let used = consume(&mut bench, secret, key, 999);
    assert!(matches!(used[0], Effect::Persist { fact: Fact::InviteConsumed { .. }, .. }));
    let (mut bench, _) = bench.restarted();
    let again = consume(&mut bench, secret, key, 5_000);
    assert_eq!(again, [Effect::Reply { request, reply: Reply::InviteConsumed { class: None } }]);
    assert_eq!(refusal(&consume(&mut bench, secret, Digest([3; 32]), 0)), "invite/used");
    assert_eq!(refusal(&bench.step(Input::CreateInvite { request, invite })), "invite/name");
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

#[test]
fn a_hello_with_too_much_or_a_device_twice_is_refused() {
    let mut bench = Bench::new();
    let twice = [device("CPU-1", CLASS, 1), device("CPU-1", CLASS, 1)];
    assert_eq!(refusal(&bench.hello(node(1), 1, &twice, &[])), "node/device-twice");
    let many: Vec<_> = (0..65).map(|number| device(&number.to_string(), CLASS, 1)).collect();
    assert_eq!(refusal(&bench.hello(node(1), 1, &many, &[])), "node/too-much");
    assert_eq!(bench.scheduler.nodes(), []);
}

fn claim(grant: &Grant) -> Claim {
    let Grant { cell, fence, node, device, nonce, .. } = grant.clone();
    Claim { cell, fence, node, device, nonce, record: RecordId([1; 32]) }
}

fn committed(claim: &Claim, status: Status, blame: Blame, index: u64) -> LedgerEvent {
    let (cell, fence, record, index) = (claim.cell, claim.fence, claim.record, LeafIndex(index));
    LedgerEvent::Committed { cell, fence, record, status, blame, index }
}

#[test]
fn the_table_accepts_a_result_once_and_from_its_lease_alone() {
    let mut bench = Bench::new();
    bench.join(1);
    bench.join(2);
    let (_, effects) = bench.submit(2, "a");
    let (granted, _) = bench.record(&effects);
    let mut table = AcceptanceTable::default();
    for grant in &granted {
        table.granted(&LeaseGrant::from(grant));
    }
    let (good, other) = (claim(&granted[0]), claim(&granted[1]));
    let refused = |table: &AcceptanceTable, claim: Claim| match table.judge(&claim) {
        Judgement::Refuse(reason) => reason,
        judgement => panic!("{judgement:?}"),
    };
    // A valid result of one cell, sent for another cell, by another node, for another device or attempt.
    assert_eq!(refused(&table, Claim { cell: other.cell, ..good.clone() }), RefuseReason::StaleFence);
    assert_eq!(refused(&table, Claim { cell: CellId([0; 32]), ..good.clone() }), RefuseReason::UnknownCell);
    assert_eq!(refused(&table, Claim { node: other.node, ..good.clone() }), RefuseReason::WrongNode);
    assert_eq!(refused(&table, Claim { device: other.device, ..good.clone() }), RefuseReason::WrongDevice);
    assert_eq!(refused(&table, Claim { nonce: other.nonce, ..good.clone() }), RefuseReason::WrongNonce);
    assert_eq!(refused(&table, Claim { fence: Fence(99), ..good.clone() }), RefuseReason::UnknownFence);
    assert_eq!(table.judge(&good), Judgement::Accept);
    table.apply(&committed(&good, Status::Ok, Blame::Nobody, 7));
    assert_eq!(table.judge(&good), Judgement::AlreadyRecorded(LeafIndex(7)));
    let second = Claim { record: RecordId([2; 32]), ..good.clone() };
    assert_eq!(refused(&table, second.clone()), RefuseReason::CellClosed);
    let reason = RefuseReason::CellClosed;
    table.refused(second.cell, second.fence, second.record, LeafIndex(8), reason);
    assert_eq!(table.judge(&second), Judgement::AlreadyRefused(LeafIndex(8), reason));
    assert!(!table.may_lose(good.cell, good.fence) && !table.may_end(good.cell));
}

#[test]
fn the_table_refuses_a_late_result_and_takes_that_of_the_next_attempt() {
    let mut table = AcceptanceTable::default();
    let lease = |fence| LeaseGrant {
        fence: Fence(fence),
        cell: CellId([1; 32]),
        node: node(1),
        device: DeviceId("CPU-1".to_owned()),
        nonce: Nonce([u8::try_from(fence).unwrap(); 32]),
        seeds: vec![],
    };
    let claim = |fence: u64| {
        let LeaseGrant { fence, cell, node, device, nonce, seeds: _ } = lease(fence);
        Claim { cell, fence, node, device, nonce, record: RecordId([9; 32]) }
    };
    table.granted(&lease(3));
    assert!(table.may_lose(CellId([1; 32]), Fence(3)));
    table.apply(&LedgerEvent::Lost { cell: CellId([1; 32]), fence: Fence(3), index: LeafIndex(0) });
    assert_eq!(table.judge(&claim(3)), Judgement::Refuse(RefuseReason::StaleFence));
    table.granted(&lease(5));
    table.granted(&lease(3));
    assert_eq!(table.judge(&claim(3)), Judgement::Refuse(RefuseReason::StaleFence));
    assert_eq!(table.judge(&claim(5)), Judgement::Accept);
    table.apply(&committed(&claim(5), Status::Infrastructure, Blame::Fleet, 4));
    assert!(table.may_end(CellId([1; 32])), "a retried result leaves the cell open");
    assert_eq!(table.judge(&claim(5)), Judgement::AlreadyRecorded(LeafIndex(4)));
    let (cell, reason, index) = (CellId([1; 32]), EndReason::Cancelled, LeafIndex(6));
    table.apply(&LedgerEvent::Ended { cell, reason, index });
    table.granted(&lease(8));
    assert_eq!(table.judge(&claim(8)), Judgement::Refuse(RefuseReason::CellClosed));
}

#[test]
fn changed_devices_count_at_once_and_what_runs_goes_on() {
    let mut bench = Bench::new();
    bench.join(1);
    let (cells, effects) = bench.submit(2, "a");
    let (granted, _) = bench.record(&effects);
    assert_eq!(granted.len(), 1, "one device, one lease");
    let class = granted[0].class.to_string();
    let changed = |devices| Input::DevicesChanged { node: node(1), session: session(1), devices };
    let old = Input::DevicesChanged { node: node(1), session: session(0), devices: vec![] };
    assert_eq!(bench.step(old), [], "words of another connection are ignored");
    let more = bench.step(changed(vec![device("second", &class, 1 << 40)]));
    let (second, _) = bench.record(&more);
    assert_eq!(second.len(), 1, "the new device takes the cell that waited: {more:?}");
    assert_eq!(second[0].device, DeviceId("second".to_owned()));
    assert_eq!(losses(&more), [], "the attempt on the device that is gone goes on");
    bench.commit(&granted[0], Status::Ok, Blame::Nobody);
    assert!(matches!(bench.standing(granted[0].cell), Standing::Finished(_)));
    let (_, effects) = bench.submit(1, "b");
    assert_eq!(grants(&effects), [], "the device that is gone takes no more");
    assert_eq!(cells.len(), 2);
    let twice = bench.step(changed(vec![device("x", &class, 1), device("x", &class, 1)]));
    assert_eq!(refusal(&twice), "node/device-twice");
}
