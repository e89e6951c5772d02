//! What people and programs ask of the event loop, each with the channel that its answer goes to.

use crate::scheduler::effect::Reply;
use crate::scheduler::fact::{CancelTarget, Invite, Terms};
use crate::scheduler::input::DrainIntent;
use fleet_config::domain::{CellId, DeviceDescription, LeafIndex, NodeId, Submission, SubmissionId, TaskId};
use fleet_config::refusal::Refusal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// One request.
#[derive(Debug)]
pub enum Request {
    Submit {
        submission: Box<Submission>,
        terms: Terms,
        reused: BTreeMap<CellId, LeafIndex>,
        reply: oneshot::Sender<Reply>,
    },
    Cancel {
        target: CancelTarget,
        reply: oneshot::Sender<Reply>,
    },
    Drain {
        node: NodeId,
        intent: DrainIntent,
        reply: oneshot::Sender<Reply>,
    },
    /// The node's revocation is in the ledger: it is let in no more, and a session that it has ends.
    Revoked {
        node: NodeId,
        reply: oneshot::Sender<()>,
    },
    CreateInvite {
        invite: Invite,
        reply: oneshot::Sender<Reply>,
    },
    /// How the cells of a submission stand.
    Cells {
        submission: SubmissionId,
        reply: oneshot::Sender<Result<Vec<CellView>, Refusal>>,
    },
    /// The newest submissions, newest first.
    Recent {
        limit: usize,
        reply: oneshot::Sender<Vec<SubmissionView>>,
    },
    /// The one submission whose id begins with `prefix`.
    Named {
        prefix: String,
        reply: oneshot::Sender<Result<SubmissionId, Refusal>>,
    },
    /// Whether the events of a submission can be followed; makes its log if it went with an earlier process.
    Follow {
        submission: SubmissionId,
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
    /// The nodes and what they run.
    Nodes {
        reply: oneshot::Sender<Vec<NodeView>>,
    },
    /// The devices that are connected now.
    Devices {
        reply: oneshot::Sender<Vec<DeviceDescription>>,
    },
    /// Totals over everything.
    Summary {
        reply: oneshot::Sender<Summary>,
    },
    /// Stop: running work goes on at the nodes.
    Stop,
}

/// A submission as people see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubmissionView {
    pub submission: SubmissionId,
    pub task: TaskId,
    /// Name of the task.
    pub name: String,
    /// Names of its first candidates.
    pub candidates: Vec<String>,
    /// How many candidates it has in all.
    pub candidates_total: u64,
    pub cells: u64,
    /// Cells that are not over.
    pub open: u64,
}

/// A cell as people see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CellView {
    pub cell: CellId,
    pub candidate: String,
    /// Short name of the candidate, empty when unknown.
    pub name: String,
    pub class: String,
    /// `queued`, `running`, `ending`, `finished`, or `ended` without a result.
    pub state: String,
    /// Stage of a running cell, status of a finished one, reason of a waiting one.
    pub detail: String,
    pub node: String,
    pub attempts: u32,
    /// Leaf of the final entry.
    pub index: Option<u64>,
    /// Whether an earlier result answered.
    pub reused: bool,
}

impl CellView {
    /// Whether nothing more happens to it.
    pub fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "finished" | "ended")
    }
}

/// A node as people see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeView {
    pub node: String,
    pub name: String,
    pub state: String,
    pub devices: Vec<DeviceView>,
}

/// A device as people see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceView {
    pub id: String,
    /// `cpu` or `gpu`.
    pub kind: String,
    pub architecture: String,
    pub model: String,
    /// Cell that runs on it, empty when idle.
    pub running: String,
    /// `healthy`, `unproven`, `suspect` or `quarantined`; empty where the node does not say.
    #[serde(default)]
    pub health: String,
    /// Why it is not healthy.
    #[serde(default)]
    pub health_cause: String,
    /// How much slower its canary is than at the node's start, in parts per million; empty where none has run.
    #[serde(default)]
    pub drift_ppm: String,
}

/// Totals.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Summary {
    pub nodes_ready: u64,
    pub nodes: u64,
    pub cells_queued: u64,
    pub cells_running: u64,
    pub cells_finished: u64,
    pub submissions_open: u64,
    /// Absent until an experiment has ended, and an hour after the last.
    pub pace: Option<super::pace::PaceView>,
}
