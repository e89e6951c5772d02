//! An estimate with its standard errors: the median of one series, and the mean over several, autocorrelation included.
//!
//! **Median of a series** (`median-batch-ranks/1`). The number of values below the true median has, for a stationary
//! series, the variance n/4 times a factor that autocorrelation makes larger than one. The factor is estimated by batch
//! means (Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research 30, 1982; Law,
//! "Simulation Modeling and Analysis", 5th ed. 2015, §9.5.3) of the signs of the values around their median: ten contiguous
//! batches, Student's t with nine degrees. The ends of the interval are the order statistics that lie so many ranks from
//! the middle (Conover, "Practical Nonparametric Statistics", 3rd ed. 1999, §3.2, with that variance in the place of n/4).
//! Signs make it deaf to spikes; contiguous batches make it see what neighbours share. Below twenty pairs batches
//! would be too short: there the exact binomial interval stands, which is wide and takes pairs as independent.
//!
//! **Mean over cases.** Either side is the root of the sum of squares of the sides (Zou and Donner, "Construction of
//! confidence limits about effect measures", Statistics in Medicine 27, 2008), with degrees by Satterthwaite, "An
//! approximate distribution of estimates of variance components", Biometrics Bulletin 2 (1946).

use super::bootstrap::{CONFIDENCE, Interval};
use super::distribution::{fair_coin_at_most, student_quantile, student_tail};
use super::estimator::quantile;

/// The name of this way to an interval; another way gets another name.
pub const METHOD: &str = "median-batch-ranks/1";
/// Batches of a series.
const BATCHES: usize = 10;
/// The shortest series that is cut into batches.
const BATCHED_FROM: usize = 2 * BATCHES;

/// A logarithm of a ratio with what is known of its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub log: f64,
    /// Standard errors towards smaller and larger values.
    pub below: f64,
    pub above: f64,
    /// Degrees of freedom of the standard errors; infinite where they are exact.
    pub degrees: f64,
    /// What no number of samples makes smaller, such as half a step of the clock; added at either side.
    pub open: f64,
}

impl Estimate {
    /// Ends of the interval of the logarithm that covers the truth in the share `confidence` of cases.
    pub fn log_interval(&self, confidence: f64) -> Interval {
        let t = student_quantile(0.5 * (1.0 + confidence), self.degrees);
        Interval { low: self.log - t * self.below - self.open, high: self.log + t * self.above + self.open }
    }

    /// The same of the ratio, at [`CONFIDENCE`].
    pub fn interval(&self) -> Interval {
        let Interval { low, high } = self.log_interval(CONFIDENCE);
        Interval { low: libm::exp(low), high: libm::exp(high) }
    }

    /// Chance that an estimate lies at least so far from zero, on either side, where the truth is zero.
    pub fn p_value(&self) -> f64 {
        let distance = self.log.abs() - self.open;
        let error = if self.log > 0.0 { self.below } else { self.above };
        if distance <= 0.0 {
            return 1.0;
        }
        if error <= 0.0 {
            return 0.0;
        }
        (2.0 * student_tail(distance / error, self.degrees)).min(1.0)
    }

    /// The smallest true difference of the logarithm that a measurement like this one shows at [`CONFIDENCE`] with the
    /// chance `power`: (t of either + t of power) × standard error (Bloom, "Minimum detectable effects", Evaluation Review
    /// 19, 1995), and what stays open.
    pub fn detectable(&self, power: f64) -> f64 {
        let t =
            student_quantile(0.5 * (1.0 + CONFIDENCE), self.degrees) + student_quantile(power, self.degrees);
        t * self.below.max(self.above) + self.open
    }

    /// The same with what the clock's steps leave open.
    #[must_use]
    pub fn with_open(self, open: f64) -> Self {
        Self { open: self.open + open, ..self }
    }
}

/// The median of a series in the order in which it was taken. `None` for no numbers.
pub fn median_estimate(series: &[f64]) -> Option<Estimate> {
    let mut sorted = series.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let log = quantile(&sorted, 0.5)?;
    if series.len() < BATCHED_FROM {
        return exact(&sorted, log);
    }
    let degrees = (BATCHES - 1) as f64;
    let t = student_quantile(0.5 * (1.0 + CONFIDENCE), degrees);
    // The half counts the value in the middle, so that a series that nothing disturbs still spans two neighbours.
    let ranks = 0.5 + t * 0.5 * series.len() as f64 * sign_error(series, log);
    let (low, high) = (at_rank(&sorted, -ranks), at_rank(&sorted, ranks));
    Some(Estimate { log, below: (log - low) / t, above: (high - log) / t, degrees, open: 0.0 })
}

