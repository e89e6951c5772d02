//! Wire version 1, frozen: changing any type here needs a version 2 beside it.
//!
//! Documents (tasks, policies, fingerprints, envelopes) travel as their canonical bytes, so that these types
//! hold plain values only and the domain may grow without a new wire version.

#[cfg(test)]
mod tests;
mod to_coordinator;
mod to_node;

pub use to_coordinator::{
    Answer, BlobRequest, Capacity, Device, FromNode, Heartbeat, Hello, Opening, Progress, Report, ReportBlob,
    Running,
};
pub use to_node::{
    Assign, BlobReply, FromCoordinator, Goodbye, RecordVerdict, Recorded, ReportReply, Welcome,
};

use crate::domain::{BlobRef, Digest, Sha256};
use serde::{Deserialize, Serialize};

/// A blob by blake3, with the SHA-256 and size that it must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    pub blake3: [u8; 32],
    pub sha256: [u8; 32],
    pub size: u64,
}

impl From<BlobRef> for Blob {
    fn from(blob: BlobRef) -> Self {
        let BlobRef { blake3, sha256, size } = blob;
        Self { blake3: blake3.0, sha256: sha256.0, size }
    }
}

impl From<Blob> for BlobRef {
    fn from(blob: Blob) -> Self {
        let Blob { blake3, sha256, size } = blob;
        Self { blake3: Digest(blake3), sha256: Sha256(sha256), size }
    }
}
