//! The simulated fleet: one queue of happenings in simulated time, and what survives a crash.

use crate::coordinator::Coordinator;
use crate::node::{SimNode, ToCoordinator, ToNode};
use crate::random::Random;
use coordinator::scheduler::{CancelTarget, DrainIntent, Fact, LedgerEvent, RefuseReason, SessionId};
use fleet_config::domain::{
    CandidateId, CellId, DeviceClass, DeviceId, Fence, NodeId, PolicyId, Reuse, Submission, SubmissionId,
    TaskId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How a history goes wrong; chances are per mille.
#[derive(Debug, Clone)]
pub(crate) struct Weather {
    pub(crate) nodes: usize,
    pub(crate) submissions: u64,
    pub(crate) candidates: u64,
    /// Trouble ends here; from then on everything must finish.
    pub(crate) calm_after: Duration,
    /// Everything must have finished here.
    pub(crate) end: Duration,
    /// Chance that one step ends in a crash of the coordinator.
    pub(crate) coordinator_crash: u64,
    /// Chance that a message is lost with its session, or alone on its own stream.
    pub(crate) loss: u64,
    pub(crate) duplication: u64,
    /// Mean time between troubles of some node, in milliseconds.
    pub(crate) trouble_ms: u64,
    pub(crate) fleet_fault: u64,
    pub(crate) ledger_ms: u64,
    pub(crate) cancels: u64,
}

/// Everything that can happen.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    Wake { life: u64 },
    ToCoordinator { life: u64, node: NodeId, session: SessionId, message: ToCoordinator },
    ToNode { node: NodeId, session: SessionId, message: ToNode },
    AttemptDone { node: NodeId, life: u64, cell: CellId, fence: Fence },
    Heartbeat { node: NodeId, life: u64 },
    Connect { node: NodeId, life: u64 },
    Resend { node: NodeId, life: u64 },
    NodeTrouble,
    NodeStart { node: NodeId },
    SessionBroken { life: u64, node: NodeId, session: SessionId },
    WriterDone { life: u64 },
    LedgerNotice { life: u64, event: LedgerEvent },
    CoordinatorStart,
    Submit { submission: SubmissionId },
    Cancel { target: CancelTarget },
    Drain { node: NodeId, intent: DrainIntent },
}

/// One durable ledger entry; its index is its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    Event(LedgerEvent),
    Refused { cell: CellId, fence: Fence, record: fleet_config::domain::RecordId, reason: RefuseReason },
}

/// What survives a crash of the coordinator.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) journal: Vec<(u64, Fact)>,
    pub(crate) ledger: Vec<Entry>,
    /// Fences whose end stands in the ledger.
    pub(crate) ended: BTreeSet<Fence>,
    /// Fences whose grant stands in the ledger.
    pub(crate) granted: BTreeSet<Fence>,
    /// Last fence granted for each device.
    pub(crate) device_fence: BTreeMap<(NodeId, DeviceId), Fence>,
    /// Nodes drained by the last fact about them.
    pub(crate) drained: BTreeSet<NodeId>,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) weather: Weather,
    pub(crate) now: Duration,
    happenings: BTreeMap<(Duration, u64), Happening>,
    counter: u64,
    pub(crate) disk: Disk,
    pub(crate) coordinator: Option<Coordinator>,
    pub(crate) nodes: BTreeMap<NodeId, SimNode>,
    pub(crate) last_session: u64,
    /// Coordinator lives so far: words to a dead one are not delivered.
    pub(crate) life: u64,
    pub(crate) submissions: BTreeMap<SubmissionId, Submission>,
    /// Submissions whose acceptance was acknowledged to the client.
    pub(crate) acknowledged: BTreeSet<SubmissionId>,
    /// Cells for which a cancel was acknowledged or may have been journalled.
    pub(crate) cancels_sent: u64,
    pub(crate) crashes: u64,
    pub(crate) refused: u64,
    pub(crate) steps: u64,
}

pub(crate) const CLASSES: [&str; 2] = ["cpu:x86-64-v2", "cpu:x86-64-v3"];

impl World {
    pub(crate) fn new(seed: u64, weather: Weather) -> Self {
        let mut world = Self {
            random: Random::new(seed),
            now: Duration::ZERO,
            happenings: BTreeMap::new(),
            counter: 0,
            disk: Disk::default(),
            coordinator: None,
            nodes: BTreeMap::new(),
            last_session: 0,
            life: 0,
            submissions: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            cancels_sent: 0,
            crashes: 0,
            refused: 0,
            steps: 0,
            weather,
        };
        world.after(Duration::ZERO, Happening::CoordinatorStart);
        for number in 0..world.weather.nodes {
            let node = SimNode::new(number, &mut world.random);
            let id = node.id;
            world.nodes.insert(id, node);
            let delay = world.random.duration_ms(0, 3_000);
            world.after(delay, Happening::NodeStart { node: id });
        }
        for _ in 0..world.weather.submissions {
            world.plan_submission();
        }
        if world.weather.trouble_ms > 0 {
            world.after(Duration::from_secs(1), Happening::NodeTrouble);
        }
        world
    }

