//! Wire version 2, frozen: version 1 with assignments that may open a holdout. All other messages are those of
//! [`super::v1`].

#[cfg(test)]
mod tests;

use super::v1::{self, Blob};
use serde::{Deserialize, Serialize};

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
    /// Present in a verification lease alone.
    pub sealed: Option<Sealed>,
}

/// An opened holdout: in memory of the two sides and on this stream, and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// What the task says of the section.
    pub commitment: [u8; 32],
    /// Which opening of this section it is, as the ledger counts them; the first is 1.
    pub opening: u64,
    /// The result that was chosen for verification.
    pub record: [u8; 32],
    pub salt: [u8; 32],
    /// Canonical bytes of the section.
    pub section: Vec<u8>,
}

/// Neither salt nor section: what is sealed must not reach a log by way of `{:?}`.
impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed(opening {}, …)", self.opening)
    }
}

impl Assign {
    /// The same in version 1, which has no words for a holdout.
    pub fn to_v1(&self) -> Option<v1::Assign> {
        let Self {
            submission,
            cell,
            fence,
            task,
            candidate,
            policy,
            device,
            nonce,
            seeds,
            compile_ms,
            run_ms,
            queued_ms,
            sealed,
        } = self.clone();
        sealed.is_none().then_some(v1::Assign {
            submission,
            cell,
            fence,
            task,
            candidate,
            policy,
            device,
            nonce,
            seeds,
            compile_ms,
            run_ms,
            queued_ms,
        })
    }
}

impl From<v1::Assign> for Assign {
    fn from(assign: v1::Assign) -> Self {
        let v1::Assign {
            submission,
            cell,
            fence,
            task,
            candidate,
            policy,
            device,
            nonce,
            seeds,
            compile_ms,
            run_ms,
            queued_ms,
        } = assign;
        Self {
            submission,
            cell,
            fence,
            task,
            candidate,
            policy,
            device,
            nonce,
            seeds,
            compile_ms,
            run_ms,
            queued_ms,
            sealed: None,
        }
    }
}
