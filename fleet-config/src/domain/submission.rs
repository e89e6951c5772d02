//! A submission: candidates × targets × policy, expanded into cells.

use super::canonical::{CanonicalError, Document};
use super::{CandidateId, CellId, DeviceClass, PolicyId, SubmissionId, TaskId};
use serde::{Deserialize, Serialize};

/// One request. Immutable; named by the blake3 of its canonical form, which holds a nonce, so that the same
/// request made twice is two submissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Always [`Submission::FORMAT`].
    pub format: String,
    pub task: TaskId,
    pub candidates: Vec<CandidateId>,
    pub targets: Vec<DeviceClass>,
    pub policy: PolicyId,
    pub reuse: Reuse,
    /// Random, so that repeated requests differ; doubles as idempotency key.
    pub nonce: String,
}

/// Whether an earlier result may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// An `ok` or deterministic failure of the same candidate, task, policy and comparability class answers.
    Allowed,
    /// Everything is measured anew.
    Fresh,
}

impl Submission {
    pub const FORMAT: &str = "muster.submission/1";
    /// Most cells of one submission; larger requests are split by the client.
    pub const CELLS_MAX: usize = 10_000;

    /// Canonical bytes and digests.
    pub fn document(&self) -> Result<Document, CanonicalError> {
        Document::of(self)
    }
    /// The name of this submission.
    pub fn id(&self) -> Result<SubmissionId, CanonicalError> {
        Ok(SubmissionId(self.document()?.digest().0))
    }
    /// Its cells in the order candidates × targets.
    pub fn cells(&self, id: SubmissionId) -> Vec<(CellId, CandidateId, DeviceClass)> {
        let pairs = self.candidates.iter().flat_map(|c| self.targets.iter().map(move |t| (*c, t.clone())));
        pairs.map(|(c, t)| (CellId::of(id, c, &t.to_string()), c, t)).collect()
    }
}