    fn plan_submission(&mut self) {
        let candidates = 1 + self.random.below(self.weather.candidates);
        let submission = Submission {
            holdout: None,
            format: Submission::FORMAT.to_owned(),
            task: TaskId(self.random.bytes()),
            candidates: (0..candidates).map(|_| CandidateId(self.random.bytes())).collect(),
            targets: CLASSES.iter().map(|class| class.parse::<DeviceClass>().unwrap()).collect(),
            policy: PolicyId([7; 32]),
            reuse: Reuse::Allowed,
            nonce: self.random.next().to_string(),
        };
        let id = submission.id().unwrap();
        let calm = u64::try_from(self.weather.calm_after.as_millis()).unwrap();
        let at = self.random.duration_ms(0, calm / 2);
        self.after(at, Happening::Submit { submission: id });
        if self.random.chance(self.weather.cancels) {
            let cells = submission.cells(id);
            let target = match self.random.below(2) {
                0 => CancelTarget::Submission(id),
                _ => CancelTarget::Cell(cells[0].0),
            };
            let later = self.random.duration_ms(0, calm / 2);
            self.after(at + later, Happening::Cancel { target });
        }
        self.submissions.insert(id, submission);
    }

    pub(crate) fn after(&mut self, delay: Duration, happening: Happening) {
        self.at(self.now + delay, happening);
    }

    pub(crate) fn at(&mut self, time: Duration, happening: Happening) {
        self.counter += 1;
        self.happenings.insert((time.max(self.now), self.counter), happening);
    }

    pub(crate) fn is_stormy(&self) -> bool {
        self.now < self.weather.calm_after
    }

    /// Chance that holds in trouble only.
    pub(crate) fn trouble(&mut self, per_mille: u64) -> bool {
        self.is_stormy() && self.random.chance(per_mille)
    }

    /// Runs until every submission is acknowledged and finished; panics when that takes too long.
    pub(crate) fn run(&mut self) {
        while let Some(((time, _), happening)) = self.happenings.pop_first() {
            self.now = time;
            assert!(self.now < self.weather.end, "no progress: {}", self.unfinished());
            self.steps += 1;
            self.happen(happening);
            if !self.is_stormy() && self.steps.is_multiple_of(64) && self.is_done() {
                break;
            }
        }
        assert!(self.is_done(), "no happenings left: {}", self.unfinished());
    }

    fn is_done(&self) -> bool {
        let Some(coordinator) = &self.coordinator else { return false };
        self.acknowledged.len() == self.submissions.len() && coordinator.is_idle()
    }

    fn unfinished(&self) -> String {
        let acknowledged = self.acknowledged.len();
        let mut text = format!("{acknowledged} of {} submissions acknowledged", self.submissions.len());
        let Some(coordinator) = &self.coordinator else { return text + ", coordinator down" };
        for id in self.submissions.keys() {
            for cell in coordinator.scheduler.cells(*id) {
                let explanation = coordinator.scheduler.explain(cell.id);
                match explanation {
                    Some(coordinator::scheduler::explain::Explanation::Finished(_)) => {}
                    other => text += &format!("\n  {}: {other:?}", cell.id.short()),
                }
            }
        }
        text.truncate(4_000);
        text
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Wake { life } => self.on_wake(life),
            Happening::ToCoordinator { life, node, session, message } => {
                self.on_node_message(life, node, session, message);
            }
            Happening::ToNode { node, session, message } => self.on_message_to_node(node, session, message),
            Happening::AttemptDone { node, life, cell, fence } => {
                self.on_attempt_done(node, life, cell, fence)
            }
            Happening::Heartbeat { node, life } => self.on_heartbeat_due(node, life),
            Happening::Connect { node, life } => self.on_connect(node, life),
            Happening::Resend { node, life } => self.on_resend(node, life),
            Happening::NodeTrouble => self.on_node_trouble(),
            Happening::NodeStart { node } => self.on_node_start(node),
            Happening::SessionBroken { life, node, session } => self.on_session_broken(life, node, session),
            Happening::WriterDone { life } => self.on_writer_done(life),
            Happening::LedgerNotice { life, event } => self.on_ledger_notice(life, event),
            Happening::CoordinatorStart => self.on_coordinator_start(),
            Happening::Submit { submission } => self.on_submit(submission),
            Happening::Cancel { target } => self.on_cancel(target),
            Happening::Drain { node, intent } => self.on_drain(node, intent),
        }
    }
}
