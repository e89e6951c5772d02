//! What windows may look at: plain copies of the state, for status, node list and metrics.

use super::Scheduler;
use super::cell_state::CellState;
use super::effect::Ending;
use super::lease::LeasePhase;
use super::node_state::NodeState;
use fleet_config::domain::{
    CandidateId, CellId, DeviceClass, DeviceDescription, DeviceId, Fence, NodeId, PolicyId, SubmissionId,
    TaskId,
};

/// A submission and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmissionView {
    pub id: SubmissionId,
    /// Journal sequence number of its acceptance: the order of submissions.
    pub sequence: u64,
    pub task: TaskId,
    pub policy: PolicyId,
    pub cells: usize,
    pub open: usize,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellView {
    pub id: CellId,
    pub candidate: CandidateId,
    pub class: DeviceClass,
    pub attempts: u32,
    pub standing: Standing,
}

/// Where a cell stands, in a word; [`Scheduler::explain`] says more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Queued,
    Backoff,
    Leased { fence: Fence },
    Ending,
    Finished(Ending),
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    pub id: NodeId,
    pub state: NodeState,
    pub link: Link,
    pub devices: Vec<DeviceView>,
}

/// Whether a node is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Connected,
    Away,
}

/// One device of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceView {
    pub id: DeviceId,
    /// `None` when it is no longer offered while its lease is open.
    pub offer: Option<DeviceDescription>,
    pub running: Option<(CellId, Fence)>,
    /// Attempts that are over and may still run there.
    pub stopping: usize,
}

/// Sizes, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub queued: usize,
    pub backoff: usize,
    pub leased: usize,
    pub ending: usize,
    pub leases_ending: usize,
    pub nodes: usize,
    pub submissions_open: usize,
}

impl Scheduler {
    /// Submissions that are open or lately finished, in the order of acceptance.
    pub fn submissions(&self) -> Vec<SubmissionView> {
        let mut all: Vec<SubmissionView> =
            self.submissions.keys().filter_map(|id| self.submission(*id)).collect();
        all.sort_by_key(|submission| submission.sequence);
        all
    }

    /// One submission.
    pub fn submission(&self, id: SubmissionId) -> Option<SubmissionView> {
        let state = self.submissions.get(&id)?;
        Some(SubmissionView {
            id,
            sequence: state.sequence,
            task: state.task,
            policy: state.policy,
            cells: state.cells.len(),
            open: state.open,
        })
    }

    /// The cells of a submission in the order candidates × targets.
    pub fn cells(&self, id: SubmissionId) -> Vec<CellView> {
        let cells = self.submissions.get(&id).map(|state| state.cells.as_slice()).unwrap_or_default();
        cells.iter().filter_map(|cell| self.cell(*cell)).collect()
    }

    /// One cell.
    pub fn cell(&self, id: CellId) -> Option<CellView> {
        let cell = self.cells.get(&id)?;
        let standing = match cell.state {
            CellState::Queued { since: _ } => Standing::Queued,
            CellState::Backoff { until: _ } => Standing::Backoff,
            CellState::Leased { fence } => Standing::Leased { fence },
            CellState::Ending { reason: _, fence: _ } => Standing::Ending,
            CellState::Finished { ending } => Standing::Finished(ending),
        };
        let (candidate, class, attempts) = (cell.candidate, cell.class.clone(), cell.attempts);
        Some(CellView { id, candidate, class, attempts, standing })
    }

    /// The known nodes.
    pub fn nodes(&self) -> Vec<NodeView> {
        let view = |(id, node): (&NodeId, &super::node::Node)| NodeView {
            id: *id,
            state: node.state,
            link: if node.session.is_some() { Link::Connected } else { Link::Away },
            devices: node
                .slots
                .iter()
                .map(|(device, slot)| DeviceView {
                    id: device.clone(),
                    offer: slot.offer.clone(),
                    running: slot.lease.and_then(|fence| Some((self.leases.get(&fence)?.grant.cell, fence))),
                    stopping: slot.stale.len(),
                })
                .collect(),
        };
        self.nodes.iter().map(view).collect()
    }

    /// Sizes of everything that can grow.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { nodes: self.nodes.len(), ..Totals::default() };
        for cell in self.cells.values() {
            match cell.state {
                CellState::Queued { since: _ } => totals.queued += 1,
                CellState::Backoff { until: _ } => totals.backoff += 1,
                CellState::Leased { fence: _ } => totals.leased += 1,
                CellState::Ending { reason: _, fence: _ } => totals.ending += 1,
                CellState::Finished { ending: _ } => {}
            }
        }
        let ending = self.leases.values().filter(|lease| lease.phase == LeasePhase::Ending);
        totals.leases_ending = ending.count();
        totals.submissions_open = self.submissions.values().filter(|submission| submission.open > 0).count();
        totals
    }

    /// Journal sequence number that the next fact will get.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }
}
