//! Entries of detectors: what a later, better look at a result found.

use super::{Kind, Predicate};
use fleet_config::domain::{BlobRef, CandidateId, ClassId, RecordId, TaskId};
use serde::{Deserialize, Serialize};

/// A named version of a detector judged a recorded result. The result stays as it is; rankings that know of the finding
/// change, and say so. The newest finding of a detector about a result counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The result that was judged.
    pub record: RecordId,
    pub task: TaskId,
    /// Also the subject.
    pub candidate: CandidateId,
    pub class: ClassId,
    pub detector: DetectorName,
    pub judgement: FindingJudgement,
    /// Which results of the candidate it is about.
    pub scope: FindingScope,
    /// Stable, such as `text/baseline`.
    pub code: String,
    /// For people, a lower-case fragment.
    pub cause: String,
    /// What the detector saw: canonical JSON, its shape the detector's own.
    pub evidence: BlobRef,
    /// The result of the run that decided, where one was made.
    pub rerun: Option<RecordId>,
    pub found_on: String,
}

impl Finding {
    /// Most characters of code and cause: an entry stays small.
    pub const CAUSE_MAX: usize = 400;
}

/// Which detector. Another version is another judge: it may find otherwise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DetectorName {
    /// `[a-z0-9-]`, at most [`DetectorName::NAME_MAX`] bytes.
    pub name: String,
    /// Raised whenever it may find otherwise.
    pub version: u64,
}

impl DetectorName {
    /// Longest name of a detector.
    pub const NAME_MAX: usize = 32;

    /// Whether the name is one that a detector can have.
    pub fn is_legal(&self) -> bool {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !self.name.is_empty()
            && self.name.len() <= Self::NAME_MAX
            && self.name.bytes().all(legal)
            && self.version > 0
    }
}

impl std::fmt::Display for DetectorName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.name, self.version)
    }
}

/// What a finding does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingJudgement {
    /// The result is ranked no more.
    Falls,
    /// The result is ranked with a label.
    Labelled,
    /// An earlier finding of this detector no longer holds.
    Stands,
}

/// Which results a finding is about, all of them of its candidate and task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingScope {
    /// The judged one alone: what is wrong is its own numbers.
    Record,
    /// Every one of its comparability class up to the finding's entry: what is wrong showed when it was run again there.
    Class,
    /// Every one, later ones too: what is wrong is the source.
    Candidate,
}

impl Predicate for Finding {
    const KIND: Kind = Kind::Finding;
}
