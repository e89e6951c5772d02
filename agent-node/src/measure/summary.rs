//! What stands for a series in the record: medians of both sides and the median of the paired log ratios. Pure.

use fleet_config::domain::{PartsPerBillion, Picoseconds, SampleSeries};

/// The numbers of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub baseline_median: Picoseconds,
    pub candidate_median: Picoseconds,
    pub ratio: PartsPerBillion,
}

/// The summary of `series`; `None` when it has no pair or a time of zero.
pub fn of(series: &SampleSeries) -> Option<Summary> {
    let pairs = series.baseline.iter().zip(&series.candidate);
    let mut ratios: Vec<f64> =
        pairs.map(|(baseline, candidate)| baseline.0 as f64 / candidate.0 as f64).collect();
    if ratios.is_empty() || ratios.iter().any(|ratio| !ratio.is_finite() || *ratio <= 0.0) {
        return None;
    }
    ratios.sort_unstable_by(f64::total_cmp);
    // The logarithm is monotonic: exp(median of logs) is the middle ratio, or the geometric mean of the middle two.
    // √ and × are exact to the last bit on every machine, which log and exp are not.
    let (low, high) = middle(&ratios);
    let ratio = (low * high).sqrt();
    Some(Summary {
        baseline_median: median(&series.baseline),
        candidate_median: median(&series.candidate),
        ratio: PartsPerBillion((ratio * 1e9).round() as u64),
    })
}

fn middle<T: Copy>(sorted: &[T]) -> (T, T) {
    (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// Of an even number of times the mean of the middle two, rounded down.
fn median(times: &[Picoseconds]) -> Picoseconds {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let (low, high) = middle(&sorted);
    Picoseconds(low.0 + (high.0 - low.0) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(baseline: &[u64], candidate: &[u64], expected: Option<(u64, u64, u64)>) {
        let times = |values: &[u64]| values.iter().copied().map(Picoseconds).collect();
        let series = SampleSeries {
            format: SampleSeries::FORMAT.to_owned(),
            case: "case".to_owned(),
            baseline: times(baseline),
            candidate: times(candidate),
            warmups: 0,
        };
        let found = of(&series).map(|s| (s.baseline_median.0, s.candidate_median.0, s.ratio.0));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_ratio_is_the_median_of_the_pairs_and_not_the_ratio_of_the_medians() {
        check(&[200, 300, 1000], &[100, 100, 1000], Some((300, 100, 2_000_000_000)));
        check(&[100, 400], &[100, 100], Some((250, 100, 2_000_000_000)));
        check(&[], &[], None);
        check(&[1], &[0], None);
        check(&[0], &[1], None);
    }
}
