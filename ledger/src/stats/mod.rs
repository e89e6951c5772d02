//! Statistics: which estimator answers which question, with sources.
//!
//! How much faster, within one lease: [`log_ratios`] of pairs, their [`median`], and its error by [`median_estimate`]; over
//! several cases [`mean_estimate`]. Over several leases: [`over_leases`]. What may be claimed of all candidates of a table:
//! [`conclude`] and [`claims`], with [`NoiseFloor`] and [`holm`]. How noisy: [`median_absolute_deviation`], [`quantile`],
//! [`sign_autocorrelation`]. What the clock's steps leave open: [`log_resolution`]. Over many devices and tasks:
//! [`performance_portability`], [`pareto_front`], [`fast_count`]. How small a difference would be seen:
//! [`Estimate::detectable`]. [`median_interval`] and [`geometric_mean_interval`] are the intervals of the first rankings,
//! kept to be compared with. Whether all of this holds what it says: [`simulation`].
//!
//! The same input gives the same bytes on every machine: logarithm and exponential come from the `libm` crate
//! (software, no platform routine), sums run from first to last, and resampling is seeded
//! ([`generator::SplitMix64`]).

mod bootstrap;
mod claim;
mod conclusion;
mod distribution;
mod estimate;
mod estimator;
pub mod generator;
mod hierarchy;
mod portability;
mod resolution;
pub mod simulation;

#[cfg(test)]
mod tests;

pub use bootstrap::{CONFIDENCE, Interval, RESAMPLES, geometric_mean_interval, median_interval};
pub use claim::{FAMILY_ERROR, NoiseFloor, benjamini_hochberg, holm};
pub use conclusion::{Claim, Conclusion, claims, conclude};
pub use distribution::{fair_coin_at_most, normal_tail, student_quantile, student_tail};
pub use estimate::{Estimate, METHOD, mean_estimate, median_estimate, sign_autocorrelation};
pub use estimator::{
    geometric_mean, log_ratios, mean, median, median_absolute_deviation, parts_per_billion, quantile,
};
pub use hierarchy::{Lease, METHOD as LEASES_METHOD, Reach, UNITS_MIN, over_leases};
pub use portability::{Threshold, fast_count, pareto_front, performance_portability};
pub use resolution::log_resolution;
