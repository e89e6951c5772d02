//! What was timed: per-case summaries for the record, raw samples for a blob beside it.

use super::{BlobRef, Milliseconds, PartsPerBillion, Picoseconds};
use serde::{Deserialize, Serialize};

/// Timing of one performance case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseTiming {
    pub case: String,
    pub pairs: u32,
    pub baseline_median: Picoseconds,
    pub candidate_median: Picoseconds,
    /// exp(median over pairs of log(baseline / candidate)): above one means faster than the baseline.
    pub ratio: PartsPerBillion,
    /// zstd-compressed canonical JSON of [`SampleSeries`].
    pub samples: BlobRef,
}

/// Raw samples of one case in the order they were taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleSeries {
    /// Always [`SampleSeries::FORMAT`].
    pub format: String,
    pub case: String,
    /// Pair i is (`baseline[i]`, `candidate[i]`), in picoseconds; even pairs ran baseline first, odd ones second.
    pub baseline: Vec<Picoseconds>,
    pub candidate: Vec<Picoseconds>,
    /// Untimed launches of each side before the first pair.
    pub warmups: u32,
}

impl SampleSeries {
    pub const FORMAT: &str = "muster.samples/1";
}

/// Where the time of an attempt went; each a field of its own in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTimes {
    pub queue: Milliseconds,
    pub transfer: Milliseconds,
    pub compile: Milliseconds,
    pub validate: Milliseconds,
    pub time: Milliseconds,
}
