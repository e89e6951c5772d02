//! Entries about attempts that the coordinator makes: granted, lost, refused.

use super::{Kind, Predicate};
use fleet_config::domain::{
    BlobRef, CandidateId, CellId, DeviceId, Fence, NodeId, Nonce, PolicyId, RecordId, Seed, Sha256,
    SubmissionId, TaskId,
};
use serde::{Deserialize, Serialize};

/// A batch of attempts was granted, logged before any of them ran, so that unlucky runs cannot vanish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptGranted {
    pub count: u64,
    /// RFC 6962 tree head over the canonical bytes of each grant, in order of fences.
    pub root: Sha256,
    /// Canonical JSON array of [`Grant`], in order of fences; also the subject.
    pub grants: BlobRef,
    pub granted_on: String,
}

/// One leased try at a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub submission: SubmissionId,
    pub cell: CellId,
    pub fence: Fence,
    pub task: TaskId,
    pub candidate: CandidateId,
    pub policy: PolicyId,
    pub node: NodeId,
    pub device: DeviceId,
    pub nonce: Nonce,
    pub seeds: Vec<Seed>,
}

/// An attempt ended without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptLost {
    pub submission: SubmissionId,
    pub cell: CellId,
    /// `None` when the cell ended before any attempt was granted.
    pub fence: Option<Fence>,
    pub task: TaskId,
    pub candidate: CandidateId,
    pub reason: LossReason,
    pub consequence: Consequence,
    pub lost_on: String,
}

/// Why an attempt has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// The node was silent for too long.
    NodeSilent,
    /// The node came back and did not know the attempt.
    NodeForgot,
    /// The lease passed its deadline.
    LeaseExpired,
    /// The node declined the attempt (full disk, missing blob).
    Declined,
    /// The submission or cell was cancelled.
    Cancelled,
    /// Nothing was left to try.
    Exhausted,
}

/// What follows for the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consequence {
    /// The cell is tried again.
    Retried,
    /// This is the final entry of the cell.
    Final,
}

/// A result arrived that may not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRefused {
    pub cell: CellId,
    pub fence: Fence,
    /// Signer of the refused result.
    pub node: NodeId,
    /// blake3 of the refused payload; the envelope is kept as the subject blob.
    pub record: RecordId,
    pub envelope: BlobRef,
    pub reason: RefusalReason,
    pub refused_on: String,
}

/// Why a result may not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// Another attempt holds the cell now.
    StaleFence,
    /// The cell has its final entry.
    CellClosed,
    /// The coordinator never opened this cell.
    UnknownCell,
    /// The lease belongs to another node or device.
    WrongHolder,
}

impl Predicate for AttemptGranted {
    const KIND: Kind = Kind::AttemptGranted;
}
impl Predicate for AttemptLost {
    const KIND: Kind = Kind::AttemptLost;
}
impl Predicate for AttemptRefused {
    const KIND: Kind = Kind::AttemptRefused;
}
