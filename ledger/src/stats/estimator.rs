//! Point estimators over finite numbers. Order of summation is the order of the slice.

use fleet_config::domain::{PartsPerBillion, SampleSeries, canonical::INTEGER_MAX};

/// Quantile `p` in [0, 1] of `sorted` by linear interpolation: type 7 of Hyndman and Fan, "Sample quantiles in
/// statistical packages", The American Statistician 50 (1996). `None` for no numbers.
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = p.clamp(0.0, 1.0) * last as f64;
    let below = libm::floor(place) as usize;
    let above = (below + 1).min(last);
    let share = place - below as f64;
    Some(sorted[below] + share * (sorted[above] - sorted[below]))
}

/// The middle number, or the mean of the two middle ones. `None` for no numbers.
pub fn median(numbers: &[f64]) -> Option<f64> {
    median_in_place(&mut numbers.to_vec())
}

/// As [`median`], in a buffer that it may reorder: linear time for the resampling loops.
pub(super) fn median_in_place(numbers: &mut [f64]) -> Option<f64> {
    let middle = numbers.len() / 2;
    if numbers.is_empty() {
        return None;
    }
    let is_even = numbers.len().is_multiple_of(2);
    let (below, upper, _) = numbers.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if !is_even {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(lower + 0.5 * (upper - lower))
}

/// Median of the distances from the median, unscaled (Hampel, JASA 69, 1974). `None` for no numbers.
pub fn median_absolute_deviation(numbers: &[f64]) -> Option<f64> {
    let centre = median(numbers)?;
    let mut distances: Vec<f64> = numbers.iter().map(|number| (number - centre).abs()).collect();
    median_in_place(&mut distances)
}

/// Arithmetic mean. `None` for no numbers.
pub fn mean(numbers: &[f64]) -> Option<f64> {
    let mut sum = 0.0;
    for number in numbers {
        sum += number;
    }
    (!numbers.is_empty()).then(|| sum / numbers.len() as f64)
}

/// log(baseline / candidate) of each pair: above zero means the candidate was faster. Pairs with a zero have no
/// ratio; [`crate::entry::decode_samples`] refuses them.
pub fn log_ratios(series: &SampleSeries) -> Vec<f64> {
    let pairs = series.baseline.iter().zip(&series.candidate);
    pairs.map(|(baseline, candidate)| libm::log(baseline.0 as f64 / candidate.0 as f64)).collect()
}

/// exp of the mean of logarithms: the mean that does not depend on which side is called the baseline (Fleming
/// and Wallace, "How not to lie with statistics", CACM 29, 1986). `None` for no numbers.
pub fn geometric_mean(logarithms: &[f64]) -> Option<f64> {
    mean(logarithms).map(libm::exp)
}

/// A positive ratio in parts per billion, rounded half away from zero, at most the largest exact JSON integer.
pub fn parts_per_billion(ratio: f64) -> PartsPerBillion {
    let scaled = libm::round(ratio * 1e9);
    PartsPerBillion((scaled as u64).min(INTEGER_MAX))
}
