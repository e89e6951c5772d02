//! The denominator of a number: every attempt, loss, refusal, retry, opening and finding behind one recorded result.
//!
//! Pure: entries come from the caller in order of leaves, blobs through a function. Two passes: [`Audit::of`] takes the
//! result, [`Audit::take`] every entry of the log, [`Audit::finish`] adds up. Grants are logged before they run, so an
//! attempt that nobody reported is counted all the same.

mod model;

#[cfg(test)]
mod tests;

pub use model::{
    Attempt, AttemptEnding, AuditReport, Counts, Judgement, NearTask, Opening, Retry, Revocation, Shown,
};

use crate::entry::predicate::{Grant, ResultRecord};
use crate::entry::{Body, Entry, read_grants};
use crate::rank::finding::{Judged, Noted, Revoked, fall};
use fleet_config::domain::canonical::from_bytes;
use fleet_config::domain::{
    CandidateId, CellId, ClassId, Commitment, Digest, Fence, LeafIndex, PolicyId, RecordId, Status,
    SubmissionId, Task, TaskId,
};
use std::collections::{BTreeMap, BTreeSet};

/// Answers with the content of a blob, or with nothing.
type BlobLookup<'a> = dyn FnMut(&Digest) -> Option<Vec<u8>> + 'a;

/// An audit under way.
#[derive(Debug)]
pub struct Audit {
    leaf: LeafIndex,
    record: RecordId,
    result: ResultRecord,
    commitment: Option<Commitment>,
    attempts: BTreeMap<(CellId, Option<Fence>), Attempt>,
    openings: Vec<Opening>,
    openings_of_others: u64,
    findings: Vec<Noted>,
    revocations: Vec<Revoked>,
    tried: Tried,
    tasks: BTreeMap<TaskId, (LeafIndex, String, Option<Task>)>,
    results_by_task: BTreeMap<TaskId, u64>,
    refused_unplaced: u64,
    grants_unreadable: u64,
}

/// What was tried at the same task, by anybody.
#[derive(Debug, Default)]
struct Tried {
    attempts: u64,
    candidates: BTreeSet<CandidateId>,
    /// In the result's own class and under its policy.
    results_here: u64,
    candidates_here: BTreeSet<CandidateId>,
    ok_here: BTreeSet<CandidateId>,
    statuses_here: BTreeMap<Status, u64>,
    policies: BTreeSet<PolicyId>,
    classes: BTreeSet<ClassId>,
}

impl Audit {
    /// The audit of the result in this entry; none if it is no result. What a verification measured is audited like one.
    pub fn of(leaf: LeafIndex, entry: &Entry, blob: &mut BlobLookup<'_>) -> Option<Self> {
        let result = entry.body.result()?.clone();
        let task = blob(&Digest(result.task.0)).and_then(|bytes| from_bytes::<Task>(&bytes).ok());
        Some(Self {
            leaf,
            record: entry.record,
            result,
            commitment: task.and_then(|task| task.holdout).map(|holdout| holdout.commitment),
            attempts: BTreeMap::new(),
            openings: Vec::new(),
            openings_of_others: 0,
            findings: Vec::new(),
            revocations: Vec::new(),
            tried: Tried::default(),
            tasks: BTreeMap::new(),
            results_by_task: BTreeMap::new(),
            refused_unplaced: 0,
            grants_unreadable: 0,
        })
    }

