//! Whether the ledger's writer takes an entry about a cell: cell open and fence current. Pure; owned by the writer.
//!
//! The writer calls `judge…` before it appends and tells the table what it appended, one entry at a time. So the
//! order of the ledger decides every race between a result, a loss and an end, and nothing else does. At start
//! the table is built from the ledger alone: its attempt-granted, result, attempt-lost and attempt-refused entries.

use super::effect::Grant;
use super::fact::LeaseGrant;
use super::input::LedgerEvent;
use super::limits::REFUSALS_KEPT;
use super::retry::is_retried;
use fleet_config::domain::{CellId, DeviceId, Fence, LeafIndex, NodeId, Nonce, RecordId};
use std::collections::BTreeMap;

/// Open cells and current fences, as the ledger's writer sees them.
#[derive(Debug, Clone, Default)]
pub struct AcceptanceTable {
    cells: BTreeMap<CellId, CellRow>,
    /// Results refused under (cell, fence), so that one sent again is answered and not written again.
    refused: BTreeMap<(CellId, Fence), Refused>,
}

/// A result that was refused.
#[derive(Debug, Clone, Copy)]
struct Refused {
    record: RecordId,
    index: LeafIndex,
    reason: RefuseReason,
}

#[derive(Debug, Clone, Default)]
struct CellRow {
    /// The attempt that may still report.
    current: Option<Attempt>,
    /// Results accepted so far: those of retried attempts and the final one. At most one for each attempt.
    accepted: BTreeMap<Fence, (RecordId, LeafIndex)>,
    closed: Option<LeafIndex>,
    /// Highest fence ever granted.
    newest: Option<Fence>,
}

#[derive(Debug, Clone)]
struct Attempt {
    fence: Fence,
    node: NodeId,
    device: DeviceId,
    nonce: Nonce,
}

/// What a result says about itself, with the peer that brought it (equal to its signer, checked before).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub cell: CellId,
    pub fence: Fence,
    pub node: NodeId,
    pub device: DeviceId,
    pub nonce: Nonce,
    pub record: RecordId,
}

/// What to do with a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// Append it.
    Accept,
    /// These very bytes are in the ledger; acknowledge with this index.
    AlreadyRecorded(LeafIndex),
    /// These very bytes were refused by the `attempt-refused` entry at this index; say so again.
    AlreadyRefused(LeafIndex, RefuseReason),
    /// Append `attempt-refused` with this reason.
    Refuse(RefuseReason),
}

/// Why a result is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefuseReason {
    /// No attempt at this cell was ever granted here.
    UnknownCell,
    /// The cell has its final entry.
    CellClosed,
    /// The attempt ended, or a newer one holds the cell.
    StaleFence,
    /// No such fence was granted for this cell.
    UnknownFence,
    /// Another node holds the lease.
    WrongNode,
    /// The lease is for another device.
    WrongDevice,
    /// The nonce is not the one of the lease.
    WrongNonce,
}

impl RefuseReason {
    /// The word used in records and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnknownCell => "unknown_cell",
            Self::CellClosed => "cell_closed",
            Self::StaleFence => "stale_fence",
            Self::UnknownFence => "unknown_fence",
            Self::WrongNode => "wrong_node",
            Self::WrongDevice => "wrong_device",
            Self::WrongNonce => "wrong_nonce",
        }
    }
}

impl AcceptanceTable {
    /// A grant became known: from its attempt-granted entry at start, from `RecordGrants` later.
    pub fn granted(&mut self, grant: &LeaseGrant) {
        let row = self.cells.entry(grant.cell).or_default();
        if row.closed.is_some() || row.newest.is_some_and(|newest| newest >= grant.fence) {
            return;
        }
        row.newest = Some(grant.fence);
        row.current = Some(Attempt {
            fence: grant.fence,
            node: grant.node,
            device: grant.device.clone(),
            nonce: grant.nonce,
        });
    }

