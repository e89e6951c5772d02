//! One entry as a row: the same fields for every kind, absent where the kind does not have them.

use super::document::{BlobLookup, Documents};
use crate::entry::predicate::{
    AttemptLost, AttemptRefused, Finding, HoldoutOpened, ResultRecord, Verification, word,
};
use crate::entry::{Body, Entry};
use crate::stats;
use fleet_config::domain::{
    CandidateId, CellId, ClassId, Digest, Fence, LeafIndex, NodeId, PartsPerBillion, Picoseconds, PolicyId,
    RecordId, Sha256, Status, SubmissionId, TaskId,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// What an entry says. Every row has its leaf; the rest depends on the kind. Times are RFC 3339, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub leaf: LeafIndex,
    /// Absent where the entry cannot be read.
    pub record: Option<RecordId>,
    /// Word of the kind; the predicateType of a kind that this version does not know; `unreadable`.
    pub kind: String,
    /// The envelope's hint at its signer.
    pub key_id: Option<Sha256>,
    pub time: Option<String>,
    pub task: Option<TaskId>,
    pub task_name: Option<String>,
    pub candidate: Option<CandidateId>,
    pub candidate_name: Option<String>,
    pub author: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub parent: Option<CandidateId>,
    pub submission: Option<SubmissionId>,
    pub cell: Option<CellId>,
    pub fence: Option<Fence>,
    pub node: Option<NodeId>,
    pub node_name: Option<String>,
    pub device: Option<String>,
    pub device_kind: Option<String>,
    pub device_model: Option<String>,
    pub driver: Option<String>,
    pub architecture: Option<String>,
    pub class: Option<ClassId>,
    pub policy: Option<PolicyId>,
    pub policy_name: Option<String>,
    /// Of a result; `verification`s have one too.
    pub status: Option<Status>,
    pub sandbox: Option<String>,
    /// Code of the cause, reason of a loss or refusal, code of a finding.
    pub code: Option<String>,
    /// For people: the cause's message, the verdict of sealed cases, what a finding says.
    pub note: Option<String>,
    /// The record that this entry is about: the refused, the judged, the chosen one.
    pub about: Option<RecordId>,
    /// Geometric mean over the timed cases of their ratios to the baseline, from the record's own summaries. Rankings
    /// compute theirs, with its interval, from the samples.
    pub speedup: Option<PartsPerBillion>,
    pub cases: Vec<CaseRow>,
    /// Registers, spills and the like, by name.
    pub resources: BTreeMap<String, u64>,
    /// Attempts that a grant entry counts.
    pub attempts: Option<u64>,
}

/// One timed case of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseRow {
    pub case: String,
    pub pairs: u32,
    pub baseline_median: Picoseconds,
    pub candidate_median: Picoseconds,
    pub ratio: PartsPerBillion,
}

/// Which document tells of the environment, kept apart from the row: it is read only for rows that are asked for.
pub(super) struct Named {
    pub(super) environment: Option<Digest>,
}

impl Row {
    /// The row of an entry without what its documents say.
    pub(super) fn of(leaf: LeafIndex, entry: Option<&Entry>) -> (Self, Named) {
        let mut row = Self::empty(leaf);
        let mut named = Named { environment: None };
        let Some(entry) = entry else { return (row, named) };
        row.record = Some(entry.record);
        row.key_id = entry.key_id;
        row.kind = entry.body.word();
        row.take(&entry.body, &mut named);
        (row, named)
    }

    fn take(&mut self, body: &Body, named: &mut Named) {
        match body {
            Body::Genesis(genesis) => {
                self.time = Some(genesis.created_on.clone());
                self.note = Some(genesis.origin.clone());
            }
            Body::Task(task) => {
                (self.task, self.task_name) = (Some(task.task), Some(task.name.clone()));
                self.time = Some(task.added_on.clone());
            }
            Body::Policy(policy) => {
                (self.policy, self.policy_name) = (Some(policy.policy), Some(policy.name.clone()));
                self.time = Some(policy.added_on.clone());
            }
            Body::NodeEnrol(enrol) => {
                (self.node, self.node_name) = (Some(enrol.node), Some(enrol.name.clone()));
                self.time = Some(enrol.enrolled_on.clone());
            }
            Body::NodeRevoke(revoke) => {
                self.node = Some(revoke.node);
                self.time = Some(revoke.revoked_on.clone());
                self.note = Some(format!("suspect from {}: {}", revoke.suspect_from, revoke.reason));
            }
            Body::AttemptGranted(granted) => {
                self.time = Some(granted.granted_on.clone());
                self.attempts = Some(granted.count);
            }
            Body::AttemptLost(lost) => self.take_lost(lost),
            Body::AttemptRefused(refused) => self.take_refused(refused),
            Body::HoldoutOpened(opened) => self.take_opened(opened),
            Body::Result(result) => self.take_result(result, named),
            Body::Verification(verification) => {
                let Verification { holdout, verdict, result } = verification.as_ref();
                self.take_result(result, named);
                self.about = Some(holdout.record);
                self.note = Some(format!("sealed cases {}", verdict.words()));
            }
            Body::Finding(finding) => self.take_finding(finding),
            Body::Unknown { predicate_type: _ } => {}
        }
    }

