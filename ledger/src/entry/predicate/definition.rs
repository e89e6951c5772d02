//! Entries that define: the ledger itself, tasks and policies.

use super::{Kind, Predicate};
use fleet_config::domain::{BlobRef, PolicyId, TaskId};
use serde::{Deserialize, Serialize};

/// Entry 0: names the ledger and the key that its operator signs with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    /// Version of the ledger format.
    pub format: u64,
    /// Equal to the origin line of every checkpoint.
    pub origin: String,
    /// Ed25519 public key of the operator, 64 hex digits.
    pub operator_key: String,
    /// RFC 3339, for people; order comes from leaf indices.
    pub created_on: String,
}

/// A task was added; subject and `definition` name its canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAdded {
    pub task: TaskId,
    pub name: String,
    pub definition: BlobRef,
    /// Sources, headers and input files that the task names.
    pub blobs: Vec<BlobRef>,
    pub added_on: String,
}

/// A measurement policy was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyAdded {
    pub policy: PolicyId,
    pub name: String,
    pub definition: BlobRef,
    pub added_on: String,
}

impl Predicate for Genesis {
    const KIND: Kind = Kind::Genesis;
}
impl Predicate for TaskAdded {
    const KIND: Kind = Kind::Task;
}
impl Predicate for PolicyAdded {
    const KIND: Kind = Kind::Policy;
}
