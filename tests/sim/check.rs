//! What must be true of the disk at the end of every history.

use crate::world::{Entry, World};
use coordinator::scheduler::limits::ATTEMPTS_MAX;
use coordinator::scheduler::retry::is_retried;
use coordinator::scheduler::{EndReason, Fact, Input, LeaseGrant, LedgerEvent, Scheduler};
use fleet_config::domain::{CellId, Fence};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Default)]
struct History {
    grants: Vec<LeaseGrant>,
    /// Attempts that ended by the fleet's fault.
    failed: BTreeSet<Fence>,
    finals: Vec<Option<EndReason>>,
}

impl World {
    /// Checks journal against ledger; returns (cells, retries).
    pub(crate) fn check(&self) -> (usize, usize) {
        let mut cells = self.histories();
        for submission in &self.acknowledged {
            for (cell, _, _) in self.submissions[submission].cells(*submission) {
                cells.entry(cell).or_default();
            }
        }
        let mut retries = 0;
        for (cell, history) in &cells {
            let History { grants, failed, finals } = history;
            assert_eq!(finals.len(), 1, "cell {cell} has {} final entries", finals.len());
            assert!(grants.len() <= ATTEMPTS_MAX as usize, "cell {cell} was tried {} times", grants.len());
            for pair in grants.windows(2) {
                assert!(failed.contains(&pair[0].fence), "retried though the fleet did not fail");
                assert!(pair[0].nonce != pair[1].nonce && pair[0].seeds != pair[1].seeds);
                retries += 1;
            }
            match finals[0] {
                Some(EndReason::AttemptsExhausted) => assert_eq!(failed.len(), ATTEMPTS_MAX as usize),
                Some(EndReason::QueueBudgetSpent) => panic!("there was no queue budget"),
                Some(EndReason::Cancelled) => assert!(self.cancels_sent > 0),
                None => assert!(failed.len() < grants.len(), "the last attempt has the result"),
            }
        }
        self.check_replay();
        (cells.len(), retries)
    }

    fn histories(&self) -> BTreeMap<CellId, History> {
        let mut cells: BTreeMap<CellId, History> = BTreeMap::new();
        for (_, fact) in &self.disk.journal {
            match fact {
                Fact::SubmissionAccepted(accepted) => {
                    for (cell, _, _) in accepted.submission.cells(accepted.id) {
                        assert!(cells.insert(cell, History::default()).is_none(), "accepted twice");
                    }
                }
                Fact::LeaseGranted(grant) => cells.get_mut(&grant.cell).unwrap().grants.push(grant.clone()),
                Fact::Cancelled(_)
                | Fact::NodeDrained { .. }
                | Fact::NodeUndrained { .. }
                | Fact::InviteCreated(_)
                | Fact::InviteConsumed { .. } => {}
            }
        }
        let mut results = BTreeSet::new();
        for entry in &self.disk.ledger {
            let Entry::Event(event) = entry else { continue };
            match event {
                LedgerEvent::GrantsRecorded { .. } => {}
                LedgerEvent::Committed { cell, fence, status, blame, .. } => {
                    assert!(results.insert(*fence), "two accepted results of one attempt");
                    let history = cells.get_mut(cell).unwrap();
                    assert!(history.finals.is_empty(), "a result after the final entry");
                    if is_retried(*status, *blame) {
                        assert!(history.failed.insert(*fence));
                    } else {
                        history.finals.push(None);
                    }
                }
                LedgerEvent::Lost { cell, fence, .. } => {
                    let history = cells.get_mut(cell).unwrap();
                    assert!(history.finals.is_empty(), "a loss after the final entry");
                    assert!(history.failed.insert(*fence), "an attempt lost that had failed before");
                }
                LedgerEvent::Ended { cell, reason, .. } => {
                    cells.get_mut(cell).unwrap().finals.push(Some(*reason));
                }
            }
        }
        cells
    }

    /// Journal and ledger alone lead to the state that the running coordinator has.
    fn check_replay(&self) {
        let running = &self.coordinator.as_ref().unwrap().scheduler;
        running.check().unwrap();
        let mut replayed = Scheduler::replay(self.disk.journal.iter().cloned()).unwrap();
        for entry in &self.disk.ledger {
            if let Entry::Event(event) = entry {
                assert_eq!(replayed.step(Duration::ZERO, Input::Ledger(event.clone())), []);
            }
        }
        assert_eq!(replayed.step(self.now, Input::RecoveryComplete), [], "nothing was left to decide");
        replayed.check().unwrap();
        let cells = |scheduler: &Scheduler| -> Vec<_> {
            self.submissions.keys().flat_map(|id| scheduler.cells(*id)).collect()
        };
        assert_eq!(cells(running), cells(&replayed));
    }
}
