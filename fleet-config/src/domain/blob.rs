//! A reference to content beside the ledger: both digests and the size.

use super::{Digest, Sha256};
use serde::{Deserialize, Serialize};

/// Names a blob. blake3 addresses the store; SHA-256 lets generic tools match it; the size bounds its transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobRef {
    pub blake3: Digest,
    pub sha256: Sha256,
    /// In bytes.
    pub size: u64,
}

impl BlobRef {
    /// The reference that `bytes` must have.
    pub fn of(bytes: &[u8]) -> Self {
        Self { blake3: Digest::of(bytes), sha256: Sha256::of(bytes), size: bytes.len() as u64 }
    }
}
