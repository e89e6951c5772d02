//! Submissions as a list, and by the first digits of their ids.

use super::Driver;
use super::request::SubmissionView;
use crate::scheduler::view;
use fleet_config::domain::SubmissionId;
use fleet_config::refusal::Refusal;
use std::collections::BTreeSet;

/// Candidates of a submission that a list names.
const NAMED: usize = 3;

impl Driver {
    /// The newest submissions, newest first.
    pub(super) fn recent(&self, limit: usize) -> Vec<SubmissionView> {
        let all = self.scheduler.submissions();
        all.iter().rev().take(limit).map(|submission| self.submission_view(submission)).collect()
    }

    fn submission_view(&self, submission: &view::SubmissionView) -> SubmissionView {
        let cells = self.scheduler.cells(submission.id);
        let candidates: BTreeSet<_> = cells.iter().map(|cell| cell.candidate).collect();
        let task = self.documents.task(submission.task);
        SubmissionView {
            submission: submission.id,
            task: submission.task,
            name: task.map(|task| task.value.name.clone()).unwrap_or_default(),
            candidates: candidates.iter().take(NAMED).map(|id| self.candidate_name(*id)).collect(),
            candidates_total: candidates.len() as u64,
            cells: submission.cells as u64,
            open: submission.open as u64,
        }
    }

    /// The one submission whose id begins with `prefix`.
    pub(super) fn named(&self, prefix: &str) -> Result<SubmissionId, Refusal> {
        named(self.scheduler.submissions().iter().map(|submission| submission.id), prefix)
    }
}

fn named(ids: impl Iterator<Item = SubmissionId>, prefix: &str) -> Result<SubmissionId, Refusal> {
    let mut named = ids.filter(|id| id.to_string().starts_with(prefix));
    let refuse = |code, cause: &str, next: &str| Err(Refusal::new(code, prefix, cause, next));
    match (named.next(), named.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => refuse(
            "submit/ambiguous-submission",
            "more than one submission begins with these digits",
            "give more digits; `muster status` lists the newest",
        ),
        (None, _) => refuse(
            "submit/unknown-submission",
            "no open or lately finished submission begins with these digits",
            "`muster status` lists the newest; older ones are in the ledger: see `muster rank` and `muster show`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_names_a_submission_if_it_names_no_other() {
        let ids = || [0x1a, 0x1b, 0x2c].into_iter().map(|byte| SubmissionId([byte; 32]));
        assert_eq!(named(ids(), "1a1a").unwrap(), SubmissionId([0x1a; 32]));
        assert_eq!(named(ids(), &"2c".repeat(32)).unwrap(), SubmissionId([0x2c; 32]));
        assert_eq!(named(ids(), "1").unwrap_err().code, "submit/ambiguous-submission");
        assert_eq!(named(ids(), "3").unwrap_err().code, "submit/unknown-submission");
    }
}
