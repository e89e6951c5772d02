//! What an audit says: the form that the command line prints as JSON.

use crate::entry::predicate::{Consequence, HoldoutVerdict, LossReason, RefusalReason, ResultRecord, word};
use crate::rank::finding::{Noted, Revoked};
use crate::stats;
use fleet_config::domain::{
    Blame, CandidateId, CellId, ClassId, Fence, LeafIndex, NodeId, PartsPerBillion, PolicyId, RecordId,
    Status, SubmissionId, TaskId,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Everything behind one result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    pub result: Shown,
    /// Entry of the finding or revocation by which it falls from rankings, if it does.
    pub fallen_by: Option<LeafIndex>,
    /// Of this candidate at this task, on every device and under every policy.
    pub counts: Counts,
    /// In order of fences.
    pub attempts: Vec<Attempt>,
    pub retries: Vec<Retry>,
    /// Refused results for cells of this candidate under fences that nobody was granted.
    pub refused_unplaced: u64,
    pub has_holdout: bool,
    /// Of the task's sealed cases, for this candidate.
    pub openings: Vec<Opening>,
    pub openings_of_other_candidates: u64,
    /// That cover the result.
    pub findings: Vec<Judgement>,
    /// Of the node that measured.
    pub revocations: Vec<Revocation>,
    /// By anybody at this task.
    pub task_attempts: u64,
    pub task_candidates: u64,
    pub task_policies: u64,
    pub task_classes: u64,
    /// In the comparability class of the result and under its policy.
    pub class_results: u64,
    pub class_candidates: u64,
    pub class_candidates_ok: u64,
    pub class_statuses: BTreeMap<String, u64>,
    pub near_tasks: Vec<NearTask>,
    /// Grant entries whose blob is missing or damaged: attempts in them are not counted.
    pub grants_unreadable: u64,
}

/// The audited result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    pub leaf: LeafIndex,
    pub record: RecordId,
    pub task: TaskId,
    pub candidate: CandidateId,
    pub class: ClassId,
    pub policy: PolicyId,
    pub node: NodeId,
    pub status: Status,
    /// Geometric mean of the record's own ratios to the baseline.
    pub speedup: Option<PartsPerBillion>,
}

impl Shown {
    pub(super) fn of(leaf: LeafIndex, record: RecordId, result: &ResultRecord) -> Self {
        let logarithms: Vec<f64> =
            result.timings.iter().map(|timing| libm::log(timing.ratio.0 as f64 * 1e-9)).collect();
        Self {
            leaf,
            record,
            task: result.task,
            candidate: result.candidate,
            class: result.class,
            policy: result.policy,
            node: result.node,
            status: result.outcome.status,
            speedup: stats::geometric_mean(&logarithms).map(stats::parts_per_billion),
        }
    }
}

/// One leased try at the candidate, or a cell that ended without any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// The grant's entry.
    pub granted: Option<LeafIndex>,
    pub submission: SubmissionId,
    pub cell: CellId,
    pub fence: Option<Fence>,
    pub node: Option<NodeId>,
    pub device: Option<String>,
    pub policy: Option<PolicyId>,
    pub ending: AttemptEnding,
    /// Results for it that may not count, with the entries that say so.
    pub refused: Vec<(LeafIndex, RefusalReason)>,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnding {
    /// No entry says: it runs, or its end is not logged yet.
    Open,
    Result {
        leaf: LeafIndex,
        record: RecordId,
        status: Status,
        blame: Blame,
        code: Option<String>,
        class: ClassId,
        /// Whether the cell ended with it.
        is_final: bool,
        /// Of a verification: what became of the sealed cases.
        sealed: Option<HoldoutVerdict>,
    },
    Lost {
        leaf: LeafIndex,
        reason: LossReason,
        consequence: Consequence,
    },
}

impl AttemptEnding {
    pub(super) fn leaf(&self) -> Option<LeafIndex> {
        match self {
            Self::Open => None,
            Self::Result { leaf, .. } | Self::Lost { leaf, .. } => Some(*leaf),
        }
    }
}

/// Attempts by what came of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub attempts: u64,
    pub submissions: u64,
    pub cells: u64,
    pub ok: u64,
    /// Ended with another status.
    pub failed: u64,
    pub lost: u64,
    pub open: u64,
    pub refused: u64,
}

impl Counts {
    pub(super) fn of(attempts: &[Attempt]) -> Self {
        let mut counts = Self {
            attempts: attempts.len() as u64,
            submissions: attempts.iter().map(|one| one.submission).collect::<BTreeSet<_>>().len() as u64,
            cells: attempts.iter().map(|one| one.cell).collect::<BTreeSet<_>>().len() as u64,
            refused: attempts.iter().map(|one| one.refused.len() as u64).sum(),
            ..Self::default()
        };
        for attempt in attempts {
            match &attempt.ending {
                AttemptEnding::Open => counts.open += 1,
                AttemptEnding::Lost { .. } => counts.lost += 1,
                AttemptEnding::Result { status: Status::Ok, .. } => counts.ok += 1,
                AttemptEnding::Result { .. } => counts.failed += 1,
            }
        }
        counts
    }
}

/// Why a cell was tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Retry {
    pub cell: CellId,
    /// The attempt that came to nothing.
    pub fence: Option<Fence>,
    /// Its entry.
    pub leaf: LeafIndex,
    /// Reason of the loss, or status of the fleet's own fault.
    pub cause: String,
}

impl Retry {
    pub(super) fn of(attempts: &[Attempt]) -> Vec<Self> {
        let retry = |attempt: &Attempt| {
            let (leaf, cause) = match &attempt.ending {
                AttemptEnding::Lost { leaf, reason, consequence: Consequence::Retried } => {
                    (*leaf, word(reason))
                }
                AttemptEnding::Result { leaf, status, is_final: false, .. } => {
                    (*leaf, status.name().to_owned())
                }
                AttemptEnding::Open | AttemptEnding::Lost { .. } | AttemptEnding::Result { .. } => {
                    return None;
                }
            };
            Some(Self { cell: attempt.cell, fence: attempt.fence, leaf, cause })
        };
        attempts.iter().filter_map(retry).collect()
    }
}

/// One opening of the sealed cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Opening {
    pub leaf: LeafIndex,
    /// From 1, over all candidates of the task.
    pub opening: u64,
    /// The result that was chosen.
    pub chosen: RecordId,
    pub cell: CellId,
    pub fence: Fence,
}

/// A finding about the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    pub leaf: LeafIndex,
    pub detector: String,
    pub judgement: String,
    pub code: String,
    pub cause: String,
}

impl Judgement {
    pub(super) fn of(noted: Noted) -> Self {
        Self {
            leaf: noted.leaf,
            detector: noted.detector.to_string(),
            judgement: word(&noted.judgement),
            code: noted.code,
            cause: noted.cause,
        }
    }
}

/// A revocation of the node that measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Revocation {
    pub leaf: LeafIndex,
    pub suspect_from: LeafIndex,
    pub reason: String,
}

impl Revocation {
    pub(super) fn of(revoked: Revoked) -> Self {
        Self { leaf: revoked.leaf, suspect_from: revoked.suspect_from, reason: revoked.reason }
    }
}

/// A task that is nearly this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NearTask {
    pub task: TaskId,
    pub name: String,
    pub leaf: LeafIndex,
    pub same_name: bool,
    pub same_reference: bool,
    /// Results of it.
    pub results: u64,
}
