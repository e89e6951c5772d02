//! What watchers are told: an ordered log of events for each submission, from which any reader can resume.

use fleet_config::domain::SubmissionId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Submissions whose events are kept; older ones are answered by the ledger.
const SUBMISSIONS_KEPT: usize = 1_000;

/// Events kept for one submission: about forty for each of the most cells that people watch.
const EVENTS_KEPT: usize = 100_000;

/// One line of a submission's event log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchEvent {
    /// Counts from 1 within its submission; resume after the last one seen.
    pub sequence: u64,
    /// `accepted`, `leased`, `stage`, `retried`, `finished`, `done`.
    pub kind: String,
    /// Cell, or empty for the submission itself.
    pub cell: String,
    /// Stage, status or reason.
    pub detail: String,
    pub node: String,
    /// Leaf of the final entry, for `finished`.
    pub index: Option<u64>,
}

/// Whether more may follow what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    Open,
    Over,
}

/// The event logs. Written by the event loop, read by any number of streams.
#[derive(Debug)]
pub struct Watch {
    logs: Mutex<Logs>,
    /// Bumped after every write, so that streams wake.
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Logs {
    by_submission: BTreeMap<SubmissionId, VecDeque<WatchEvent>>,
    order: VecDeque<SubmissionId>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { logs: Mutex::default(), version: watch::Sender::new(0) }
    }
}

impl Watch {
    /// Adds an event; its sequence is assigned here.
    pub fn publish(&self, submission: SubmissionId, mut event: WatchEvent) {
        let mut logs = self.lock();
        if !logs.by_submission.contains_key(&submission) {
            logs.order.push_back(submission);
            if logs.order.len() > SUBMISSIONS_KEPT
                && let Some(oldest) = logs.order.pop_front()
            {
                logs.by_submission.remove(&oldest);
            }
        }
        let log = logs.by_submission.entry(submission).or_default();
        event.sequence = log.back().map_or(1, |last| last.sequence + 1);
        if log.len() >= EVENTS_KEPT {
            log.pop_front();
        }
        log.push_back(event);
        drop(logs);
        self.version.send_modify(|version| *version += 1);
    }

    /// Whether there is a log of this submission.
    pub fn has(&self, submission: SubmissionId) -> bool {
        self.lock().by_submission.contains_key(&submission)
    }

    /// Where a reader that has seen `sequence` goes on. One that saw more than there is read the log of an earlier
    /// process: it begins anew.
    pub fn resume(&self, submission: SubmissionId, sequence: u64) -> u64 {
        let logs = self.lock();
        let last = logs.by_submission.get(&submission).and_then(|log| log.back()).map_or(0, |e| e.sequence);
        if sequence > last { 0 } else { sequence }
    }

    /// Events of `submission` after `sequence`, at most `limit`, and whether more may come.
    pub fn after(&self, submission: SubmissionId, sequence: u64, limit: usize) -> (Vec<WatchEvent>, Tail) {
        let logs = self.lock();
        let Some(log) = logs.by_submission.get(&submission) else { return (Vec::new(), Tail::Over) };
        let events: Vec<_> =
            log.iter().filter(|event| event.sequence > sequence).take(limit).cloned().collect();
        let is_over = events.is_empty() && log.back().is_some_and(|last| last.kind == "done");
        (events, if is_over { Tail::Over } else { Tail::Open })
    }

    /// Wakes whenever any log grew.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Logs> {
        // A panic while holding this lock leaves whole events only, so the logs stay usable.
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str) -> WatchEvent {
        WatchEvent {
            sequence: 0,
            kind: kind.to_owned(),
            cell: String::new(),
            detail: String::new(),
            node: String::new(),
            index: None,
        }
    }

    #[test]
    fn a_reader_resumes_after_the_last_event_it_saw() {
        let watch = Watch::default();
        let submission = SubmissionId([1; 32]);
        for kind in ["accepted", "leased", "done"] {
            watch.publish(submission, event(kind));
        }
        let kinds = |after| -> Vec<String> {
            watch.after(submission, after, 10).0.into_iter().map(|event| event.kind).collect()
        };
        assert_eq!(kinds(0), ["accepted", "leased", "done"]);
        assert_eq!(kinds(2), ["done"]);
        assert!(kinds(3).is_empty());
        assert_eq!(watch.after(submission, 3, 10), (vec![], Tail::Over), "nothing follows the end");
        assert_eq!(watch.after(SubmissionId([2; 32]), 0, 10), (vec![], Tail::Over));
        assert_eq!((watch.resume(submission, 2), watch.resume(submission, 3)), (2, 3));
        assert_eq!(watch.resume(submission, 57), 0, "it read the log of an earlier process");
        let open = SubmissionId([3; 32]);
        watch.publish(open, event("accepted"));
        assert_eq!(watch.after(open, 1, 10), (vec![], Tail::Open));
        assert!(watch.has(open) && !watch.has(SubmissionId([2; 32])));
    }
}
