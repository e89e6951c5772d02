//! What the coordinator says.

use super::Blob;
use serde::{Deserialize, Serialize};

/// Messages on the control stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromCoordinator {
    Welcome(Welcome),
    Goodbye(Goodbye),
    /// Stop this attempt; its result is no longer wanted.
    Cancel {
        cell: [u8; 32],
        fence: u64,
    },
    /// Finish what runs and take no more.
    Drain,
    /// Take work again.
    Undrain,
    /// The newest signed checkpoint, as its note text.
    Checkpoint {
        note: String,
    },
}

/// The node is admitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// SHA-256 of the node's signing key, as the ledger knows it.
    pub node: [u8; 32],
    /// Origin of the ledger; goes into every result.
    pub origin: String,
    /// C2SP verifier key of the log.
    pub log_vkey: String,
    pub heartbeat_ms: u64,
    /// Attempts that the hello named and that must stop: (cell, fence).
    pub stop: Vec<([u8; 32], u64)>,
}

/// The node is not admitted, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodbye {
    /// Stable, for example `join/invite-expired`.
    pub code: String,
    pub cause: String,
    pub next: String,
    /// Whether trying again with the same credentials can help.
    pub retry: bool,
}

/// One attempt, alone on its stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assign {
    pub submission: [u8; 32],
    pub cell: [u8; 32],
    pub fence: u64,
    /// Canonical documents, fetched as blobs when missing.
    pub task: Blob,
    pub candidate: Blob,
    pub policy: Blob,
    pub device: String,
    pub nonce: [u8; 32],
    pub seeds: Vec<u64>,
    pub compile_ms: u64,
    pub run_ms: u64,
    /// How long the cell waited before this lease.
    pub queued_ms: u64,
}

/// Answers on a report stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportReply {
    /// Send the bodies of these blobs (indices into the report's list), in this order, on this stream.
    NeedBlobs {
        indices: Vec<u32>,
    },
    Recorded(Recorded),
}

/// The report was dealt with; the node may drop it from its outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// blake3 of the payload.
    pub record: [u8; 32],
    pub verdict: RecordVerdict,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordVerdict {
    /// Appended as the cell's result; `promise` is the log key's signature over (record, index).
    Accepted { index: u64, promise: Vec<u8> },
    /// Kept as `attempt-refused`.
    Refused { index: u64, reason: String },
    /// Not kept: it is no valid result of this node.
    Invalid { code: String, cause: String },
    /// The ledger cannot record now; send again later.
    Later { code: String, cause: String },
}

/// Answers on a blob stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlobReply {
    /// The bytes follow until the end of the stream.
    Follows {
        blob: Blob,
    },
    Missing,
}
