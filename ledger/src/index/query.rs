//! Questions to the index.

use super::codec::{CodecError, decode};
use super::row::{EntrySummary, Family, ResultSummary, key, prefix};
use super::{Index, IndexError};
use crate::entry::Kind;
use crate::rank::finding::{Judged, Noted, Revoked, fall};
use data_encoding::HEXLOWER_PERMISSIVE;
use fleet_config::domain::{
    CandidateId, CellId, ClassId, Digest, LeafIndex, NodeId, PolicyId, RecordId, SubmissionId, TaskId,
};
use std::collections::BTreeMap;

/// Fewest hex digits that name a record: fewer would soon be ambiguous.
pub const PREFIX_DIGITS_MIN: usize = 8;

/// Most records that an ambiguous prefix lists.
const PREFIX_MATCHES_MAX: usize = 16;

/// An answer with the tree size that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<T> {
    pub as_of: u64,
    pub found: T,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error("`{text}` is no record; give {PREFIX_DIGITS_MIN} to 64 hexadecimal digits")]
    Prefix { text: String },
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// What must be equal for a result to answer again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReuseKey {
    pub candidate: CandidateId,
    pub task: TaskId,
    pub policy: PolicyId,
    pub class: ClassId,
}

/// What may bring down results of one candidate.
struct Doubts {
    findings: Vec<Noted>,
    revocations: Vec<Revoked>,
}

impl Doubts {
    fn bring_down(&self, entry: &EntrySummary) -> bool {
        let Some(result) = &entry.result else { return false };
        let ResultSummary { task, candidate, class, node, .. } = result;
        let judged = Judged {
            leaf: entry.leaf,
            record: entry.record,
            task: *task,
            candidate: *candidate,
            class: *class,
        };
        self.revocations.iter().any(|revoked| revoked.suspects(*node, entry.leaf))
            || fall(&self.findings, &judged).is_some()
    }
}

impl Index {
    /// The entry at `leaf`.
    pub fn entry(&self, leaf: LeafIndex) -> Result<Answer<Option<EntrySummary>>, IndexError> {
        let value = self.rows.value(&key(Family::Entry, &[], leaf))?;
        let found = value.map(|value| decode(&value)).transpose()?;
        Ok(self.answer(found))
    }

    /// Entries whose record starts with these hex digits, of either case; more than one when it is ambiguous.
    pub fn records(&self, digits: &str) -> Result<Answer<Vec<EntrySummary>>, QueryError> {
        let bad = || QueryError::Prefix { text: digits.chars().take(80).collect() };
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_hex || !(PREFIX_DIGITS_MIN..=64).contains(&digits.len()) {
            return Err(bad());
        }
        let lower = digits.to_ascii_lowercase();
        let whole = &lower[..lower.len() / 2 * 2];
        let bytes = HEXLOWER_PERMISSIVE.decode(whole.as_bytes()).map_err(|_| bad())?;
        let start = prefix(Family::Record, &[&bytes]);
        let mut found = Vec::new();
        for key in self.rows.keys(&start) {
            let summary = self.summary(leaf_of(&key?)?)?;
            if summary.record.to_string().starts_with(&lower) {
                found.push(summary);
            }
            if found.len() == PREFIX_MATCHES_MAX {
                break;
            }
        }
        Ok(self.answer(found))
    }

    /// The entry of this very record.
    pub fn record(&self, record: RecordId) -> Result<Answer<Option<EntrySummary>>, IndexError> {
        let found = self.listed(&prefix(Family::Record, &[&record.0]), self.size())?;
        Ok(self.answer(found.into_iter().next()))
    }

    /// Results of a task in order of leaves, as of a tree of `as_of` entries or of all.
    pub fn results_of_task(
        &self,
        task: TaskId,
        as_of: Option<u64>,
    ) -> Result<Answer<Vec<EntrySummary>>, IndexError> {
        let as_of = as_of.unwrap_or(u64::MAX).min(self.size());
        let found = self.listed(&prefix(Family::Task, &[&task.0]), as_of)?;
        Ok(Answer { as_of, found })
    }

    /// Results that may answer the same question again, oldest first: `ok` or deterministic failures by a clean
    /// harness, less those that a finding brought down.
    pub fn reusable(&self, question: &ReuseKey) -> Result<Answer<Vec<EntrySummary>>, IndexError> {
        let ReuseKey { candidate, task, policy, class } = question;
        let start = prefix(Family::Reuse, &[&candidate.0, &task.0, &policy.0, &class.0]);
        let mut found = self.listed(&start, self.size())?;
        found.retain(|entry| entry.result.as_ref().is_some_and(|result| result.is_reusable()));
        let doubts = self.doubts(*candidate, *task)?;
        found.retain(|entry| !doubts.bring_down(entry));
        Ok(self.answer(found))
    }

