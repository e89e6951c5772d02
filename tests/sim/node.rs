//! A simulated node: runs attempts, keeps an outbox, crashes, pauses, loses its connection.

use crate::random::Random;
use crate::world::{CLASSES, Happening, World};
use coordinator::scheduler::{Claim, DrainIntent, Grant, HeldAttempt, SessionId, Stop};
use fleet_config::domain::{
    Architecture, Blame, CellId, DeviceDescription, DeviceId, DeviceKind, Facts, Fence, NodeId, RecordId,
    Stage, Status,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) enum ToCoordinator {
    Hello { devices: Vec<DeviceDescription>, held: Vec<HeldAttempt> },
    Heartbeat,
    Progress { cell: CellId, fence: Fence, stage: Stage },
    Stopped { cell: CellId, fence: Fence, how: Stop },
    Result(SimResult),
}

#[derive(Debug, Clone)]
pub(crate) enum ToNode {
    Assign(Box<Grant>),
    Cancel { cell: CellId, fence: Fence },
    Acknowledge { cell: CellId, fence: Fence },
}

/// A signed result.
#[derive(Debug, Clone)]
pub(crate) struct SimResult {
    pub(crate) claim: Claim,
    pub(crate) status: Status,
    pub(crate) blame: Blame,
}

pub(crate) struct SimNode {
    pub(crate) id: NodeId,
    devices: Vec<DeviceDescription>,
    pub(crate) session: Option<SessionId>,
    /// Coordinator life that the session belongs to.
    session_life: u64,
    /// Latest delivery on the control stream, in each direction: it keeps its order.
    control_in: Duration,
    control_out: Duration,
    running: BTreeMap<(CellId, Fence), Grant>,
    /// Synced before it is sent: survives a crash.
    outbox: BTreeMap<(CellId, Fence), SimResult>,
    /// Cancelled attempts: an assignment that comes later is not started.
    cancelled: BTreeSet<(CellId, Fence)>,
    /// Process lives so far.
    life: u64,
    health: Health,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Up,
    Down,
    /// Stopped as by SIGSTOP: its clock runs, it does nothing.
    Paused {
        until: Duration,
    },
}

impl SimNode {
    pub(crate) fn new(number: usize, random: &mut Random) -> Self {
        let id = NodeId(random.bytes());
        let count = if number.is_multiple_of(5) { 2 } else { 1 };
        let device = |slot: usize| {
            let architecture: Architecture = CLASSES[(number + slot) % CLASSES.len()].parse().unwrap();
            DeviceDescription {
                id: DeviceId(format!("CPU-{number}-{slot}")),
                kind: DeviceKind::Cpu,
                architecture,
                memory: 1 << 30,
                identity: Facts::new(),
                configuration: Facts::new(),
                attributes: BTreeMap::new(),
            }
        };
        Self {
            id,
            devices: (0..count).map(device).collect(),
            session: None,
            session_life: 0,
            control_in: Duration::ZERO,
            control_out: Duration::ZERO,
            running: BTreeMap::new(),
            outbox: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            life: 0,
            health: Health::Down,
        }
    }

    fn held(&self) -> Vec<HeldAttempt> {
        let running = self.running.values().map(|grant| (grant.cell, grant.fence, grant.device.clone()));
        let waiting = self.outbox.values().map(|result| {
            let Claim { cell, fence, device, .. } = result.claim.clone();
            (cell, fence, device)
        });
        running.chain(waiting).map(|(cell, fence, device)| HeldAttempt { cell, fence, device }).collect()
    }
}

const HEARTBEAT: Duration = Duration::from_secs(15);
const RESEND: Duration = Duration::from_secs(5);

impl World {
    /// Whether the node's process runs now; what happens to a paused one is put off.
    fn is_awake(&mut self, id: NodeId, happening: impl FnOnce() -> Happening) -> bool {
        match self.nodes[&id].health {
            Health::Up => true,
            Health::Down => false,
            Health::Paused { until } if until > self.now => {
                self.at(until, happening());
                false
            }
            Health::Paused { .. } => {
                self.node(id).health = Health::Up;
                true
            }
        }
    }

    fn node(&mut self, id: NodeId) -> &mut SimNode {
        self.nodes.get_mut(&id).unwrap()
    }

    pub(crate) fn on_node_start(&mut self, id: NodeId) {
        let node = self.node(id);
        node.health = Health::Up;
        node.life += 1;
        let life = node.life;
        self.after(Duration::ZERO, Happening::Connect { node: id, life });
        self.after(HEARTBEAT, Happening::Heartbeat { node: id, life });
        self.after(RESEND, Happening::Resend { node: id, life });
    }

