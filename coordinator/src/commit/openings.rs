//! How often each holdout was opened, and for which attempts: from the ledger alone. The writer counts; others read.

use super::writer::{Writer, stopped_refusal};
use crate::scheduler::effect::Grant as LeasedGrant;
use crate::scheduler::input::LedgerEvent;
use crate::stores::reference;
use fleet_config::domain::{CellId, Commitment, Digest, Fence, HoldoutCheck, LeafIndex};
use fleet_config::refusal::Refusal;
use ledger::entry::Subject;
use ledger::entry::predicate::{HoldoutOpened, OpenedHoldout};
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

/// Counts by section, and the openings whose attempt has not ended.
#[derive(Debug, Clone, Default)]
pub struct Openings {
    counts: BTreeMap<Digest, u64>,
    open: BTreeMap<(CellId, Fence), OpenedHoldout>,
}

impl Openings {
    /// Openings of a section so far.
    pub fn count(&self, commitment: Commitment) -> u64 {
        self.counts.get(&commitment.0).copied().unwrap_or(0)
    }

    /// What was opened for an attempt that has not ended.
    pub fn of(&self, cell: CellId, fence: Fence) -> Option<OpenedHoldout> {
        self.open.get(&(cell, fence)).copied()
    }

    /// Takes in an opening that is in the log, or goes there with this batch.
    pub(super) fn note(&mut self, opened: &HoldoutOpened) {
        let HoldoutOpened { commitment, opening, record, cell, fence, .. } = opened;
        let count = self.counts.entry(commitment.0).or_default();
        *count = (*opening).max(*count);
        let holdout = OpenedHoldout { commitment: *commitment, opening: *opening, record: *record };
        self.open.insert((*cell, *fence), holdout);
    }

    /// Forgets openings whose attempt has ended; their count stays.
    pub(super) fn forget_ended(&mut self, event: &LedgerEvent) {
        match event {
            LedgerEvent::Committed { cell, fence, .. } | LedgerEvent::Lost { cell, fence, .. } => {
                self.open.remove(&(*cell, *fence));
            }
            LedgerEvent::Ended { cell, .. } => self.open.retain(|(of, _), _| of != cell),
            LedgerEvent::GrantsRecorded { fences: _, index: LeafIndex(_) } => {}
        }
    }
}

impl Writer {
    pub(super) fn openings(&self) -> MutexGuard<'_, Openings> {
        self.shared.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was opened for an attempt.
    pub(super) fn opened_for(&self, cell: CellId, fence: Fence) -> Option<OpenedHoldout> {
        self.openings().of(cell, fence)
    }

    /// Counts the openings that verification leases bring, in entries before those of the grants: however the batch is
    /// torn, no grant is in the log whose opening is not.
    pub(super) fn record_openings(&mut self, leased: &[LeasedGrant]) -> Result<(), Refusal> {
        for grant in leased {
            let Some(HoldoutCheck { record, commitment }) = grant.holdout else { continue };
            // A batch that was torn between the two entries: the opening is in the log, and the grant is recorded again.
            if self.opened_for(grant.cell, grant.fence).is_some() {
                continue;
            }
            let opened = HoldoutOpened {
                commitment,
                opening: self.openings().count(commitment) + 1,
                task: grant.task,
                candidate: grant.candidate,
                record,
                submission: grant.submission,
                cell: grant.cell,
                fence: grant.fence,
                node: grant.node,
                device: grant.device.clone(),
                opened_on: crate::clock::wall_rfc3339(),
            };
            let Some(candidate) = reference(&self.blobs, &Digest(grant.candidate.0)) else {
                let cause = format!("the document of candidate {} is missing", grant.candidate);
                return Err(stopped_refusal(&cause));
            };
            self.seal_and_stage(opened.clone(), Subject::of_blob("candidate", &candidate))?;
            self.openings().note(&opened);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::input::EndReason;
    use fleet_config::domain::{CandidateId, DeviceId, NodeId, RecordId, SubmissionId, TaskId};

    fn opened(opening: u64, cell: u8, fence: u64) -> HoldoutOpened {
        HoldoutOpened {
            commitment: Commitment(Digest([1; 32])),
            opening,
            task: TaskId([2; 32]),
            candidate: CandidateId([3; 32]),
            record: RecordId([4; 32]),
            submission: SubmissionId([5; 32]),
            cell: CellId([cell; 32]),
            fence: Fence(fence),
            node: NodeId([6; 32]),
            device: DeviceId("CPU".to_owned()),
            opened_on: String::new(),
        }
    }

    #[test]
    fn an_opening_stays_counted_when_its_attempt_is_over() {
        let mut openings = Openings::default();
        let section = Commitment(Digest([1; 32]));
        openings.note(&opened(1, 7, 10));
        openings.note(&opened(2, 8, 11));
        assert_eq!(openings.of(CellId([8; 32]), Fence(11)).map(|one| one.opening), Some(2));
        openings.forget_ended(&LedgerEvent::Lost {
            cell: CellId([7; 32]),
            fence: Fence(10),
            index: LeafIndex(3),
        });
        let reason = EndReason::Cancelled;
        openings.forget_ended(&LedgerEvent::Ended { cell: CellId([8; 32]), reason, index: LeafIndex(4) });
        assert_eq!(openings.of(CellId([7; 32]), Fence(10)), None);
        assert_eq!(openings.of(CellId([8; 32]), Fence(11)), None);
        assert_eq!(openings.count(section), 2);
        assert_eq!(openings.count(Commitment(Digest([9; 32]))), 0);
    }
}
