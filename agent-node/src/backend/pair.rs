//! Two implementations that are timed against each other: how they are opened, and which of them a failure is about.

use super::{Artefact, Failure, WorkerOptions};
pub use crate::measure::plan::Side;

/// What a pair is opened with.
#[derive(Debug, Clone, Copy)]
pub struct PairRequest<'a> {
    pub baseline: PairParty<'a>,
    pub candidate: PairParty<'a>,
    pub setting: Setting,
}

/// One side of it.
#[derive(Debug, Clone, Copy)]
pub struct PairParty<'a> {
    pub artefact: &'a Artefact,
    pub options: &'a WorkerOptions,
}

impl<'a> PairRequest<'a> {
    /// The side named.
    pub fn party(&self, side: Side) -> PairParty<'a> {
        match side {
            Side::Baseline => self.baseline,
            Side::Candidate => self.candidate,
        }
    }
}

/// Where the sides live and how a launch finds the device. The policy says which; a backend that knows only one way of
/// living ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// A process for each.
    Apart,
    /// One process and context for both.
    Together(Cache),
}

/// What a launch finds in the device's last cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Nothing of either side.
    Flushed,
    /// What the copies before it left there.
    AsLeft,
}

/// Who else runs in a worker's address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Company {
    Alone,
    /// The other side of the pair. A failure seen on this side may be the other's doing.
    Shared,
}

/// A failure to open one side.
#[derive(Debug, Clone)]
pub struct SideFailure {
    pub side: Side,
    pub failure: Failure,
}
