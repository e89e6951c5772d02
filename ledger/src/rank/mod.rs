//! Ranking: the leaderboard of one task in one device class.
//!
//! A table holds what may be compared: one task, one comparability class (which names its policy), so one device
//! model. GPUs and CPUs are never in one table. The score of a candidate is the geometric mean, over the task's
//! performance cases, of exp(median of log(baseline / candidate)) of the pairs of one lease, or the mean of these over all
//! leases where there are three; its interval comes from the raw samples. Scores are sorted from fast to slow, and overlapping intervals are ties: an entry shares
//! the rank of the best of its group as long as its interval reaches that of this best one. Groups do not chain,
//! so the first and the last of a group always overlap.
//!
//! For each candidate the latest `ok` counts, by leaf index, and from three on all of them; every attempt is counted beside it, so that a lucky
//! run among failures shows. A result that a finding brought down is no `ok` any more: it is listed as fallen, with what
//! it scored, by which version of which detector and in which entry, so that a ranking never changes silently; the one
//! before is that as of the finding's leaf. What the fleet did wrong is listed apart and charged to nobody.
//!
//! The same entries at the same size give the same bytes: see [`crate::stats`].

mod collect;
pub mod finding;
mod leases;
pub mod matrix;
mod model;
pub mod portability;
pub mod render;
mod table;

#[cfg(test)]
mod carrying;
#[cfg(test)]
mod tests;

pub use collect::{CollectError, collect};
pub use model::{
    CPU_NOTICE, Claim, FallenCandidate, FleetFault, Floor, Label, Place, RankInput, RankRow, Ranking, Reach,
    RejectedCandidate, RejectedGroup, Table,
};
pub use table::rank;
