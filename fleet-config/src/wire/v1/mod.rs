//! Wire version 1, frozen: changing any type here needs a version 2 beside it.
//!
//! Documents (tasks, policies, fingerprints, envelopes) travel as their canonical bytes, so that these types
//! hold plain values only and the domain may grow without a new wire version.

mod to_coordinator;
mod to_node;

pub use to_coordinator::{
    Answer, BlobRequest, Capacity, Device, FromNode, Heartbeat, Hello, Progress, Report, ReportBlob, Running,
};
pub use to_node::{
    Assign, BlobReply, FromCoordinator, Goodbye, RecordVerdict, Recorded, ReportReply, Welcome,
};

use serde::{Deserialize, Serialize};

/// A blob by blake3, with the SHA-256 and size that it must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    pub blake3: [u8; 32],
    pub sha256: [u8; 32],
    pub size: u64,
}
