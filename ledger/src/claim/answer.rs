//! What a ledger answers to the question behind a claim: the ranking's row, and its denominators.

use super::{Tree, decimal};
use crate::audit::{Audit, AuditReport};
use crate::entry::Entry;
use crate::rank::{self, RankRow, Ranking, Reach, Table, collect, rank};
use fleet_config::domain::{
    CandidateId, CaseKind, ClassId, Digest, LeafIndex, PartsPerBillion, RecordId, SandboxLevel, TaskId,
};
use serde::{Deserialize, Serialize};

/// Answers with the content of a blob, or with nothing.
type BlobLookup<'a> = dyn FnMut(&Digest) -> Option<Vec<u8>> + 'a;

/// What is asked. The baseline is the task's own; the policy is part of the class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    pub task: TaskId,
    pub candidate: CandidateId,
    pub class: ClassId,
    /// One performance case alone; none for the geometric mean over all of them.
    pub case: Option<String>,
    /// Results of a weaker sandbox do not count.
    pub least_sandbox: SandboxLevel,
}

/// The row of the ranking that answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The newest result of those that count.
    pub record: RecordId,
    pub leaf: LeafIndex,
    pub score: PartsPerBillion,
    /// Ends of the 95 % interval.
    pub low: PartsPerBillion,
    pub high: PartsPerBillion,
    /// What may be said beside the baseline, of all candidates of the table together.
    pub says: rank::Claim,
    pub reach: Reach,
    pub leases: u64,
    pub boards: u64,
    pub nodes: u64,
}

/// How much was tried for the number; [`crate::audit`] has each in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denominators {
    /// Of this candidate at this task, anywhere.
    pub attempts: u64,
    pub submissions: u64,
    pub failed: u64,
    pub lost: u64,
    pub open: u64,
    pub refused: u64,
    pub retries: u64,
    pub openings: u64,
    /// By anybody at this task.
    pub task_attempts: u64,
    pub task_candidates: u64,
    pub task_policies: u64,
    pub task_classes: u64,
    /// In the class of the claim.
    pub class_results: u64,
    pub class_candidates: u64,
    pub class_candidates_ok: u64,
    /// Tasks of the same name or with the same reference.
    pub near_tasks: u64,
    /// Grants that could not be read, so that attempts are missing above.
    pub grants_unreadable: u64,
}

impl Denominators {
    fn of(audit: &AuditReport) -> Self {
        let counts = &audit.counts;
        Self {
            attempts: counts.attempts,
            submissions: counts.submissions,
            failed: counts.failed,
            lost: counts.lost,
            open: counts.open,
            refused: counts.refused + audit.refused_unplaced,
            retries: audit.retries.len() as u64,
            openings: audit.openings.len() as u64,
            task_attempts: audit.task_attempts,
            task_candidates: audit.task_candidates,
            task_policies: audit.task_policies,
            task_classes: audit.task_classes,
            class_results: audit.class_results,
            class_candidates: audit.class_candidates,
            class_candidates_ok: audit.class_candidates_ok,
            near_tasks: audit.near_tasks.len() as u64,
            grants_unreadable: audit.grants_unreadable,
        }
    }
}

/// How things are called, for the sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub task: String,
    pub candidate: String,
    pub device: String,
    pub policy: String,
}

impl Names {
    pub(super) fn sentence(
        &self,
        question: &Question,
        at_least: PartsPerBillion,
        tree: &Tree,
        found: &Found,
    ) -> String {
        let Self { task, candidate, device, policy } = self;
        let case = question.case.as_ref().map(|case| format!(", case {case},")).unwrap_or_default();
        format!(
            "{candidate} ({}) is at least {}× as fast as the baseline of {task} ({}){case} on {device} (class {}, policy {policy}, sandbox {} or closer), over {} leases on {} boards of {} nodes, as of {} entries of {}",
            question.candidate.short(),
            decimal(at_least),
            question.task.short(),
            question.class.short(),
            question.least_sandbox,
            found.leases,
            found.boards,
            found.nodes,
            tree.size,
            tree.origin
        )
    }
}

/// What a ledger answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub found: Found,
    pub denominators: Denominators,
    pub names: Names,
}

/// Asks the first `size` of `entries`, which are in order of leaves from the first on. Blobs count only if they are what
/// their name says. The error says why the ledger has no answer.
pub fn ask(
    question: &Question,
    entries: &[(LeafIndex, Vec<u8>)],
    size: u64,
    blob: &mut BlobLookup<'_>,
) -> Result<Answer, String> {
    let mut blob =
        |digest: &Digest| blob(digest).filter(|bytes| Digest(*blake3::hash(bytes).as_bytes()) == *digest);
    let known = || entries.iter().filter(|(leaf, _)| leaf.0 < size);
    let (mut task, results) =
        collect(question.task, known().cloned(), &mut blob).map_err(|error| error.to_string())?;
    if let Some(name) = &question.case {
        task.cases.retain(|case| case.kind != CaseKind::Performance || case.name == *name);
        if !task.cases.iter().any(|case| case.kind == CaseKind::Performance) {
            return Err(format!("the task has no performance case `{name}`"));
        }
    }
    let ranking = rank(&task, question.task, results, size, question.least_sandbox);
    let (table, row) = placed(&ranking, question)?;
    let (Some(record), Some(leaf)) = (row.record, row.leaf) else {
        return Err("the row of the ranking names no record".to_owned());
    };
    let entry = known().find(|(at, _)| *at == leaf).and_then(|(_, bytes)| Entry::read(bytes).ok());
    let audit = entry.and_then(|entry| Audit::of(leaf, &entry, &mut blob));
    let mut audit = audit.ok_or_else(|| format!("entry {leaf} is no result"))?;
    known().for_each(|(at, bytes)| audit.take(*at, bytes, &mut blob));
    let RankRow { score, low, high, claim: says, reach, leases, boards, nodes, .. } = row.clone();
    Ok(Answer {
        found: Found { record, leaf, score, low, high, says, reach, leases, boards, nodes },
        denominators: Denominators::of(&audit.finish()),
        names: Names {
            task: ranking.task_name.clone(),
            candidate: row.name.clone(),
            device: format!("{} {}", table.device_model, table.architecture),
            policy: table.policy_name.clone(),
        },
    })
}

/// The candidate's row in the table of its class, or why there is none.
fn placed<'a>(ranking: &'a Ranking, question: &Question) -> Result<(&'a Table, &'a RankRow), String> {
    let class = question.class.short();
    let table = ranking.tables.iter().find(|table| table.class == question.class);
    let table = table.ok_or_else(|| format!("no result of class {class} counts"))?;
    let is_it = |candidate: CandidateId| candidate == question.candidate;
    if let Some(row) = table.rows.iter().find(|row| row.candidate.is_some_and(is_it)) {
        return Ok((table, row));
    }
    if let Some(fallen) = table.fallen.iter().find(|fallen| is_it(fallen.candidate)) {
        let (leaf, by, cause) = (fallen.finding_leaf, &fallen.detector, &fallen.cause);
        return Err(format!("its result in entry {} fell by entry {leaf} ({by}): {cause}", fallen.leaf));
    }
    let rejected =
        table.rejected.iter().flat_map(|group| group.candidates.iter().map(|one| (group.status, one)));
    Err(match rejected.into_iter().find(|(_, one)| is_it(one.candidate)) {
        Some((status, one)) => format!("it is not ranked: {status} in entry {}: {}", one.leaf, one.cause),
        None => format!("the candidate has no result that counts in class {class}"),
    })
}
