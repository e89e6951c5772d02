//! What the clock's steps leave open.
//!
//! A clock that counts in steps (events of NVIDIA GPUs: 32 ns or about 0.5 µs) knows no time better than half a step.
//! Where kernels take some microseconds that is more than their scatter, and no number of pairs makes it smaller:
//! neighbouring steps tie, and a bootstrap of tied numbers is too narrow. The Guide to the Expression of Uncertainty in
//! Measurement (JCGM 100:2008, F.2.2.1) treats a digital display in the same way: half a step either side.

use super::bootstrap::Interval;
use super::estimator::{mean, median};
use fleet_config::domain::{Picoseconds, SampleSeries};

/// The step of the clock that `series` was taken with, as its samples show it: the smallest difference between two of
/// one side. `None` where neither side has two different samples.
fn step(series: &SampleSeries) -> Option<u64> {
    let smallest = |side: &[Picoseconds]| {
        let mut sorted: Vec<u64> = side.iter().map(|sample| sample.0).collect();
        sorted.sort_unstable();
        sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|&difference| difference > 0).min()
    };
    [&series.baseline, &series.candidate].into_iter().filter_map(|side| smallest(side)).min()
}

/// How far the logarithm of baseline / candidate may be off in either direction because of the clock's step: half a
/// step on each side, relative to its median. Zero where the samples show no step.
pub fn log_resolution(series: &SampleSeries) -> f64 {
    let Some(step) = step(series) else { return 0.0 };
    let half = 0.5 * step as f64;
    let relative = |side: &[Picoseconds]| {
        let numbers: Vec<f64> = side.iter().map(|sample| sample.0 as f64).collect();
        median(&numbers).filter(|&middle| middle > 0.0).map_or(0.0, |middle| half / middle)
    };
    relative(&series.baseline) + relative(&series.candidate)
}

impl Interval {
    /// The interval of a geometric mean over cases, widened by what their clocks leave open; `log_resolutions` has one
    /// number of [`log_resolution`] for each case. The errors are not independent (one clock took all), so they add.
    #[must_use]
    pub fn widened(self, log_resolutions: &[f64]) -> Self {
        let open = libm::exp(mean(log_resolutions).unwrap_or(0.0));
        Self { low: self.low / open, high: self.high * open }
    }
}

#[cfg(test)]
mod tests {
    use super::super::generator::SplitMix64;
    use super::super::{geometric_mean_interval, log_ratios};
    use super::*;

    /// Samples of `time` nanoseconds and some scatter, read from a clock with steps of `step` nanoseconds.
    fn side(generator: &mut SplitMix64, time: f64, scatter: f64, step: f64) -> Vec<Picoseconds> {
        let mut unit = || (generator.draw() >> 11) as f64 / (1u64 << 53) as f64;
        let sample = |drawn: f64| (libm::floor((time + scatter * drawn) / step) * step * 1000.0) as u64;
        (0..100).map(|_| Picoseconds(sample(unit() + unit() + unit() - 1.5))).collect()
    }

    fn series(baseline: Vec<Picoseconds>, candidate: Vec<Picoseconds>) -> SampleSeries {
        let format = SampleSeries::FORMAT.to_owned();
        SampleSeries { format, case: "case".to_owned(), baseline, candidate, warmups: 0 }
    }

    #[test]
    fn the_step_is_the_smallest_difference_within_a_side() {
        let of = |baseline: &[u64], candidate: &[u64]| {
            let side = |numbers: &[u64]| numbers.iter().map(|&n| Picoseconds(n)).collect();
            step(&series(side(baseline), side(candidate)))
        };
        assert_eq!(of(&[3_712_000, 3_744_000, 3_712_000], &[3_680_000, 3_776_000, 3_776_000]), Some(32_000));
        // What lies between the sides is what is measured, and no step.
        assert_eq!(of(&[100, 100], &[107, 107]), None);
        assert_eq!(of(&[7], &[9]), None);
        assert!(log_resolution(&series(vec![Picoseconds(100)], vec![Picoseconds(50)])) == 0.0);
    }

    #[test]
    fn equal_kernels_below_the_step_are_called_equal_and_unequal_ones_are_not() {
        let mut generator = SplitMix64::new(11);
        let (mut narrow, mut widened) = (0, 0);
        for trial in 0..100 {
            // The times differ by less than a step and straddle its border: the medians lie one step apart.
            let pair =
                series(side(&mut generator, 3_710.0, 6.0, 32.0), side(&mut generator, 3_716.0, 6.0, 32.0));
            let interval = geometric_mean_interval(&[log_ratios(&pair)], trial).unwrap();
            let truth = 3_710.0 / 3_716.0;
            let holds = |interval: Interval| interval.low <= truth && truth <= interval.high;
            narrow += u32::from(holds(interval));
            widened += u32::from(holds(interval.widened(&[log_resolution(&pair)])));
        }
        assert!(narrow < 50, "ties make the bare interval miss: {narrow} of 100 (seed 11)");
        assert_eq!(widened, 100, "seed 11");
        let pair = series(side(&mut generator, 3_710.0, 6.0, 32.0), side(&mut generator, 3_500.0, 6.0, 32.0));
        let interval =
            geometric_mean_interval(&[log_ratios(&pair)], 1).unwrap().widened(&[log_resolution(&pair)]);
        assert!(interval.low > 1.0, "{interval:?}");
    }

    #[test]
    fn a_fine_clock_widens_nothing_that_is_seen() {
        let mut generator = SplitMix64::new(12);
        let pair =
            series(side(&mut generator, 80_000.0, 900.0, 1.0), side(&mut generator, 81_000.0, 900.0, 1.0));
        assert!(log_resolution(&pair) < 3e-5);
    }
}