    /// Whether a finding brought this result down, or it is suspected with the node that made it.
    pub fn is_fallen(&self, record: RecordId) -> Result<bool, IndexError> {
        let Some(entry) = self.record(record)?.found else { return Ok(false) };
        let Some(result) = &entry.result else { return Ok(false) };
        Ok(self.doubts(result.candidate, result.task)?.bring_down(&entry))
    }

    fn doubts(&self, candidate: CandidateId, task: TaskId) -> Result<Doubts, IndexError> {
        let judged = self.listed(&prefix(Family::Judged, &[&candidate.0, &task.0]), self.size())?;
        let revocations =
            self.listed(&prefix(Family::Kind, &[Kind::NodeRevoke.word().as_bytes(), &[0]]), self.size())?;
        Ok(Doubts {
            findings: judged.into_iter().filter_map(|entry| entry.finding).collect(),
            revocations: revocations.into_iter().filter_map(|entry| entry.revocation).collect(),
        })
    }

    /// Openings of a holdout and the verifications that followed, in order.
    pub fn entries_of_holdout(&self, commitment: Digest) -> Result<Answer<Vec<EntrySummary>>, IndexError> {
        self.all(&prefix(Family::Holdout, &[&commitment.0]))
    }

    /// Findings about a record in order.
    pub fn findings_about(&self, record: RecordId) -> Result<Answer<Vec<EntrySummary>>, IndexError> {
        self.all(&prefix(Family::Finding, &[&record.0]))
    }

    /// Results, losses and refusals of a cell in order. Grants are named by batches and not listed here.
    pub fn entries_of_cell(&self, cell: CellId) -> Result<Answer<Vec<EntrySummary>>, IndexError> {
        self.all(&prefix(Family::Cell, &[&cell.0]))
    }

    /// Results and losses of a submission in order.
    pub fn entries_of_submission(
        &self,
        submission: SubmissionId,
    ) -> Result<Answer<Vec<EntrySummary>>, IndexError> {
        self.all(&prefix(Family::Submission, &[&submission.0]))
    }

    /// Enrolments, results and refusals of a node in order.
    pub fn entries_of_node(&self, node: NodeId) -> Result<Answer<Vec<EntrySummary>>, IndexError> {
        self.all(&prefix(Family::Node, &[&node.0]))
    }

    /// Entries that define this task or policy.
    pub fn definitions(&self, digest: Digest) -> Result<Answer<Vec<EntrySummary>>, IndexError> {
        self.all(&prefix(Family::Definition, &[&digest.0]))
    }

    /// Entries of a kind in order.
    pub fn entries_of_kind(&self, kind: Kind) -> Result<Answer<Vec<EntrySummary>>, IndexError> {
        self.all(&prefix(Family::Kind, &[kind.word().as_bytes(), &[0]]))
    }

    /// How many entries there are of each kind; those that this version cannot read under `unknown`.
    pub fn counts(&self) -> Answer<BTreeMap<String, u64>> {
        self.answer(self.meta.kinds.clone())
    }

    fn answer<T>(&self, found: T) -> Answer<T> {
        Answer { as_of: self.size(), found }
    }

    fn all(&self, start: &[u8]) -> Result<Answer<Vec<EntrySummary>>, IndexError> {
        Ok(self.answer(self.listed(start, self.size())?))
    }

    /// Summaries behind the keys that start with `start`, below `as_of`, in order of leaves.
    fn listed(&self, start: &[u8], as_of: u64) -> Result<Vec<EntrySummary>, IndexError> {
        let mut leaves = Vec::new();
        for key in self.rows.keys(start) {
            let leaf = leaf_of(&key?)?;
            if leaf.0 < as_of {
                leaves.push(leaf);
            }
        }
        leaves.sort_unstable();
        leaves.into_iter().map(|leaf| self.summary(leaf)).collect()
    }

    fn summary(&self, leaf: LeafIndex) -> Result<EntrySummary, IndexError> {
        self.entry(leaf)?.found.ok_or_else(|| CodecError::Dangling { leaf: leaf.0 }.into())
    }
}

/// The leaf at the end of a key.
fn leaf_of(key: &[u8]) -> Result<LeafIndex, IndexError> {
    let bytes = key.last_chunk::<8>().ok_or(CodecError::Key)?;
    Ok(LeafIndex(u64::from_be_bytes(*bytes)))
}
