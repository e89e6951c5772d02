//! What the journal remembers: the durable facts, and nothing that can be decided anew.
//!
//! Results are not here: a result is committed by its ledger append alone. Ticks, heartbeats and connections are
//! not here either: after a restart they are observed again.

use fleet_config::domain::{
    Bytes, CellId, DeviceClass, DeviceId, Digest, Fence, LeafIndex, Milliseconds, NodeId, Nonce, Seed,
    Submission, SubmissionId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One durable fact. Its journal sequence number orders it; a lease's sequence number is its fence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fact {
    /// A submission was accepted: from here on each of its cells ends with exactly one final ledger entry.
    SubmissionAccepted(Box<AcceptedSubmission>),
    /// A device of a node was promised to a cell.
    LeaseGranted(LeaseGrant),
    /// Somebody asked that work stops. A result that the ledger accepted earlier stands.
    Cancelled(CancelTarget),
    /// The node finishes what it runs and takes no more.
    NodeDrained { node: NodeId },
    /// The node takes work again.
    NodeUndrained { node: NodeId },
    /// Somebody may join with the secret that hashes to `secret_hash`.
    InviteCreated(Invite),
    /// One use of an invite, bound to the first key that used it so that the same node may retry.
    InviteConsumed { invite: InviteId, key: Digest },
}

/// A submission with all that its cells need to be scheduled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptedSubmission {
    /// Name of `submission`, recorded so that replay needs no hashing and cannot disagree.
    pub id: SubmissionId,
    pub submission: Submission,
    pub terms: Terms,
    /// Random bytes that nonces and seeds of its attempts are derived from; drawn after the submission came in.
    pub entropy: Digest,
    /// Cells that an earlier result answers, with the leaf index of that result.
    pub reused: BTreeMap<CellId, LeafIndex>,
}

/// What every cell of a submission asks of a device and of time; taken from its task and policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Device memory of buffers and scratch together.
    pub memory: Bytes,
    /// How long a cell may wait for a device; `None` waits for ever.
    pub queue: Option<Milliseconds>,
    /// Compile time of one attempt, all of its parts together.
    pub compile: Milliseconds,
    /// Time of one attempt on the device.
    pub run: Milliseconds,
    /// How many input seeds one attempt draws.
    pub seeds: u32,
}

/// The promise of one device to one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseGrant {
    /// Equal to the journal sequence number of this fact.
    pub fence: Fence,
    pub cell: CellId,
    pub node: NodeId,
    pub device: DeviceId,
    pub nonce: Nonce,
    pub seeds: Vec<Seed>,
}

/// What a cancel names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelTarget {
    Submission(SubmissionId),
    Cell(CellId),
}

/// Name of an invite; chosen by whoever draws the secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InviteId(pub String);

/// Permission to join. The secret itself is nowhere; its hash is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invite {
    pub id: InviteId,
    pub secret_hash: Digest,
    /// Wall time in milliseconds since 1970, the one place where wall time decides: people set it.
    pub expires_unix_ms: u64,
    /// How many different keys may use it.
    pub uses: u32,
    /// Devices of a node that joined by it must belong to this class.
    pub class: Option<DeviceClass>,
}
