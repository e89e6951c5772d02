//! Retells a submission whose event log went with an earlier process: where it stands, as if it were happening now.

use super::Driver;
use super::perform::ending_words;
use super::views::unknown_submission;
use super::watch::WatchEvent;
use crate::scheduler::view::Standing;
use fleet_config::domain::SubmissionId;
use fleet_config::refusal::Refusal;

impl Driver {
    /// Makes sure that there is a log to follow.
    pub(super) fn ensure_log(&self, submission: SubmissionId) -> Result<(), Refusal> {
        if self.watch.has(submission) {
            return Ok(());
        }
        if self.scheduler.submission(submission).is_none() {
            return Err(unknown_submission(submission));
        }
        self.retell(submission);
        Ok(())
    }

    /// After a restart: open submissions get their log before anything happens to them. Finished ones get it when
    /// somebody asks.
    pub(super) fn retell_open(&self) {
        for submission in self.scheduler.submissions() {
            if submission.open > 0 && !self.watch.has(submission.id) {
                self.retell(submission.id);
            }
        }
    }

    fn retell(&self, submission: SubmissionId) {
        let cells = self.scheduler.cells(submission);
        let tell = |kind: &str, cell: String, detail: String, node: String, index: Option<u64>| {
            let kind = kind.to_owned();
            self.watch.publish(submission, WatchEvent { sequence: 0, kind, cell, detail, node, index });
        };
        let nothing = String::new;
        tell("accepted", nothing(), format!("{} cells", cells.len()), nothing(), None);
        let mut open = cells.len();
        for cell in &cells {
            match &cell.standing {
                Standing::Finished(ending) => {
                    let (detail, index) = ending_words(ending);
                    tell("finished", cell.id.to_string(), detail, nothing(), Some(index));
                    open -= 1;
                }
                Standing::Leased { fence: _ } => {
                    let node = self.node_of(self.scheduler.explain(cell.id).as_ref());
                    tell("leased", cell.id.to_string(), format!("attempt {}", cell.attempts), node, None);
                }
                Standing::Queued | Standing::Backoff | Standing::Ending => {}
            }
        }
        if open == 0 {
            tell("done", nothing(), nothing(), nothing(), None);
        }
    }
}
