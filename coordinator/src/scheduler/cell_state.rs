//! The state of a cell and its checked transitions.

use super::effect::Ending;
use super::input::EndReason;
use fleet_config::domain::{CandidateId, CellId, DeviceClass, Fence, NodeId, SubmissionId};
use std::time::Duration;

/// ```text
///              grant                 result
///   Queued ───────────► Leased ──────────────────► Finished
///    ▲  │                │  │                         ▲
///    │  │      lost, or a fleet's fault               │
///    │  │                │  │ cancelled, or the       │ result that came first,
///    │  │ cancelled,     ▼  │ last attempt failed     │ or the end is recorded
///    └──┼─── due ──── Backoff                         │
///       │ budget spent   │  │                         │
///       └────────────────┴──┴──────► Ending ──────────┘
/// ```
/// A cell that an earlier result answers goes from `Queued` to `Finished` at once. While history is replayed a
/// cell may also go from `Leased` to `Leased`: what ended the earlier lease stands in the ledger, not in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellState {
    /// In the queue of its class.
    Queued { since: Duration },
    /// Waits for its retry.
    Backoff { until: Duration },
    /// A lease is open.
    Leased { fence: Fence },
    /// The entry that ends it without a result was asked for; a lease may be open until the ledger answers.
    Ending { reason: EndReason, fence: Option<Fence> },
    /// Its one final entry is in the ledger.
    Finished { ending: Ending },
}

impl CellState {
    /// The next state; an illegal pair is a bug of the scheduler.
    #[must_use]
    pub(super) fn to(self, next: Self) -> Self {
        let legal = match (self, next) {
            (Self::Queued { .. }, Self::Leased { .. } | Self::Ending { .. } | Self::Finished { .. })
            | (Self::Leased { .. }, Self::Leased { .. } | Self::Backoff { .. })
            | (Self::Leased { .. }, Self::Ending { .. } | Self::Finished { .. })
            | (Self::Backoff { .. }, Self::Queued { .. } | Self::Ending { .. } | Self::Finished { .. })
            | (Self::Ending { .. }, Self::Ending { .. } | Self::Finished { .. }) => true,
            (Self::Queued { .. }, Self::Queued { .. } | Self::Backoff { .. })
            | (Self::Leased { .. }, Self::Queued { .. })
            | (Self::Backoff { .. }, Self::Backoff { .. } | Self::Leased { .. })
            | (Self::Ending { .. }, Self::Queued { .. } | Self::Backoff { .. } | Self::Leased { .. })
            | (Self::Finished { .. }, _) => false,
        };
        assert!(legal, "illegal cell transition {self:?} → {next:?}");
        next
    }

    /// The open lease, if there is one.
    pub(super) fn fence(self) -> Option<Fence> {
        match self {
            Self::Leased { fence } => Some(fence),
            Self::Ending { reason: _, fence } => fence,
            Self::Queued { .. } | Self::Backoff { .. } | Self::Finished { .. } => None,
        }
    }
}

/// What people want of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Run,
    Stop,
}

/// One candidate on one device class.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) id: CellId,
    pub(super) submission: SubmissionId,
    pub(super) candidate: CandidateId,
    pub(super) class: DeviceClass,
    pub(super) state: CellState,
    pub(super) wish: Wish,
    /// Leases granted so far.
    pub(super) attempts: u32,
    /// Where the last attempt ran: a retry prefers another node.
    pub(super) last_node: Option<NodeId>,
}

impl Cell {
    /// Moves on, checked.
    pub(super) fn enter(&mut self, next: CellState) {
        self.state = self.state.to(next);
    }

    /// Into the queue: after its retry fell due, or at first (it was born `Queued`).
    pub(super) fn enter_queue(&mut self, now: Duration) {
        let next = CellState::Queued { since: now };
        match self.state {
            CellState::Queued { .. } => self.state = next,
            CellState::Backoff { .. }
            | CellState::Leased { .. }
            | CellState::Ending { .. }
            | CellState::Finished { .. } => self.enter(next),
        }
    }
}