    fn take_lost(&mut self, lost: &AttemptLost) {
        let AttemptLost { submission, cell, fence, task, candidate, reason, consequence, lost_on } = lost;
        (self.submission, self.cell, self.fence) = (Some(*submission), Some(*cell), *fence);
        (self.task, self.candidate) = (Some(*task), Some(*candidate));
        (self.code, self.note) = (Some(word(reason)), Some(word(consequence)));
        self.time = Some(lost_on.clone());
    }

    fn take_refused(&mut self, refused: &AttemptRefused) {
        let AttemptRefused { cell, fence, node, record, envelope: _, reason, refused_on } = refused;
        (self.cell, self.fence, self.node) = (Some(*cell), Some(*fence), Some(*node));
        (self.about, self.code) = (Some(*record), Some(word(reason)));
        self.time = Some(refused_on.clone());
    }

    fn take_opened(&mut self, opened: &HoldoutOpened) {
        (self.task, self.candidate) = (Some(opened.task), Some(opened.candidate));
        (self.submission, self.cell) = (Some(opened.submission), Some(opened.cell));
        (self.fence, self.node) = (Some(opened.fence), Some(opened.node));
        self.device = Some(opened.device.to_string());
        self.about = Some(opened.record);
        self.note = Some(format!("opening {}", opened.opening));
        self.time = Some(opened.opened_on.clone());
    }

    fn take_result(&mut self, result: &ResultRecord, named: &mut Named) {
        named.environment = Some(result.environment.blake3);
        (self.task, self.candidate) = (Some(result.task), Some(result.candidate));
        (self.submission, self.cell) = (Some(result.submission), Some(result.cell));
        (self.fence, self.node) = (Some(result.fence), Some(result.node));
        self.device = Some(result.device.to_string());
        self.device_kind = Some(result.device_kind.name().to_owned());
        self.architecture = Some(result.architecture.to_string());
        (self.class, self.policy) = (Some(result.class), Some(result.policy));
        self.status = Some(result.outcome.status);
        self.sandbox = Some(result.sandbox.clone());
        self.code = result.outcome.cause.as_ref().map(|cause| cause.code.clone());
        self.note = result.outcome.cause.as_ref().map(|cause| cause.message.clone());
        self.time = Some(result.finished_on.clone());
        let case = |timing: &fleet_config::domain::CaseTiming| CaseRow {
            case: timing.case.clone(),
            pairs: timing.pairs,
            baseline_median: timing.baseline_median,
            candidate_median: timing.candidate_median,
            ratio: timing.ratio,
        };
        self.cases = result.timings.iter().map(case).collect();
        let logarithms: Vec<f64> =
            result.timings.iter().map(|timing| libm::log(timing.ratio.0 as f64 * 1e-9)).collect();
        self.speedup = stats::geometric_mean(&logarithms).map(stats::parts_per_billion);
        self.resources = result.build.as_ref().map(|build| build.resources.clone()).unwrap_or_default();
    }

    fn take_finding(&mut self, finding: &Finding) {
        (self.task, self.candidate) = (Some(finding.task), Some(finding.candidate));
        (self.class, self.about) = (Some(finding.class), Some(finding.record));
        self.code = Some(finding.code.clone());
        let judgement = word(&finding.judgement);
        self.note = Some(format!("{} {judgement}: {}", finding.detector, finding.cause));
        self.time = Some(finding.found_on.clone());
    }

    /// Adds what candidate and environment say of themselves.
    pub(super) fn consult(&mut self, named: &Named, documents: &mut Documents, blob: &mut BlobLookup<'_>) {
        if let Some(candidate) = self.candidate {
            let facts = documents.candidate(Digest(candidate.0), blob);
            let stated = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            self.candidate_name = stated(&facts.name);
            self.author = stated(&facts.author);
            (self.agent, self.model) = (stated(&facts.agent), stated(&facts.model));
            self.parent = facts.parent;
        }
        if let Some(environment) = named.environment {
            let facts = documents.device(environment, blob);
            (self.device_model, self.driver) = (facts.model.clone(), facts.driver.clone());
        }
    }

    fn empty(leaf: LeafIndex) -> Self {
        Self {
            leaf,
            record: None,
            kind: "unreadable".to_owned(),
            key_id: None,
            time: None,
            task: None,
            task_name: None,
            candidate: None,
            candidate_name: None,
            author: None,
            agent: None,
            model: None,
            parent: None,
            submission: None,
            cell: None,
            fence: None,
            node: None,
            node_name: None,
            device: None,
            device_kind: None,
            device_model: None,
            driver: None,
            architecture: None,
            class: None,
            policy: None,
            policy_name: None,
            status: None,
            sandbox: None,
            code: None,
            note: None,
            about: None,
            speedup: None,
            cases: Vec::new(),
            resources: BTreeMap::new(),
            attempts: None,
        }
    }
}
