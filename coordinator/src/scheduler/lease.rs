//! A lease: one device, exclusive, for one attempt, until the ledger ends it or its deadline asks for that.

use super::fact::{LeaseGrant, Terms};
use super::limits::LEASE_SLACK;
use fleet_config::domain::{CellId, Digest, Fence, Nonce, Seed, Stage};
use std::time::Duration;

/// ```text
///   Granted ── grants entry durable ──► Recorded ── sent ──► Assigned
///      │                                   │                    │
///      └───────────── lost, cancelled, deadline passed ─────────┴──► Ending
/// ```
/// Every phase ends when the ledger has a result, a loss or an end for the fence; then the lease is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeasePhase {
    /// Journalled; the `attempt-granted` entry is under way.
    Granted,
    /// The entry is durable; the node was not connected, so that nothing was sent.
    Recorded,
    /// The node was told, at or before the deadline's start.
    Assigned { deadline: Duration },
    /// Its loss or its cell's end is on the way to the ledger.
    Ending,
}

impl LeasePhase {
    /// The next phase; an illegal pair is a bug of the scheduler.
    #[must_use]
    pub(super) fn to(self, next: Self) -> Self {
        let legal = match (self, next) {
            (Self::Granted, Self::Recorded | Self::Assigned { .. } | Self::Ending)
            | (Self::Recorded, Self::Assigned { .. } | Self::Ending)
            | (Self::Assigned { .. }, Self::Assigned { .. } | Self::Ending)
            | (Self::Ending, Self::Ending) => true,
            (Self::Granted | Self::Recorded | Self::Assigned { .. }, Self::Granted)
            | (Self::Recorded | Self::Assigned { .. }, Self::Recorded)
            | (Self::Ending, Self::Granted | Self::Recorded | Self::Assigned { .. }) => false,
        };
        assert!(legal, "illegal lease transition {self:?} → {next:?}");
        next
    }
}

/// Whether the node may be running the attempt: what keeps a device from its next lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occupancy {
    /// Nothing was sent.
    Untouched,
    /// It was sent, or the node said that it holds it.
    Possible,
    /// The node said that it is over, or a result came.
    Over,
}

/// An open lease.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub(super) grant: LeaseGrant,
    pub(super) attempt: u32,
    pub(super) phase: LeasePhase,
    pub(super) occupancy: Occupancy,
    pub(super) stage: Option<Stage>,
    /// How long the cell had waited in its queue; zero after a restart, since waiting is no durable fact.
    pub(super) waited: Duration,
}

impl Lease {
    pub(super) fn new(grant: LeaseGrant, attempt: u32) -> Self {
        Self {
            grant,
            attempt,
            phase: LeasePhase::Granted,
            occupancy: Occupancy::Untouched,
            stage: None,
            waited: Duration::ZERO,
        }
    }

    /// Moves on, checked.
    pub(super) fn enter(&mut self, next: LeasePhase) {
        self.phase = self.phase.to(next);
    }
}

/// How long an attempt may take from its assignment to its result.
pub(super) fn term(terms: &Terms) -> Duration {
    terms.compile.duration() + terms.run.duration() + LEASE_SLACK
}

/// Nonce and seeds of one attempt, derived from the submission's entropy, so that they are fixed by the facts,
/// differ between attempts, and cannot be known before the submission was made (blake3 in its
/// extendable-output mode over a domain string, entropy, cell and fence).
pub(super) fn draw(entropy: Digest, cell: CellId, fence: Fence, seeds: u32) -> (Nonce, Vec<Seed>) {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"muster.attempt/1\0");
    hasher.update(entropy.as_bytes());
    hasher.update(cell.as_bytes());
    hasher.update(&fence.0.to_le_bytes());
    let mut stream = hasher.finalize_xof();
    let mut nonce = [0; 32];
    stream.fill(&mut nonce);
    let next_seed = || {
        let mut bits = [0; 8];
        stream.fill(&mut bits);
        Seed::from_random(u64::from_le_bytes(bits))
    };
    (Nonce(nonce), std::iter::repeat_with(next_seed).take(seeds as usize).collect())
}
