//! Percentile bootstrap intervals.
//!
//! Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), ch. 13: resample with replacement, take the
//! statistic of each resample, and quantiles of those. Pairs are resampled whole, since the two sides of a pair
//! share the drift of the machine; cases are resampled independently of each other. An interval says how the
//! pairs of these leases scatter; it knows nothing of boards or days that were not measured.

use super::estimator::{mean, median_in_place, quantile};
use super::generator::SplitMix64;

/// Resamples of each interval.
pub const RESAMPLES: usize = 2000;

/// Share of resamples between the two ends.
pub const CONFIDENCE: f64 = 0.95;

/// Both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// Interval of exp(median) of the log-ratios of one case. `None` for no pairs.
pub fn median_interval(log_ratios: &[f64], seed: u64) -> Option<Interval> {
    geometric_mean_interval(&[log_ratios.to_vec()], seed)
}

/// Interval of exp(mean over cases of median of log-ratios). `None` when there is no case or one without pairs.
pub fn geometric_mean_interval(cases: &[Vec<f64>], seed: u64) -> Option<Interval> {
    if cases.is_empty() || cases.iter().any(Vec::is_empty) {
        return None;
    }
    let mut generator = SplitMix64::new(seed);
    let mut means = Vec::with_capacity(RESAMPLES);
    let mut medians = Vec::with_capacity(cases.len());
    let mut resample = Vec::new();
    for _ in 0..RESAMPLES {
        medians.clear();
        for case in cases {
            resample.clear();
            resample.extend(case.iter().map(|_| case[generator.below(case.len() as u64) as usize]));
            medians.push(median_in_place(&mut resample)?);
        }
        means.push(mean(&medians)?);
    }
    means.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some(Interval { low: libm::exp(quantile(&means, tail)?), high: libm::exp(quantile(&means, 1.0 - tail)?) })
}