    pub(crate) fn on_connect(&mut self, id: NodeId, life: u64) {
        let node = &self.nodes[&id];
        if node.life != life || !self.is_awake(id, || Happening::Connect { node: id, life }) {
            return;
        }
        if self.nodes[&id].session.is_some() {
            return;
        }
        if self.coordinator.is_none() {
            let delay = self.random.duration_ms(200, 3_000);
            self.after(delay, Happening::Connect { node: id, life });
            return;
        }
        self.last_session += 1;
        let (session, coordinator_life, now) = (SessionId(self.last_session), self.life, self.now);
        let node = self.node(id);
        node.session = Some(session);
        node.session_life = coordinator_life;
        node.control_in = now;
        node.control_out = now;
        let hello = ToCoordinator::Hello { devices: node.devices.clone(), held: node.held() };
        self.say(id, hello);
        self.send_outbox(id);
    }

    pub(crate) fn on_heartbeat_due(&mut self, id: NodeId, life: u64) {
        if self.nodes[&id].life != life || !self.is_awake(id, || Happening::Heartbeat { node: id, life }) {
            return;
        }
        self.after(HEARTBEAT, Happening::Heartbeat { node: id, life });
        self.say(id, ToCoordinator::Heartbeat);
    }

    pub(crate) fn on_resend(&mut self, id: NodeId, life: u64) {
        if self.nodes[&id].life != life || !self.is_awake(id, || Happening::Resend { node: id, life }) {
            return;
        }
        self.after(RESEND, Happening::Resend { node: id, life });
        self.send_outbox(id);
    }

    fn send_outbox(&mut self, id: NodeId) {
        let results: Vec<SimResult> = self.nodes[&id].outbox.values().cloned().collect();
        for result in results {
            self.say(id, ToCoordinator::Result(result));
        }
    }

    /// Control words keep their order and are lost only with the session; results travel alone, in any order.
    fn say(&mut self, id: NodeId, message: ToCoordinator) {
        let node = &self.nodes[&id];
        let (Some(session), life) = (node.session, node.session_life) else { return };
        let own_stream = matches!(message, ToCoordinator::Result(_));
        let mut time = self.now + self.random.duration_ms(0, if own_stream { 400 } else { 40 });
        if self.trouble(self.weather.loss) {
            if !own_stream {
                self.break_session(id, session);
            }
            return;
        }
        if own_stream && self.trouble(self.weather.duplication) {
            let again = self.now + self.random.duration_ms(0, 2_000);
            let message = message.clone();
            self.at(again, Happening::ToCoordinator { life, node: id, session, message });
        }
        if !own_stream {
            time = time.max(self.nodes[&id].control_in);
            self.node(id).control_in = time;
        }
        self.at(time, Happening::ToCoordinator { life, node: id, session, message });
    }

    pub(crate) fn send_to_node(&mut self, id: NodeId, session: SessionId, message: ToNode) {
        if self.nodes[&id].session != Some(session) {
            return;
        }
        let own_stream = !matches!(message, ToNode::Cancel { .. });
        if self.trouble(self.weather.loss) {
            if !own_stream {
                self.break_session(id, session);
            }
            return;
        }
        let mut time = self.now + self.random.duration_ms(0, if own_stream { 400 } else { 40 });
        if own_stream && self.trouble(self.weather.duplication) {
            let again = self.now + self.random.duration_ms(0, 2_000);
            self.at(again, Happening::ToNode { node: id, session, message: message.clone() });
        }
        if !own_stream {
            time = time.max(self.nodes[&id].control_out);
            self.node(id).control_out = time;
        }
        self.at(time, Happening::ToNode { node: id, session, message });
    }

    /// Both sides learn of it, each in its own time.
    pub(crate) fn break_session(&mut self, id: NodeId, session: SessionId) {
        let (life, delay) = (self.life, self.random.duration_ms(0, 1_000));
        self.after(delay, Happening::SessionBroken { life, node: id, session });
        self.node_loses_session(id, session);
    }

    pub(crate) fn node_loses_session(&mut self, id: NodeId, session: SessionId) {
        let delay = self.random.duration_ms(50, 3_000);
        let node = self.node(id);
        if node.session == Some(session) {
            node.session = None;
            let life = node.life;
            self.after(delay, Happening::Connect { node: id, life });
        }
    }

