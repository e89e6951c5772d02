//! What the ledger made durable, and what follows from it.
//!
//! An event that repeats is ignored; one that contradicts what is known halts the coordinator: the journal or the
//! ledger was rolled back or belongs to another fleet, and repairing it silently would hide that.

use super::Scheduler;
use super::cell_state::{CellState, Wish};
use super::effect::{Effect, Effects, Ending, Event};
use super::input::{EndReason, LedgerEvent};
use super::lease::{LeasePhase, Occupancy, term};
use super::retry::is_retried;
use super::timer::Timer;
use fleet_config::domain::{Blame, CellId, Fence, LeafIndex, Status};
use fleet_config::refusal::Refusal;
use std::time::Duration;

impl Scheduler {
    pub(super) fn on_ledger(&mut self, now: Duration, event: LedgerEvent, out: &mut Effects) {
        match event {
            LedgerEvent::GrantsRecorded { fences, index: _ } => {
                for fence in fences {
                    if self.is_beyond_journal(fence, out) {
                        return;
                    }
                    self.on_grant_recorded(now, fence, out);
                }
            }
            LedgerEvent::Committed { cell, fence, record: _, status, blame, index } => {
                if !self.is_beyond_journal(fence, out) {
                    self.on_committed(now, cell, fence, (status, blame), index, out);
                }
            }
            LedgerEvent::Lost { cell, fence, index: _ } => {
                if !self.is_beyond_journal(fence, out) {
                    self.on_lost(now, cell, fence, out);
                }
            }
            LedgerEvent::Ended { cell, reason, index } => self.on_ended(cell, reason, index, out),
        }
    }

    fn on_grant_recorded(&mut self, now: Duration, fence: Fence, out: &mut Effects) {
        let Some(lease) = self.leases.get_mut(&fence) else { return };
        match lease.phase {
            LeasePhase::Granted => {}
            LeasePhase::Recorded | LeasePhase::Assigned { .. } | LeasePhase::Ending => return,
        }
        lease.enter(LeasePhase::Recorded);
        if !self.is_recovering() {
            self.assign(now, fence, out);
        }
    }

    /// Sends a recorded lease to its node if the node is there; its term starts now.
    pub(super) fn assign(&mut self, now: Duration, fence: Fence, out: &mut Effects) {
        let Some(grant) = self.describe(fence) else { return };
        let session = self.nodes.get(&grant.node).and_then(|node| node.session);
        let (Some(session), Some(lease)) = (session, self.leases.get_mut(&fence)) else { return };
        let deadline = now + term(&grant.terms);
        lease.enter(LeasePhase::Assigned { deadline });
        lease.occupancy = Occupancy::Possible;
        self.timers.insert((deadline, Timer::LeaseDeadline(fence)));
        out.push(Effect::Publish(Event::CellLeased {
            submission: grant.submission,
            cell: grant.cell,
            fence,
            node: grant.node,
            device: grant.device.clone(),
            attempt: grant.attempt,
        }));
        out.push(Effect::Assign { session, grant: Box::new(grant) });
    }

    fn on_committed(
        &mut self,
        now: Duration,
        id: CellId,
        fence: Fence,
        (status, blame): (Status, Blame),
        index: LeafIndex,
        out: &mut Effects,
    ) {
        self.superseded.remove(&fence);
        let Some(cell) = self.cells.get(&id) else { return };
        let state = cell.state;
        let retried = is_retried(status, blame);
        if state.fence() == Some(fence) {
            if let Some(lease) = self.leases.get_mut(&fence) {
                lease.occupancy = Occupancy::Over;
            }
            self.drop_lease(fence);
            match (state, retried) {
                (_, false) => self.finish(id, Ending::Result { status, fence, index }, out),
                (CellState::Ending { reason, fence: _ }, true) => {
                    self.enter_cell(id, CellState::Ending { reason, fence: None });
                }
                (
                    CellState::Queued { .. }
                    | CellState::Backoff { .. }
                    | CellState::Leased { .. }
                    | CellState::Finished { .. },
                    true,
                ) => self.try_again(now, id, fence, out),
            }
            return;
        }
        let repeats = match state {
            CellState::Finished { ending: Ending::Result { index: known, .. } } => known == index || retried,
            CellState::Finished { ending: Ending::Reused { .. } | Ending::Ended { .. } }
            | CellState::Queued { .. }
            | CellState::Backoff { .. }
            | CellState::Leased { .. }
            | CellState::Ending { .. } => retried,
        };
        if !repeats {
            out.push(halt(
                id,
                format!("a final result at index {index} under fence {fence}, which is not open"),
            ));
        }
    }

    fn on_lost(&mut self, now: Duration, id: CellId, fence: Fence, out: &mut Effects) {
        self.superseded.remove(&fence);
        let Some(state) = self.cells.get(&id).map(|cell| cell.state) else { return };
        if state.fence() != Some(fence) {
            return;
        }
        self.drop_lease(fence);
        match state {
            CellState::Ending { reason, fence: _ } => {
                self.enter_cell(id, CellState::Ending { reason, fence: None });
            }
            CellState::Leased { .. }
            | CellState::Queued { .. }
            | CellState::Backoff { .. }
            | CellState::Finished { .. } => self.try_again(now, id, fence, out),
        }
    }

    fn on_ended(&mut self, id: CellId, reason: EndReason, index: LeafIndex, out: &mut Effects) {
        let Some(state) = self.cells.get(&id).map(|cell| cell.state) else { return };
        match state {
            CellState::Finished { ending: Ending::Ended { index: known, .. } } if known == index => return,
            CellState::Finished { .. } => {
                out.push(halt(id, format!("a second final entry at index {index}")));
                return;
            }
            CellState::Queued { .. }
            | CellState::Backoff { .. }
            | CellState::Leased { .. }
            | CellState::Ending { .. } => {}
        }
        if let Some(fence) = state.fence() {
            self.drop_lease(fence);
        }
        self.finish(id, Ending::Ended { reason, index }, out);
    }

    /// A fence that the journal never gave out: the journal is older than the ledger.
    fn is_beyond_journal(&self, fence: Fence, out: &mut Effects) -> bool {
        let beyond = fence.0 >= self.next_sequence;
        if beyond {
            out.push(Effect::Halt {
                refusal: Refusal::new(
                    "state/journal-behind-ledger",
                    "journal",
                    format!("the ledger names fence {fence}; the journal ends before {}", self.next_sequence),
                    "Restore the journal that belongs to this ledger; both live in one state folder.",
                ),
            });
        }
        beyond
    }

    pub(super) fn enter_cell(&mut self, id: CellId, next: CellState) {
        if let Some(cell) = self.cells.get_mut(&id) {
            cell.enter(next);
        }
    }

    /// Cells that somebody cancelled and that are still open.
    pub(super) fn cells_to_stop(&self) -> Vec<CellId> {
        let stops = self.cells.values().filter(|cell| match (cell.wish, cell.state) {
            (Wish::Run, _) | (Wish::Stop, CellState::Finished { .. } | CellState::Ending { .. }) => false,
            (Wish::Stop, CellState::Queued { .. } | CellState::Backoff { .. } | CellState::Leased { .. }) => {
                true
            }
        });
        stops.map(|cell| cell.id).collect()
    }
}

fn halt(cell: CellId, cause: String) -> Effect {
    Effect::Halt {
        refusal: Refusal::new(
            "state/ledger-contradicts",
            format!("cell {cell}"),
            cause,
            "Run `muster ledger verify`; journal and ledger may belong to different fleets.",
        ),
    }
}
