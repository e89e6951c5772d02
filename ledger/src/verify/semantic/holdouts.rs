//! Every opening of a holdout is counted before it happens, every verification belongs to one, and every finding is
//! about a result.

use super::Notes;
use crate::entry::predicate::{Finding, Grant, HoldoutOpened, OpenedHoldout, ResultRecord, Verification};
use fleet_config::domain::{CandidateId, CellId, ClassId, Commitment, Digest, Fence, RecordId, TaskId};
use std::collections::BTreeMap;

/// What the entries so far say about holdouts and results.
#[derive(Default)]
pub(super) struct Holdouts {
    sealed: BTreeMap<TaskId, Commitment>,
    /// Openings of each section.
    counts: BTreeMap<Digest, u64>,
    /// Openings by the attempt that they are for.
    opened: BTreeMap<(CellId, Fence), HoldoutOpened>,
    /// What each result is of.
    results: BTreeMap<RecordId, (TaskId, CandidateId, ClassId)>,
}

impl Holdouts {
    /// A task was defined.
    pub(super) fn sealed(&mut self, task: TaskId, commitment: Option<Commitment>) {
        if let Some(commitment) = commitment {
            self.sealed.insert(task, commitment);
        }
    }

    pub(super) fn opened(&mut self, opened: &HoldoutOpened, notes: &mut Notes) {
        if self.sealed.get(&opened.task) != Some(&opened.commitment) {
            notes.error("commitment", "no entry before it defines a task that seals this holdout");
        }
        let count = self.counts.entry(opened.commitment.0).or_default();
        if opened.opening != *count + 1 {
            notes.error("opening", format!("{} follows opening {count} of this holdout", opened.opening));
        }
        *count = opened.opening.max(*count);
        match self.results.get(&opened.record) {
            Some((task, candidate, _)) if (*task, *candidate) == (opened.task, opened.candidate) => {}
            Some(_) => notes.error("record", "the chosen result is of another task or candidate"),
            None => notes.error("record", "no result of this name stands before it"),
        }
        if self.opened.insert((opened.cell, opened.fence), opened.clone()).is_some() {
            notes.error("fence", "a holdout was opened for this attempt before");
        }
    }

    /// Attempts that a holdout was opened for are granted to the node and device that the opening names.
    pub(super) fn granted(&self, grants: &[Grant], notes: &mut Notes) {
        for grant in grants {
            let Some(opened) = self.opened.get(&(grant.cell, grant.fence)) else { continue };
            let HoldoutOpened { task, candidate, submission, node, device, .. } = opened;
            let same = (grant.task, grant.candidate, grant.submission, grant.node)
                == (*task, *candidate, *submission, *node)
                && grant.device == *device;
            if !same {
                let name = format!("cell {}, fence {}", grant.cell.short(), grant.fence);
                notes.error(name, "the holdout was opened for another attempt");
            }
        }
    }

    pub(super) fn result(&mut self, record: RecordId, result: &ResultRecord, notes: &mut Notes) {
        if self.opened.contains_key(&(result.cell, result.fence)) {
            notes.error("fence", "a holdout was opened for this attempt, and its result is no verification");
        }
        self.results.insert(record, (result.task, result.candidate, result.class));
    }

    pub(super) fn verified(&self, verification: &Verification, notes: &mut Notes) {
        let Verification { holdout, verdict: _, result } = verification;
        let Some(opened) = self.opened.get(&(result.cell, result.fence)) else {
            notes.error("holdout", "no opening was counted for this attempt before it");
            return;
        };
        let HoldoutOpened { commitment, opening, record, .. } = opened;
        if *holdout != (OpenedHoldout { commitment: *commitment, opening: *opening, record: *record }) {
            notes.error("holdout", "commitment, opening or record differ from the opening that was counted");
        }
    }

    pub(super) fn found(&self, finding: &Finding, notes: &mut Notes) {
        let Some(about) = self.results.get(&finding.record) else {
            notes.error("record", "no result of this name stands before the finding");
            return;
        };
        if *about != (finding.task, finding.candidate, finding.class) {
            notes.error("record", "the judged result is of another task, candidate or class");
        }
        if let Some(rerun) = &finding.rerun {
            match self.results.get(rerun) {
                Some((task, candidate, _)) if (*task, *candidate) == (finding.task, finding.candidate) => {}
                Some(_) | None => notes.error("rerun", "no result of this candidate has this name before it"),
            }
        }
    }
}