    /// The next entry of the log.
    pub fn take(&mut self, leaf: LeafIndex, bytes: &[u8], blob: &mut BlobLookup<'_>) {
        let Ok(entry) = Entry::read(bytes) else { return };
        match &entry.body {
            Body::Task(task) => {
                let definition = blob(&Digest(task.task.0)).and_then(|bytes| from_bytes(&bytes).ok());
                self.tasks.entry(task.task).or_insert_with(|| (leaf, task.name.clone(), definition));
            }
            Body::AttemptGranted(granted) => {
                let grants = blob(&granted.grants.blake3).and_then(|bytes| read_grants(granted, &bytes).ok());
                match grants {
                    Some(grants) => grants.into_iter().for_each(|grant| self.granted(leaf, grant)),
                    None => self.grants_unreadable += 1,
                }
            }
            Body::AttemptLost(lost) if self.is_ours(lost.task, lost.candidate) => {
                let (reason, consequence) = (lost.reason, lost.consequence);
                let ending = AttemptEnding::Lost { leaf, reason, consequence };
                self.end(lost.submission, lost.cell, lost.fence, ending);
            }
            Body::AttemptRefused(refused) => {
                let is_ours = self.attempts.keys().any(|(cell, _)| *cell == refused.cell);
                match self.attempts.get_mut(&(refused.cell, Some(refused.fence))) {
                    Some(attempt) => attempt.refused.push((leaf, refused.reason)),
                    None => self.refused_unplaced += u64::from(is_ours),
                }
            }
            Body::HoldoutOpened(opened) if Some(opened.commitment) == self.commitment => {
                if opened.candidate == self.result.candidate {
                    let (opening, fence) = (opened.opening, opened.fence);
                    self.openings.push(Opening {
                        leaf,
                        opening,
                        chosen: opened.record,
                        cell: opened.cell,
                        fence,
                    });
                } else {
                    self.openings_of_others += 1;
                }
            }
            Body::Result(result) => self.ended(leaf, entry.record, result, None),
            Body::Verification(verification) => {
                self.ended(leaf, entry.record, &verification.result, Some(verification.verdict));
            }
            Body::Finding(finding) if self.is_ours(finding.task, finding.candidate) => {
                self.findings.push(Noted::of(leaf, entry.record, finding));
            }
            Body::NodeRevoke(revoke) if revoke.node == self.result.node => {
                self.revocations.push(Revoked::of(leaf, entry.record, revoke));
            }
            Body::Genesis(_)
            | Body::Policy(_)
            | Body::NodeEnrol(_)
            | Body::NodeRevoke(_)
            | Body::AttemptLost(_)
            | Body::HoldoutOpened(_)
            | Body::Finding(_)
            | Body::Unknown { .. } => {}
        }
    }

    fn is_ours(&self, task: TaskId, candidate: CandidateId) -> bool {
        (task, candidate) == (self.result.task, self.result.candidate)
    }

    fn granted(&mut self, leaf: LeafIndex, grant: Grant) {
        if grant.task != self.result.task {
            return;
        }
        self.tried.attempts += 1;
        self.tried.candidates.insert(grant.candidate);
        self.tried.policies.insert(grant.policy);
        if grant.candidate == self.result.candidate {
            let attempt = Attempt {
                granted: Some(leaf),
                submission: grant.submission,
                cell: grant.cell,
                fence: Some(grant.fence),
                node: Some(grant.node),
                device: Some(grant.device.to_string()),
                policy: Some(grant.policy),
                ending: AttemptEnding::Open,
                refused: Vec::new(),
            };
            self.attempts.insert((grant.cell, Some(grant.fence)), attempt);
        }
    }

    fn ended(
        &mut self,
        leaf: LeafIndex,
        record: RecordId,
        result: &ResultRecord,
        sealed: Option<crate::entry::predicate::HoldoutVerdict>,
    ) {
        if sealed.is_none() {
            *self.results_by_task.entry(result.task).or_default() += 1;
        }
        if result.task != self.result.task {
            return;
        }
        let status = result.outcome.status;
        self.tried.classes.insert(result.class);
        if sealed.is_none() && (result.class, result.policy) == (self.result.class, self.result.policy) {
            self.tried.results_here += 1;
            *self.tried.statuses_here.entry(status).or_default() += 1;
            self.tried.candidates_here.insert(result.candidate);
            if status == Status::Ok {
                self.tried.ok_here.insert(result.candidate);
            }
        }
        if result.candidate == self.result.candidate {
            let code = result.outcome.cause.as_ref().map(|cause| cause.code.clone());
            let (class, blame) = (result.class, result.outcome.blame);
            let is_final = result.is_final();
            let ending = AttemptEnding::Result { leaf, record, status, blame, code, class, is_final, sealed };
            self.end(result.submission, result.cell, Some(result.fence), ending);
        }
    }

