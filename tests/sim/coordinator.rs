//! The coordinator of the simulation: the real scheduler and acceptance table, with a driver and a ledger writer
//! that can die between any two effects.

use crate::node::{SimResult, ToCoordinator, ToNode};
use crate::world::{Entry, Happening, World};
use coordinator::scheduler::{
    AcceptanceTable, CancelTarget, Claim, DrainIntent, Effect, EndReason, Fact, Grant, Input, Judgement,
    LeaseGrant, LedgerEvent, Reply, RequestId, Scheduler, SessionId, Stop, SubmitRequest, Terms,
};
use fleet_config::domain::{Bytes, CellId, Digest, Fence, LeafIndex, Milliseconds, NodeId, SubmissionId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What dies with the process.
pub(crate) struct Coordinator {
    pub(crate) scheduler: Scheduler,
    table: AcceptanceTable,
    writer: VecDeque<Command>,
    /// Submissions whose reply is awaited, by request.
    requests: BTreeMap<u64, SubmissionId>,
    next_request: u64,
    wake: Option<Duration>,
    /// Ledger events that are durable and not yet fed.
    notices: usize,
}

/// What the ledger's writer is asked to append.
enum Command {
    Grants(Vec<Grant>),
    Lost { cell: CellId, fence: Fence },
    End { cell: CellId, reason: EndReason },
    Result { node: NodeId, session: SessionId, result: SimResult },
}

/// Most entries of one sync.
const BATCH: usize = 64;

impl Coordinator {
    /// Nothing is open and nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.writer.is_empty()
            && self.notices == 0
            && self.scheduler.submissions().iter().all(|submission| submission.open == 0)
    }
}

impl World {
    pub(crate) fn on_coordinator_start(&mut self) {
        self.life += 1;
        let mut scheduler = Scheduler::replay(self.disk.journal.iter().cloned()).unwrap();
        let mut table = AcceptanceTable::default();
        for (_, fact) in &self.disk.journal {
            if let Fact::LeaseGranted(grant) = fact {
                table.granted(grant);
            }
        }
        for (index, entry) in self.disk.ledger.iter().enumerate() {
            match entry {
                Entry::Event(event) => {
                    table.apply(event);
                    assert_eq!(scheduler.step(Duration::ZERO, Input::Ledger(event.clone())), []);
                }
                Entry::Refused { cell, fence, record, reason } => {
                    table.refused(*cell, *fence, *record, LeafIndex(index as u64), *reason);
                }
            }
        }
        self.coordinator = Some(Coordinator {
            scheduler,
            table,
            writer: VecDeque::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            wake: None,
            notices: 0,
        });
        self.feed(Input::RecoveryComplete);
    }

    fn crash_coordinator(&mut self) {
        self.crashes += 1;
        self.coordinator = None;
        let delay = self.random.duration_ms(100, 20_000);
        self.after(delay, Happening::CoordinatorStart);
        let sessions: Vec<(NodeId, SessionId)> =
            self.nodes.values().filter_map(|node| Some((node.id, node.session?))).collect();
        for (node, session) in sessions {
            self.node_loses_session(node, session);
        }
    }

    /// One step and its effects. The process may die before, within and after the journal's write, and between
    /// any two effects.
    pub(crate) fn feed(&mut self, input: Input) {
        let Some(coordinator) = &mut self.coordinator else { return };
        let effects = coordinator.scheduler.step(self.now, input);
        let dies = self.trouble(self.weather.coordinator_crash);
        let (facts, others): (Vec<Effect>, Vec<Effect>) =
            effects.into_iter().partition(|effect| matches!(effect, Effect::Persist { .. }));
        let kept = if dies { self.random.below(facts.len() as u64 + 1) } else { facts.len() as u64 };
        for effect in facts.into_iter().take(usize::try_from(kept).unwrap()) {
            if let Effect::Persist { sequence, fact } = effect {
                self.persist(sequence, fact);
            }
        }
        let done = if dies { self.random.below(others.len() as u64 + 1) } else { others.len() as u64 };
        // A torn journal write ends the process at once; a whole one lets some effects happen first.
        let whole = self.coordinator.as_ref().map(|coordinator| coordinator.scheduler.next_sequence())
            == Some(self.disk.journal.len() as u64 + 1);
        if whole {
            for effect in others.into_iter().take(usize::try_from(done).unwrap()) {
                self.perform(effect);
            }
        }
        if dies {
            self.crash_coordinator();
            return;
        }
        self.schedule_wake();
    }

    fn schedule_wake(&mut self) {
        let Some(coordinator) = &mut self.coordinator else { return };
        let Some(wake) = coordinator.scheduler.next_wake() else { return };
        let wake = wake.max(self.now);
        if coordinator.wake.is_none_or(|planned| wake < planned || planned < self.now) {
            coordinator.wake = Some(wake);
            let life = self.life;
            self.at(wake, Happening::Wake { life });
        }
    }

