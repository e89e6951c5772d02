//! Statistics: which estimator answers which question, with sources.
//!
//! How much faster, within one lease: [`log_ratios`] of pairs, their [`median`], and its interval by
//! [`median_interval`]. Over several cases: [`geometric_mean`] and [`geometric_mean_interval`]. How noisy:
//! [`median_absolute_deviation`], [`quantile`]. What the clock's steps leave open: [`log_resolution`].
//!
//! The same input gives the same bytes on every machine: logarithm and exponential come from the `libm` crate
//! (software, no platform routine), sums run from first to last, and resampling is seeded
//! ([`generator::SplitMix64`]).

mod bootstrap;
mod estimator;
pub mod generator;
mod resolution;

#[cfg(test)]
mod tests;

pub use bootstrap::{CONFIDENCE, Interval, RESAMPLES, geometric_mean_interval, median_interval};
pub use estimator::{
    geometric_mean, log_ratios, mean, median, median_absolute_deviation, parts_per_billion, quantile,
};
pub use resolution::log_resolution;
