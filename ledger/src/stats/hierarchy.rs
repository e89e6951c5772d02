//! Claims that leave one lease: several leases, on several boards where there are some.
//!
//! Pairs of one lease share its placement of buffers, its heat and its neighbours; leases of one board share the board. The
//! hierarchical bootstrap resamples the units at the top (boards, or leases where fewer than three boards were measured)
//! with replacement and keeps what lies below them whole: Davison and Hinkley, "Bootstrap Methods and their Application"
//! (1997), §3.8, show that resampling the lower levels too counts their scatter twice. With three to ten units percentiles
//! of resamples cover far too seldom; so the resamples give the standard error, corrected by √(n / (n − 1)), and Student's t
//! with n − 1 degrees the interval (Hesterberg, "What teachers should know about the bootstrap", The American Statistician
//! 69, 2015, §4). What scatters within the leases is in the scatter between them already.

use super::bootstrap::RESAMPLES;
use super::estimate::{Estimate, variance};
use super::estimator::mean;
use super::generator::SplitMix64;
use std::collections::BTreeMap;

/// The name of this way to an interval.
pub const METHOD: &str = "hierarchical-bootstrap-t/1";
/// Leases that a claim beyond one lease needs, and boards from which on it speaks for others.
pub const UNITS_MIN: usize = 3;

/// One lease: on which board, and what it gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lease<B> {
    pub board: B,
    pub estimate: Estimate,
}

/// What an estimate speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Its lease alone.
    SingleLease,
    /// Other leases on the boards that were measured.
    Leases,
    /// Other boards of the class too.
    Boards,
}

/// What `leases` say together; `None` for fewer than [`UNITS_MIN`]. Boards count alike however many leases they have.
pub fn over_leases<B: Ord + Copy>(leases: &[Lease<B>], seed: u64) -> Option<(Estimate, Reach)> {
    if leases.len() < UNITS_MIN {
        return None;
    }
    let mut boards: BTreeMap<B, Vec<f64>> = BTreeMap::new();
    for lease in leases {
        boards.entry(lease.board).or_default().push(lease.estimate.log);
    }
    let (units, reach): (Vec<f64>, Reach) = if boards.len() >= UNITS_MIN {
        (boards.values().filter_map(|logs| mean(logs)).collect(), Reach::Boards)
    } else {
        (leases.iter().map(|lease| lease.estimate.log).collect(), Reach::Leases)
    };
    let count = units.len() as f64;
    let log = mean(&units)?;
    let correction = libm::sqrt(count / (count - 1.0));
    let between = correction * resampled_error(&units, seed);
    let open = mean(&leases.iter().map(|lease| lease.estimate.open).collect::<Vec<_>>())?;
    let estimate = Estimate { log, below: between, above: between, degrees: count - 1.0, open };
    Some((estimate, reach))
}

/// Standard deviation of the mean over resamples of `units`.
fn resampled_error(units: &[f64], seed: u64) -> f64 {
    let mut generator = SplitMix64::new(seed);
    let mut means = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut sum = 0.0;
        for _ in units {
            sum += units[generator.below(units.len() as u64) as usize];
        }
        means.push(sum / units.len() as f64);
    }
    libm::sqrt(variance(&means))
}