/// Standard error of the mean of the signs around `centre`, by batch means.
fn sign_error(series: &[f64], centre: f64) -> f64 {
    let sign = |value: f64| f64::from(i8::from(value > centre) - i8::from(value < centre));
    let edge = |batch: usize| batch * series.len() / BATCHES;
    let means = (0..BATCHES).filter_map(|batch| {
        let batch = series.get(edge(batch)..edge(batch + 1))?;
        Some(batch.iter().fold(0.0, |sum, &value| sum + sign(value)) / batch.len() as f64)
    });
    let means: Vec<f64> = means.collect();
    libm::sqrt(variance(&means) / BATCHES as f64)
}

/// The value `distance` ranks from the middle of sorted numbers, held within them, interpolated between neighbours.
fn at_rank(sorted: &[f64], distance: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    let share = if last > 0.0 { (0.5 * last + distance) / last } else { 0.5 };
    quantile(sorted, share).unwrap_or(f64::NAN)
}

/// The binomial interval of the median: the narrowest symmetric pair of order statistics that covers it in at least
/// [`CONFIDENCE`] of cases, or the whole range where none does.
fn exact(sorted: &[f64], log: f64) -> Option<Estimate> {
    let tail = 0.5 * (1.0 - CONFIDENCE);
    let throws = sorted.len() as u64;
    // How many values at either end may be left out.
    let outside = (0..throws / 2).take_while(|&most| fair_coin_at_most(most, throws) <= tail).count();
    let (low, high) = (sorted.get(outside.saturating_sub(1))?, sorted.get(sorted.len() - outside.max(1))?);
    let z = student_quantile(0.5 * (1.0 + CONFIDENCE), f64::INFINITY);
    let estimate =
        Estimate { log, below: (log - low) / z, above: (high - log) / z, degrees: f64::INFINITY, open: 0.0 };
    Some(estimate)
}

/// The mean of independent estimates. What they leave open comes from one clock, so it is averaged and not squared.
/// `None` for none.
pub fn mean_estimate(parts: &[Estimate]) -> Option<Estimate> {
    if parts.is_empty() {
        return None;
    }
    let count = parts.len() as f64;
    let sum = |of: &dyn Fn(&Estimate) -> f64| parts.iter().fold(0.0, |sum, part| sum + of(part));
    let squares = |side: &dyn Fn(&Estimate) -> f64| sum(&|part| side(part) * side(part));
    let (below, above) = (squares(&|part| part.below), squares(&|part| part.above));
    let middle = |part: &Estimate| 0.5 * (part.below * part.below + part.above * part.above);
    let spread = sum(&|part| middle(part) * middle(part) / part.degrees);
    let total = sum(&middle);
    let degrees = if spread > 0.0 { total * total / spread } else { f64::INFINITY };
    Some(Estimate {
        log: sum(&|part| part.log) / count,
        below: libm::sqrt(below) / count,
        above: libm::sqrt(above) / count,
        degrees,
        open: sum(&|part| part.open) / count,
    })
}

/// Sample variance, with n − 1; zero for fewer than two numbers.
pub(super) fn variance(numbers: &[f64]) -> f64 {
    if numbers.len() < 2 {
        return 0.0;
    }
    let count = numbers.len() as f64;
    let mean = numbers.iter().fold(0.0, |sum, number| sum + number) / count;
    numbers.iter().fold(0.0, |sum, number| sum + (number - mean) * (number - mean)) / (count - 1.0)
}

/// Correlation of a series with itself `lag` steps later, around its median and by ranks of sign, so that spikes do not
/// hide it: between −1 and 1, zero for constant or short series.
pub fn sign_autocorrelation(series: &[f64], lag: usize) -> f64 {
    let Some(centre) = super::estimator::median(series) else { return 0.0 };
    let sign = |value: f64| f64::from(i8::from(value > centre) - i8::from(value < centre));
    let power = series.iter().fold(0.0, |sum, &value| sum + sign(value) * sign(value));
    let pairs = series.iter().zip(series.iter().skip(lag));
    let product = pairs.fold(0.0, |sum, (&one, &other)| sum + sign(one) * sign(other));
    if power > 0.0 { product / power } else { 0.0 }
}
