//! What the ledger's writer is asked to do.

use super::content::Content;
use crate::scheduler::effect::{CellSubject, Grant, LostReason};
use crate::scheduler::input::EndReason;
use fleet_config::domain::{CellId, Fence, LeafIndex, NodeId};
use fleet_config::refusal::Refusal;
use fleet_config::wire::v1::Recorded;
use ledger::entry::predicate::{Finding, NodeEnrol, NodeRevoke, PolicyAdded, TaskAdded};
use tokio::sync::oneshot;

/// One request. Those without a reply are answered by the [`crate::scheduler::input::LedgerEvent`] that follows.
#[derive(Debug)]
pub enum CommitRequest {
    AddTask {
        entry: Box<TaskAdded>,
        reply: oneshot::Sender<Result<LeafIndex, Refusal>>,
    },
    AddPolicy {
        entry: Box<PolicyAdded>,
        reply: oneshot::Sender<Result<LeafIndex, Refusal>>,
    },
    AddFinding {
        entry: Box<Finding>,
        reply: oneshot::Sender<Result<LeafIndex, Refusal>>,
    },
    Enrol {
        entry: Box<NodeEnrol>,
        reply: oneshot::Sender<Result<LeafIndex, Refusal>>,
    },
    Revoke {
        entry: Box<NodeRevoke>,
        reply: oneshot::Sender<Result<LeafIndex, Refusal>>,
    },
    Grants(Vec<Grant>),
    Lost {
        about: CellSubject,
        fence: Fence,
        reason: LostReason,
    },
    End {
        about: CellSubject,
        fence: Option<Fence>,
        reason: EndReason,
    },
    Report {
        report: Box<IncomingReport>,
        /// What the check of its blobs found.
        content: Content,
        reply: oneshot::Sender<Recorded>,
    },
    /// Integrate all that is committed and answer with the signed checkpoint.
    Checkpoint {
        reply: oneshot::Sender<Result<String, Refusal>>,
    },
    /// Integrate and end the thread.
    Stop,
}

/// A signed result as a node brought it; its blobs are in the store.
#[derive(Debug)]
pub struct IncomingReport {
    /// The node that the TLS connection belongs to.
    pub peer: NodeId,
    pub cell: CellId,
    pub fence: Fence,
    pub envelope: Vec<u8>,
}