    pub(crate) fn on_message_to_node(&mut self, id: NodeId, session: SessionId, message: ToNode) {
        if self.nodes[&id].session != Some(session) {
            return;
        }
        let again = || Happening::ToNode { node: id, session, message: message.clone() };
        if !self.is_awake(id, again) {
            return;
        }
        match message {
            ToNode::Assign(grant) => self.on_assign(id, *grant),
            ToNode::Cancel { cell, fence } => {
                let node = self.node(id);
                node.cancelled.insert((cell, fence));
                node.running.remove(&(cell, fence));
                self.say(id, ToCoordinator::Stopped { cell, fence, how: Stop::Cancelled });
            }
            ToNode::Acknowledge { cell, fence } => {
                self.node(id).outbox.remove(&(cell, fence));
            }
        }
    }

    fn on_assign(&mut self, id: NodeId, grant: Grant) {
        let key = (grant.cell, grant.fence);
        let duration = self.random.duration_ms(200, 12_000);
        let node = &self.nodes[&id];
        if node.cancelled.contains(&key) || node.running.contains_key(&key) || node.outbox.contains_key(&key)
        {
            return;
        }
        if self.disk.ended.contains(&grant.fence) {
            // A duplicate that comes after the attempt was reported and acknowledged: the session machine knows.
            return;
        }
        for other in node.running.values().filter(|other| other.device == grant.device) {
            assert!(self.disk.ended.contains(&other.fence), "two live leases on one device");
        }
        let (cell, fence, life) = (grant.cell, grant.fence, node.life);
        self.node(id).running.insert(key, grant);
        self.say(id, ToCoordinator::Progress { cell, fence, stage: Stage::Compile });
        self.after(duration, Happening::AttemptDone { node: id, life, cell, fence });
    }

    pub(crate) fn on_attempt_done(&mut self, id: NodeId, life: u64, cell: CellId, fence: Fence) {
        let done = || Happening::AttemptDone { node: id, life, cell, fence };
        if self.nodes[&id].life != life || !self.is_awake(id, done) {
            return;
        }
        let Some(grant) = self.node(id).running.remove(&(cell, fence)) else { return };
        if self.trouble(self.weather.fleet_fault / 2) {
            self.node(id).cancelled.insert((cell, fence));
            self.say(id, ToCoordinator::Stopped { cell, fence, how: Stop::Abandoned });
            return;
        }
        let (status, blame) = if self.trouble(self.weather.fleet_fault) {
            (Status::Infrastructure, Blame::Fleet)
        } else if self.random.chance(300) {
            (Status::WrongResult, Blame::Candidate)
        } else if self.random.chance(20) {
            (Status::WorkerLost, Blame::Candidate)
        } else {
            (Status::Ok, Blame::Nobody)
        };
        let Grant { node, device, nonce, .. } = grant;
        let claim = Claim { cell, fence, node, device, nonce, record: RecordId(self.random.bytes()) };
        let result = SimResult { claim, status, blame };
        self.node(id).outbox.insert((cell, fence), result.clone());
        self.say(id, ToCoordinator::Result(result));
    }

    /// Something happens to some node: crash, pause, broken connection or drain.
    pub(crate) fn on_node_trouble(&mut self) {
        if !self.is_stormy() {
            return;
        }
        let next = self.random.duration_ms(1, 2 * self.weather.trouble_ms);
        self.after(next, Happening::NodeTrouble);
        let pick = self.random.below(self.nodes.len() as u64);
        let Some(id) = self.nodes.keys().nth(usize::try_from(pick).unwrap()).copied() else { return };
        match self.random.below(6) {
            0 | 1 => {
                let session = self.nodes[&id].session;
                if let Some(session) = session {
                    self.break_session(id, session);
                }
            }
            2 | 3 if self.nodes[&id].health == Health::Up => {
                // Short pauses nobody notices, long ones outlive the node's timeout and the lease.
                let pause = self.random.duration_ms(100, 120_000);
                let until = self.now + pause;
                self.node(id).health = Health::Paused { until };
            }
            4 if self.nodes[&id].health == Health::Up => {
                let delay = self.random.duration_ms(100, 90_000);
                if let Some(session) = self.nodes[&id].session {
                    self.break_session(id, session);
                }
                let node = self.node(id);
                node.health = Health::Down;
                node.running.clear();
                node.cancelled.clear();
                self.after(delay, Happening::NodeStart { node: id });
            }
            5 => {
                self.after(Duration::ZERO, Happening::Drain { node: id, intent: DrainIntent::Drain });
                let later = self.random.duration_ms(1_000, 60_000);
                self.after(later, Happening::Drain { node: id, intent: DrainIntent::Resume });
            }
            _ => {}
        }
    }
}
