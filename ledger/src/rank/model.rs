//! The ranking as data: integers only, so that it has one canonical form.

use super::finding::{Judged, Noted};
use crate::entry::predicate::{DetectorName, ResultRecord};
use crate::stats;
use fleet_config::domain::{
    Architecture, Blame, CandidateId, ClassId, DeviceKind, FamilyId, LeafIndex, OptionalStage,
    PartsPerBillion, PolicyId, RecordId, SampleSeries, SandboxLevel, Stage, Status, TaskId,
};
use serde::{Deserialize, Serialize};

/// Stands under every table of CPU results.
pub const CPU_NOTICE: &str = "The order on a CPU says nothing about GPUs.";

/// One result with what its blobs add.
#[derive(Debug, Clone, PartialEq)]
pub struct RankInput {
    pub leaf: LeafIndex,
    pub record_id: RecordId,
    pub record: ResultRecord,
    /// Name of the candidate, for people.
    pub candidate_name: String,
    /// The family that the candidate says it belongs to.
    pub family: Option<FamilyId>,
    /// Whether it is the task's baseline once more: the same source and the same launches.
    pub is_copy: bool,
    /// Model of the device from its environment, for people.
    pub device_model: String,
    /// Name of the policy, for people; empty where its blob is missing.
    pub policy_name: String,
    /// Stages of validation that the policy leaves out.
    pub left_out: Vec<OptionalStage>,
    /// What the node labelled an `ok` with, such as being the baseline once more.
    pub remarks: Vec<String>,
    /// Raw samples by case; empty unless the outcome is `ok`.
    pub samples: Vec<SampleSeries>,
    /// Findings that concern it, in order of leaves.
    pub findings: Vec<Noted>,
}

impl RankInput {
    /// The result as findings see it.
    pub fn judged(&self) -> Judged {
        let ResultRecord { task, candidate, class, .. } = &self.record;
        let (task, candidate, class) = (*task, *candidate, *class);
        Judged { leaf: self.leaf, record: self.record_id, task, candidate, class }
    }
}

/// Every table of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranking {
    pub task: TaskId,
    pub task_name: String,
    /// Tree size that the answer is about.
    pub as_of: u64,
    /// How the intervals were made: of one lease, and over several.
    pub intervals: [String; 2],
    /// Results of a weaker sandbox were left out; `none` leaves out none.
    pub least_sandbox: SandboxLevel,
    /// GPUs before CPUs, then by architecture, model and class.
    pub tables: Vec<Table>,
}

/// What is comparable with each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    pub class: ClassId,
    pub policy: PolicyId,
    pub policy_name: String,
    /// Stages of validation that none of these results went through, since their policy leaves them out.
    pub left_out: Vec<OptionalStage>,
    pub device_kind: DeviceKind,
    pub architecture: Architecture,
    pub device_model: String,
    /// What copies of the baseline came out with; none where no copy was measured.
    pub noise_floor: Option<Floor>,
    /// The baseline and every candidate that passed, from fast to slow.
    pub rows: Vec<RankRow>,
    /// Candidates without an `ok`, by the status of their latest attempt that was not the fleet's fault.
    pub rejected: Vec<RejectedGroup>,
    /// Candidates with an `ok` that a finding brought down, in the order in which they fell.
    pub fallen: Vec<FallenCandidate>,
    pub fleet_faults: Vec<FleetFault>,
    /// Results that this table is made from.
    pub attempts: u64,
    /// The weakest sandbox that any of them ran in.
    pub weakest_sandbox: SandboxLevel,
    /// [`CPU_NOTICE`], or empty.
    pub notice: String,
}

/// What leases add to ratios, learned from copies of the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// Results of copies.
    pub results: u64,
    /// The ratio above one within which one more copy comes out in 95 % of cases.
    pub bound: PartsPerBillion,
}

/// What is said of a row beside the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    Faster,
    Slower,
    NoDifference,
    /// It differs within its one lease, and nothing says what another lease would add.
    OneLeaseOnly,
}

impl From<stats::Claim> for Claim {
    fn from(claim: stats::Claim) -> Self {
        match claim {
            stats::Claim::Faster => Self::Faster,
            stats::Claim::Slower => Self::Slower,
            stats::Claim::NoDifference => Self::NoDifference,
            stats::Claim::OneLeaseOnly => Self::OneLeaseOnly,
        }
    }
}

/// What an interval speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    SingleLease,
    /// Other leases on the boards that were measured.
    Leases,
    /// Other boards of the class too.
    Boards,
}

impl From<stats::Reach> for Reach {
    fn from(reach: stats::Reach) -> Self {
        match reach {
            stats::Reach::SingleLease => Self::SingleLease,
            stats::Reach::Leases => Self::Leases,
            stats::Reach::Boards => Self::Boards,
        }
    }
}

/// Where a row stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// What the others are timed against; always at one.
    Baseline,
    /// Shared by ties: 1, 1, 3.
    Rank(u64),
}

/// One line of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRow {
    pub place: Place,
    pub candidate: Option<CandidateId>,
    pub name: String,
    /// Above one means faster than the baseline.
    pub score: PartsPerBillion,
    /// Ends of the 95 % interval.
    pub low: PartsPerBillion,
    pub high: PartsPerBillion,
    /// Whether the interval holds one.
    pub is_like_baseline: bool,
    /// What may be said of it beside the baseline, of all rows together.
    pub claim: Claim,
    /// What the interval speaks for.
    pub reach: Reach,
    /// Leases, boards and nodes that measured it; the score is of all leases from three on, else of the newest.
    pub leases: u64,
    pub boards: u64,
    pub nodes: u64,
    /// The smallest true ratio above one that such a measurement shows in four of five tries.
    pub detectable: PartsPerBillion,
    /// Whether it is the baseline once more.
    pub is_copy: bool,
    /// What readers should know of it beside its time, in the node's words.
    pub remarks: Vec<String>,
    pub record: Option<RecordId>,
    pub leaf: Option<LeafIndex>,
    /// Attempts of this candidate in this class that were not the fleet's fault, this one included.
    pub attempts: u64,
    /// Those of them that were not `ok`.
    pub failed: u64,
    /// What detectors found that does not bring it down.
    pub labels: Vec<Label>,
}

/// A label of a row, and the entry that gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    pub detector: DetectorName,
    pub code: String,
    pub cause: String,
    pub finding: RecordId,
    pub leaf: LeafIndex,
}

/// A candidate whose newest `ok` fell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallenCandidate {
    pub candidate: CandidateId,
    pub name: String,
    /// The result that fell.
    pub record: RecordId,
    pub leaf: LeafIndex,
    /// What it scored; none where its samples are gone.
    pub score: Option<PartsPerBillion>,
    pub detector: DetectorName,
    pub code: String,
    pub cause: String,
    /// The entry that brought it down: the ranking as of this leaf is the last one with it.
    pub finding: RecordId,
    pub finding_leaf: LeafIndex,
}

/// Candidates that ended with one status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedGroup {
    pub status: Status,
    pub candidates: Vec<RejectedCandidate>,
}

/// Why one candidate is not ranked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedCandidate {
    pub candidate: CandidateId,
    pub name: String,
    pub record: RecordId,
    pub leaf: LeafIndex,
    pub stage: Stage,
    pub blame: Blame,
    /// Code and text of the first cause.
    pub code: String,
    pub cause: String,
    pub hint: String,
    pub attempts: u64,
}

/// An attempt that ended by the fleet's fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetFault {
    pub candidate: CandidateId,
    pub name: String,
    pub status: Status,
    pub record: RecordId,
    pub leaf: LeafIndex,
}