    /// An attempt ended. One that no grant was read of is listed without it.
    fn end(&mut self, submission: SubmissionId, cell: CellId, fence: Option<Fence>, ending: AttemptEnding) {
        let attempt = self.attempts.entry((cell, fence)).or_insert_with(|| Attempt {
            granted: None,
            submission,
            cell,
            fence,
            node: None,
            device: None,
            policy: None,
            ending: AttemptEnding::Open,
            refused: Vec::new(),
        });
        attempt.ending = ending;
    }

    /// What was found.
    pub fn finish(self) -> AuditReport {
        let judged = Judged {
            leaf: self.leaf,
            record: self.record,
            task: self.result.task,
            candidate: self.result.candidate,
            class: self.result.class,
        };
        let mut all: Vec<Noted> =
            self.findings.iter().filter(|noted| noted.covers(&judged)).cloned().collect();
        let suspecting = self.revocations.iter().filter(|one| one.suspects(self.result.node, self.leaf));
        all.extend(suspecting.map(|one| one.about(&judged)));
        all.sort_by_key(|noted| noted.leaf);
        let fallen_by = fall(&all, &judged).map(|noted| noted.leaf);
        let near_tasks = self.near_tasks();
        let mut attempts: Vec<Attempt> = self.attempts.into_values().collect();
        attempts.sort_by_key(|attempt| (attempt.fence, attempt.ending.leaf()));
        let counts = Counts::of(&attempts);
        let Tried {
            attempts: tried,
            candidates,
            results_here,
            candidates_here,
            ok_here,
            statuses_here,
            policies,
            classes,
        } = self.tried;
        AuditReport {
            result: Shown::of(self.leaf, self.record, &self.result),
            fallen_by,
            counts,
            retries: Retry::of(&attempts),
            attempts,
            refused_unplaced: self.refused_unplaced,
            openings: self.openings,
            openings_of_other_candidates: self.openings_of_others,
            has_holdout: self.commitment.is_some(),
            findings: all.into_iter().map(Judgement::of).collect(),
            revocations: self.revocations.into_iter().map(Revocation::of).collect(),
            task_attempts: tried,
            task_candidates: candidates.len() as u64,
            task_policies: policies.len() as u64,
            task_classes: classes.len() as u64,
            class_results: results_here,
            class_candidates: candidates_here.len() as u64,
            class_candidates_ok: ok_here.len() as u64,
            class_statuses: statuses_here
                .into_iter()
                .map(|(status, count)| (status.name().to_owned(), count))
                .collect(),
            near_tasks,
            grants_unreadable: self.grants_unreadable,
        }
    }

    /// Other tasks of the same name or with the same reference: a number may have been looked for in each.
    fn near_tasks(&self) -> Vec<NearTask> {
        let Some((_, own_name, own)) = self.tasks.get(&self.result.task) else { return Vec::new() };
        let mut near = Vec::new();
        for (id, (leaf, name, definition)) in &self.tasks {
            let same_reference = match (own, definition) {
                (Some(own), Some(other)) => own.reference.source == other.reference.source,
                (_, _) => false,
            };
            let same_name = name == own_name;
            if *id != self.result.task && (same_name || same_reference) {
                let results = self.results_by_task.get(id).copied().unwrap_or(0);
                near.push(NearTask {
                    task: *id,
                    name: name.clone(),
                    leaf: *leaf,
                    same_name,
                    same_reference,
                    results,
                });
            }
        }
        near.sort_by_key(|task| task.leaf);
        near
    }
}
