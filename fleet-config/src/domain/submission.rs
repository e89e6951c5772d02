//! A submission: candidates × targets × policy, expanded into cells.

use super::canonical::{CanonicalError, Document};
use super::{CandidateId, CellId, Commitment, DeviceClass, PolicyId, RecordId, SubmissionId, TaskId};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

/// One request. Immutable; named by the blake3 of its canonical form, which holds a nonce, so that the same
/// request made twice is two submissions.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// [`Submission::format_for`] its holdout.
    pub format: String,
    pub task: TaskId,
    pub candidates: Vec<CandidateId>,
    pub targets: Vec<DeviceClass>,
    pub policy: PolicyId,
    pub reuse: Reuse,
    /// Random, so that repeated requests differ; doubles as idempotency key.
    pub nonce: String,
    /// Present in a final verification alone: what is opened for its attempts, and for which result.
    #[serde(default)]
    pub holdout: Option<HoldoutCheck>,
}

/// The fields in the order of their declaration; `holdout` is a field of the second form alone, so that submissions that
/// search keep their names.
impl Serialize for Submission {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { format, task, candidates, targets, policy, reuse, nonce, holdout } = self;
        let mut form = serializer.serialize_struct("Submission", 7 + usize::from(holdout.is_some()))?;
        form.serialize_field("format", format)?;
        form.serialize_field("task", task)?;
        form.serialize_field("candidates", candidates)?;
        form.serialize_field("targets", targets)?;
        form.serialize_field("policy", policy)?;
        form.serialize_field("reuse", reuse)?;
        form.serialize_field("nonce", nonce)?;
        if let Some(holdout) = holdout {
            form.serialize_field("holdout", holdout)?;
        }
        form.end()
    }
}

/// A final verification: the sealed cases of the task are opened for the candidate of one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldoutCheck {
    /// The result that was chosen.
    pub record: RecordId,
    /// Names the sealed section.
    pub commitment: Commitment,
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
    /// The form of a submission that searches.
    pub const FORMAT: &str = "muster.submission/1";
    /// The form of one that opens a holdout.
    pub const FORMAT_WITH_HOLDOUT: &str = "muster.submission/2";
    /// Most cells of one submission; larger requests are split by the client.
    pub const CELLS_MAX: usize = 10_000;

    /// The form that a submission with this holdout has.
    pub fn format_for(holdout: Option<&HoldoutCheck>) -> &'static str {
        match holdout {
            None => Self::FORMAT,
            Some(_) => Self::FORMAT_WITH_HOLDOUT,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Digest;

    #[test]
    fn a_submission_that_searches_keeps_its_form_and_one_that_opens_a_holdout_has_another_name() {
        let searching = Submission {
            format: Submission::FORMAT.to_owned(),
            task: TaskId([1; 32]),
            candidates: vec![CandidateId([2; 32])],
            targets: vec!["cpu:x86-64-v3".parse().unwrap()],
            policy: PolicyId([3; 32]),
            reuse: Reuse::Fresh,
            nonce: "n".to_owned(),
            holdout: None,
        };
        let bytes = searching.document().unwrap().bytes;
        assert!(!String::from_utf8_lossy(&bytes).contains("holdout"));
        assert_eq!(super::super::canonical::from_bytes::<Submission>(&bytes).unwrap(), searching);
        let check = HoldoutCheck { record: RecordId([4; 32]), commitment: Commitment(Digest([5; 32])) };
        let verifying = Submission {
            format: Submission::format_for(Some(&check)).to_owned(),
            holdout: Some(check),
            ..searching.clone()
        };
        let bytes = verifying.document().unwrap().bytes;
        assert_eq!(super::super::canonical::from_bytes::<Submission>(&bytes).unwrap(), verifying);
        assert_ne!(verifying.id().unwrap(), searching.id().unwrap());
    }
}
