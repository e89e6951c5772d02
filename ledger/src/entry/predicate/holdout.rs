//! Entries about sealed cases: each opening is counted before it happens, and a final verification says what came of it.

use super::{Kind, Predicate, ResultRecord};
use fleet_config::domain::{
    CandidateId, CellId, Commitment, DeviceId, Fence, NodeId, RecordId, SubmissionId, TaskId,
};
use serde::{Deserialize, Serialize};

/// A holdout is about to be opened for one attempt. Stands before the `attempt-granted` entry of that attempt, so that
/// no lease can open a section uncounted; an attempt that never ran counts all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldoutOpened {
    /// Names the sealed section; the task commits to it.
    pub commitment: Commitment,
    /// The first opening of a section is 1.
    pub opening: u64,
    pub task: TaskId,
    /// Also the subject.
    pub candidate: CandidateId,
    /// The result that was chosen for verification.
    pub record: RecordId,
    pub submission: SubmissionId,
    pub cell: CellId,
    pub fence: Fence,
    pub node: NodeId,
    pub device: DeviceId,
    pub opened_on: String,
}

/// The result of an attempt that a holdout was opened for. Never ranked and never an answer to a search; holds nothing
/// of the sealed cases but whether they passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    pub holdout: OpenedHoldout,
    /// What became of the sealed cases.
    pub verdict: HoldoutVerdict,
    /// The attempt as any other: open cases with fresh values, then the sealed ones, then times of the open ones. `ok`
    /// only if all of them passed.
    pub result: ResultRecord,
}

/// Which opening a verification is of; equal to its `holdout-opened` entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedHoldout {
    pub commitment: Commitment,
    pub opening: u64,
    pub record: RecordId,
}

/// What became of the sealed cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldoutVerdict {
    /// Every sealed case.
    Passed,
    /// Some sealed case failed, or could not be judged; the outcome says whose fault that is.
    Failed,
    /// The attempt ended before them.
    NotReached,
}

impl HoldoutVerdict {
    /// The word of records, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotReached => "not reached",
        }
    }
}

impl Predicate for HoldoutOpened {
    const KIND: Kind = Kind::HoldoutOpened;
}
impl Predicate for Verification {
    const KIND: Kind = Kind::Verification;
}
