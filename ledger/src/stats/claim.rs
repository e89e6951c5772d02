//! What may be said of several candidates at once: noise floor and control of many comparisons.

use super::bootstrap::CONFIDENCE;
use super::distribution::student_quantile;
use super::estimate::Estimate;

/// Chance that any candidate of a table is called faster or slower where none is.
pub const FAMILY_ERROR: f64 = 0.005;

/// How far copies of the baseline came out from one: what leases of this class add to every ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseFloor {
    /// Results of copies that it was learned from.
    pub results: u64,
    /// Root mean square of the logarithms of their ratios; their truth is zero.
    pub scatter: f64,
}

impl NoiseFloor {
    /// The floor that these logarithms of ratios show; `None` for none.
    pub fn of(logs: &[f64]) -> Option<Self> {
        let sum = logs.iter().fold(0.0, |sum, log| sum + log * log);
        let scatter = libm::sqrt(sum / logs.len() as f64);
        (!logs.is_empty()).then_some(Self { results: logs.len() as u64, scatter })
    }

    /// The logarithm within which one more copy would come out in [`CONFIDENCE`] of cases: Student's t with as many
    /// degrees as there were results, since their centre is known (Hahn and Meeker, "Statistical Intervals", 1991, §4.7).
    pub fn bound(&self) -> f64 {
        student_quantile(0.5 * (1.0 + CONFIDENCE), self.results as f64) * self.scatter
    }

    /// The estimate of one lease with what leases add to it.
    #[must_use]
    pub fn onto(&self, estimate: Estimate) -> Estimate {
        let add = |error: f64| libm::sqrt(error * error + self.scatter * self.scatter);
        let (within, between) = (estimate.below.max(estimate.above), self.scatter);
        let (within, between) = (within * within, between * between);
        let spread = within * within / estimate.degrees + between * between / self.results as f64;
        let total = within + between;
        let degrees = if spread > 0.0 { total * total / spread } else { f64::INFINITY };
        Estimate { below: add(estimate.below), above: add(estimate.above), degrees, ..estimate }
    }
}

/// P-values adjusted so that the chance of any false rejection is held: Holm, "A simple sequentially rejective multiple
/// test procedure", Scandinavian Journal of Statistics 6 (1979). In the order given.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let order = sorted(p_values);
    let count = p_values.len();
    let mut adjusted = vec![1.0; count];
    let mut least = 0.0f64;
    for (rank, &place) in order.iter().enumerate() {
        least = least.max((count - rank) as f64 * p_values[place]).min(1.0);
        adjusted[place] = least;
    }
    adjusted
}

/// P-values adjusted so that the expected share of false ones among the rejected is held: Benjamini and Hochberg,
/// "Controlling the false discovery rate", Journal of the Royal Statistical Society B 57 (1995). In the order given.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let order = sorted(p_values);
    let count = p_values.len();
    let mut adjusted = vec![1.0; count];
    let mut most = 1.0f64;
    for (rank, &place) in order.iter().enumerate().rev() {
        most = most.min(count as f64 / (rank as f64 + 1.0) * p_values[place]);
        adjusted[place] = most;
    }
    adjusted
}

fn sorted(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&one, &other| p_values[one].total_cmp(&p_values[other]));
    order
}
