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

/// Why an attempt, or a whole cell, has no result. None of these is ever charged to the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// The node was silent for too long.
    NodeSilent,
    /// The lease passed its deadline.
    DeadlinePassed,
    /// The node came back and did not hold the attempt.
    NotHeld,
    /// The node gave the attempt up (declined, full disk, missing blob).
    Abandoned,
    /// The submission or cell was cancelled.
    Cancelled,
    /// The fleet failed too often; the cell ends as `infrastructure`.
    AttemptsExhausted,
    /// No device became free within the queue budget; the cell ends as `infrastructure`.
    QueueBudgetSpent,
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
    /// No attempt at this cell was ever granted here.
    UnknownCell,
    /// The cell has its final entry.
    CellClosed,
    /// The attempt ended, or a newer one holds the cell.
    StaleFence,
    /// No such fence was granted for this cell.
    UnknownFence,
    /// Another node holds the lease.
    WrongNode,
    /// The lease is for another device.
    WrongDevice,
    /// The nonce is not the one of the lease.
    WrongNonce,
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