    pub(crate) fn on_wake(&mut self, life: u64) {
        if life != self.life {
            return;
        }
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.wake = None;
        }
        self.feed(Input::Tick);
    }

    /// A fact becomes durable. The checks that belong to a decision are made here.
    fn persist(&mut self, sequence: u64, fact: Fact) {
        assert_eq!(sequence, self.disk.journal.len() as u64 + 1, "the journal numbers facts without a gap");
        match &fact {
            Fact::LeaseGranted(grant) => {
                assert_eq!(grant.fence.0, sequence);
                assert!(!self.disk.drained.contains(&grant.node), "a drained node takes no work");
                let device = (grant.node, grant.device.clone());
                if let Some(earlier) = self.disk.device_fence.insert(device, grant.fence) {
                    assert!(self.disk.ended.contains(&earlier), "fence {earlier} still holds the device");
                }
            }
            Fact::NodeDrained { node } => {
                self.disk.drained.insert(*node);
            }
            Fact::NodeUndrained { node } => {
                self.disk.drained.remove(node);
            }
            Fact::SubmissionAccepted(_)
            | Fact::Cancelled(_)
            | Fact::InviteCreated(_)
            | Fact::InviteConsumed { .. } => {}
        }
        self.disk.journal.push((sequence, fact));
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Persist { .. } => unreachable!("facts were written first"),
            Effect::RecordGrants(grants) => self.enqueue(Command::Grants(grants)),
            Effect::RecordLost { about, fence, .. } => {
                self.enqueue(Command::Lost { cell: about.cell, fence })
            }
            Effect::RecordEnd { about, reason, .. } => {
                self.enqueue(Command::End { cell: about.cell, reason })
            }
            Effect::Assign { session, grant } => {
                assert!(self.disk.granted.contains(&grant.fence), "assigned before its grant was recorded");
                self.send_to_node(grant.node, session, ToNode::Assign(grant));
            }
            Effect::CancelOnNode { node, session, cell, fence } => {
                self.send_to_node(node, session, ToNode::Cancel { cell, fence });
            }
            Effect::Disconnect { node, session, refusal: _ } => self.break_session(node, session),
            Effect::Reply { request, reply } => self.on_reply(request, reply),
            // Simulated nodes do as they are leased; the wish is told to people's nodes alone.
            Effect::Publish(_) | Effect::Intake { .. } => {}
            Effect::Halt { refusal } => panic!("halted: {refusal}"),
        }
    }

    fn on_reply(&mut self, request: RequestId, reply: Reply) {
        let Some(coordinator) = &mut self.coordinator else { return };
        let submission = coordinator.requests.remove(&request.0);
        match reply {
            Reply::Accepted { submission: id, .. } | Reply::AlreadyAccepted { submission: id } => {
                assert_eq!(submission, Some(id));
                self.acknowledged.insert(id);
            }
            Reply::Cancelled { .. } | Reply::Drained { .. } => {}
            Reply::Refused(refusal) => assert!(
                ["cancel/unknown", "node/unknown"].contains(&refusal.code.as_ref()),
                "unexpected refusal: {refusal}"
            ),
            Reply::InviteCreated | Reply::InviteConsumed { .. } => unreachable!("nobody is invited here"),
        }
    }

    fn request(&mut self) -> Option<RequestId> {
        let coordinator = self.coordinator.as_mut()?;
        coordinator.next_request += 1;
        Some(RequestId(coordinator.next_request))
    }

    /// The client sends until it is acknowledged.
    pub(crate) fn on_submit(&mut self, id: SubmissionId) {
        if self.acknowledged.contains(&id) {
            return;
        }
        let again = self.random.duration_ms(1_000, 10_000);
        self.after(again, Happening::Submit { submission: id });
        let Some(request) = self.request() else { return };
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.requests.insert(request.0, id);
        }
        let terms = Terms {
            memory: Bytes(1 << 20),
            queue: None,
            compile: Milliseconds(5_000),
            run: Milliseconds(10_000),
            seeds: 2,
        };
        let entropy = Digest(self.random.bytes());
        let submission = self.submissions[&id].clone();
        let reused = BTreeMap::new();
        self.feed(Input::Submit(Box::new(SubmitRequest { request, submission, terms, entropy, reused })));
    }

    pub(crate) fn on_cancel(&mut self, target: CancelTarget) {
        let Some(request) = self.request() else { return };
        self.cancels_sent += 1;
        self.feed(Input::Cancel { request, target });
    }

    pub(crate) fn on_drain(&mut self, node: NodeId, intent: DrainIntent) {
        let Some(request) = self.request() else {
            self.after(Duration::from_secs(5), Happening::Drain { node, intent });
            return;
        };
        self.feed(Input::Drain { request, node, intent });
    }

    pub(crate) fn on_node_message(
        &mut self,
        life: u64,
        node: NodeId,
        session: SessionId,
        message: ToCoordinator,
    ) {
        if life != self.life || self.coordinator.is_none() {
            return;
        }
        match message {
            ToCoordinator::Hello { devices, held } => {
                self.feed(Input::NodeHello { node, session, devices, held });
            }
            ToCoordinator::Heartbeat => self.feed(Input::Heartbeat { node, session }),
            ToCoordinator::Progress { cell, fence, stage } => {
                self.feed(Input::Progress { node, session, cell, fence, stage });
            }
            ToCoordinator::Stopped { cell, fence, how } => {
                self.feed(Input::AttemptStopped { node, session, cell, fence, how });
            }
            ToCoordinator::Result(result) => {
                let (cell, fence) = (result.claim.cell, result.claim.fence);
                self.enqueue(Command::Result { node, session, result });
                self.feed(Input::AttemptStopped { node, session, cell, fence, how: Stop::Reported });
            }
        }
    }

    fn enqueue(&mut self, command: Command) {
        let Some(coordinator) = &mut self.coordinator else { return };
        coordinator.writer.push_back(command);
        if coordinator.writer.len() == 1 {
            self.schedule_writer();
        }
    }

    fn schedule_writer(&mut self) {
        let delay = self.random.duration_ms(0, self.weather.ledger_ms);
        let life = self.life;
        self.after(delay, Happening::WriterDone { life });
    }

    /// One sync of the writer: the entries of a batch are durable, whoever hears of them.
    pub(crate) fn on_writer_done(&mut self, life: u64) {
        if life != self.life {
            return;
        }
        for _ in 0..BATCH {
            let Some(coordinator) = &mut self.coordinator else { return };
            let Some(command) = coordinator.writer.pop_front() else { return };
            self.write(command);
        }
        if self.coordinator.as_ref().is_some_and(|coordinator| !coordinator.writer.is_empty()) {
            self.schedule_writer();
        }
    }

    fn write(&mut self, command: Command) {
        let Some(coordinator) = &mut self.coordinator else { return };
        match command {
            Command::Grants(grants) => {
                for grant in &grants {
                    coordinator.table.granted(&LeaseGrant::from(grant));
                }
                let fences = grants.iter().map(|grant| grant.fence).collect();
                self.append(|index| LedgerEvent::GrantsRecorded { fences, index });
            }
            Command::Lost { cell, fence } => {
                if coordinator.table.may_lose(cell, fence) {
                    self.append(|index| LedgerEvent::Lost { cell, fence, index });
                }
            }
            Command::End { cell, reason } => {
                if coordinator.table.may_end(cell) {
                    self.append(|index| LedgerEvent::Ended { cell, reason, index });
                }
            }
            Command::Result { node, session, result } => self.write_result(node, session, result),
        }
    }

    fn write_result(&mut self, node: NodeId, session: SessionId, result: SimResult) {
        let Some(coordinator) = &mut self.coordinator else { return };
        let SimResult { claim, status, blame } = result;
        assert_eq!(claim.node, node, "nodes of this simulation are honest");
        let Claim { cell, fence, record, .. } = claim;
        match coordinator.table.judge(&claim) {
            Judgement::Accept => {
                self.append(|index| LedgerEvent::Committed { cell, fence, record, status, blame, index });
            }
            Judgement::AlreadyRecorded(_) | Judgement::AlreadyRefused(_, _) => {}
            Judgement::Refuse(reason) => {
                self.refused += 1;
                let index = LeafIndex(self.disk.ledger.len() as u64);
                coordinator.table.refused(cell, fence, record, index, reason);
                self.disk.ledger.push(Entry::Refused { cell, fence, record, reason });
            }
        }
        self.send_to_node(node, session, ToNode::Acknowledge { cell, fence });
    }

    fn append(&mut self, event: impl FnOnce(LeafIndex) -> LedgerEvent) {
        let event = event(LeafIndex(self.disk.ledger.len() as u64));
        match &event {
            LedgerEvent::GrantsRecorded { fences, .. } => self.disk.granted.extend(fences),
            LedgerEvent::Committed { fence, .. } | LedgerEvent::Lost { fence, .. } => {
                self.disk.ended.insert(*fence);
            }
            LedgerEvent::Ended { cell, .. } => {
                let grants = self.disk.journal.iter().filter_map(|(_, fact)| match fact {
                    Fact::LeaseGranted(grant) if grant.cell == *cell => Some(grant.fence),
                    _ => None,
                });
                self.disk.ended.extend(grants);
            }
        }
        self.disk.ledger.push(Entry::Event(event.clone()));
        let Some(coordinator) = &mut self.coordinator else { return };
        coordinator.table.apply(&event);
        coordinator.notices += 1;
        let life = self.life;
        // Told in their order, and not at all if the process dies first.
        self.after(Duration::ZERO, Happening::LedgerNotice { life, event });
    }

    pub(crate) fn on_ledger_notice(&mut self, life: u64, event: LedgerEvent) {
        if life != self.life {
            return;
        }
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.notices -= 1;
        }
        if self.trouble(self.weather.duplication) {
            self.feed(Input::Ledger(event.clone()));
        }
        self.feed(Input::Ledger(event));
    }

    pub(crate) fn on_session_broken(&mut self, life: u64, node: NodeId, session: SessionId) {
        if life == self.life {
            self.feed(Input::NodeDisconnected { node, session });
        }
    }
}