    /// Whether a result may be appended.
    pub fn judge(&self, claim: &Claim) -> Judgement {
        let Some(row) = self.cells.get(&claim.cell) else {
            return self.refusal(claim, RefuseReason::UnknownCell);
        };
        if let Some((record, index)) = row.accepted.get(&claim.fence)
            && *record == claim.record
        {
            return Judgement::AlreadyRecorded(*index);
        }
        let reason = match &row.current {
            _ if row.closed.is_some() => RefuseReason::CellClosed,
            Some(attempt) if attempt.fence == claim.fence => {
                if attempt.node != claim.node {
                    RefuseReason::WrongNode
                } else if attempt.device != claim.device {
                    RefuseReason::WrongDevice
                } else if attempt.nonce != claim.nonce {
                    RefuseReason::WrongNonce
                } else {
                    return Judgement::Accept;
                }
            }
            Some(_) | None if row.newest.is_some_and(|newest| claim.fence <= newest) => {
                RefuseReason::StaleFence
            }
            Some(_) | None => RefuseReason::UnknownFence,
        };
        self.refusal(claim, reason)
    }

    /// Whether `attempt-lost` may be appended: the attempt is open and has no result.
    pub fn may_lose(&self, cell: CellId, fence: Fence) -> bool {
        let current = self.cells.get(&cell).and_then(|row| row.current.as_ref());
        current.is_some_and(|attempt| attempt.fence == fence)
    }

    /// Whether the entry that ends the cell without a result may be appended.
    pub fn may_end(&self, cell: CellId) -> bool {
        self.cells.get(&cell).is_none_or(|row| row.closed.is_none())
    }

    /// An entry was appended (or is read back at start).
    pub fn apply(&mut self, event: &LedgerEvent) {
        match event {
            LedgerEvent::GrantsRecorded { fences: _, index: _ } => {}
            LedgerEvent::Committed { cell, fence, record, status, blame, index } => {
                let row = self.cells.entry(*cell).or_default();
                row.accepted.insert(*fence, (*record, *index));
                row.end(*fence);
                if !is_retried(*status, *blame) {
                    row.close(*index);
                }
            }
            LedgerEvent::Lost { cell, fence, index: _ } => {
                self.cells.entry(*cell).or_default().end(*fence);
            }
            LedgerEvent::Ended { cell, reason: _, index } => {
                self.cells.entry(*cell).or_default().close(*index);
            }
        }
    }

    /// An `attempt-refused` entry was appended.
    pub fn refused(
        &mut self,
        cell: CellId,
        fence: Fence,
        record: RecordId,
        index: LeafIndex,
        reason: RefuseReason,
    ) {
        if self.refused.len() >= REFUSALS_KEPT {
            self.refused.pop_first();
        }
        self.refused.insert((cell, fence), Refused { record, index, reason });
    }

    fn refusal(&self, claim: &Claim, reason: RefuseReason) -> Judgement {
        match self.refused.get(&(claim.cell, claim.fence)) {
            Some(known) if known.record == claim.record => {
                Judgement::AlreadyRefused(known.index, known.reason)
            }
            Some(_) | None => Judgement::Refuse(reason),
        }
    }
}

impl CellRow {
    fn end(&mut self, fence: Fence) {
        self.newest = self.newest.max(Some(fence));
        if self.current.as_ref().is_some_and(|attempt| attempt.fence <= fence) {
            self.current = None;
        }
    }

    fn close(&mut self, index: LeafIndex) {
        self.current = None;
        self.closed.get_or_insert(index);
    }
}

impl From<&Grant> for LeaseGrant {
    fn from(grant: &Grant) -> Self {
        Self {
            fence: grant.fence,
            cell: grant.cell,
            node: grant.node,
            device: grant.device.clone(),
            nonce: grant.nonce,
            seeds: grant.seeds.clone(),
        }
    }
}
