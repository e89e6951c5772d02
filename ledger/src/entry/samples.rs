//! Blobs of raw samples: zstd-compressed canonical JSON of a sample series, and their summary in the record.

use crate::stats;
use fleet_config::domain::canonical::{CanonicalError, from_bytes, to_bytes};
use fleet_config::domain::{BlobRef, CaseTiming, Picoseconds, SampleSeries};

/// Most pairs of one series; policies stay far below.
const PAIRS_MAX: usize = 100_000;

/// Most bytes of the decompressed series: two numbers of up to 17 bytes a pair, and the frame around them.
const SERIES_BYTES_MAX: usize = PAIRS_MAX * 2 * 17 + 4096;

/// Most compressed bytes that are looked at.
const BLOB_BYTES_MAX: usize = SERIES_BYTES_MAX;

/// zstd's default; the series are small and the gain of higher levels is not.
const LEVEL: i32 = 3;

/// Why a series has no blob, or a blob no series.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    #[error("no zstd frame within {SERIES_BYTES_MAX} bytes: {0}")]
    Compression(#[from] std::io::Error),
    #[error("the samples are no canonical series: {0}")]
    Canonical(#[from] CanonicalError),
    #[error("{size} bytes are more than the {BLOB_BYTES_MAX} of a series")]
    TooLarge { size: usize },
    #[error("the format is not {}", SampleSeries::FORMAT)]
    Format,
    #[error("{baseline} baseline and {candidate} candidate samples; pairs need 1 to {PAIRS_MAX} of each")]
    Pairs { baseline: usize, candidate: usize },
    #[error("a sample of zero picoseconds has no ratio")]
    Zero,
}

/// The blob of `series`.
pub fn encode_samples(series: &SampleSeries) -> Result<Vec<u8>, SamplesError> {
    check(series)?;
    Ok(zstd::bulk::compress(&to_bytes(series)?, LEVEL)?)
}

/// The series in `blob`. Bounded however large the frame claims to be.
pub fn decode_samples(blob: &[u8]) -> Result<SampleSeries, SamplesError> {
    if blob.len() > BLOB_BYTES_MAX {
        return Err(SamplesError::TooLarge { size: blob.len() });
    }
    let series = from_bytes(&zstd::bulk::decompress(blob, SERIES_BYTES_MAX)?)?;
    check(&series)?;
    Ok(series)
}

/// The summary of `series` that a record carries; `samples` names the blob of [`encode_samples`]. Verification
/// recomputes it, so nodes make it with this function.
pub fn case_timing(series: &SampleSeries, samples: BlobRef) -> CaseTiming {
    let middle = |side: &[Picoseconds]| {
        let numbers: Vec<f64> = side.iter().map(|sample| sample.0 as f64).collect();
        Picoseconds(stats::median(&numbers).map_or(0, |median| libm::round(median) as u64))
    };
    let log_ratio = stats::median(&stats::log_ratios(series)).unwrap_or(0.0);
    CaseTiming {
        case: series.case.clone(),
        pairs: u32::try_from(series.baseline.len()).unwrap_or(u32::MAX),
        baseline_median: middle(&series.baseline),
        candidate_median: middle(&series.candidate),
        ratio: stats::parts_per_billion(libm::exp(log_ratio)),
        samples,
    }
}

fn check(series: &SampleSeries) -> Result<(), SamplesError> {
    let (baseline, candidate) = (series.baseline.len(), series.candidate.len());
    if series.format != SampleSeries::FORMAT {
        return Err(SamplesError::Format);
    }
    if baseline != candidate || baseline == 0 || baseline > PAIRS_MAX {
        return Err(SamplesError::Pairs { baseline, candidate });
    }
    if series.baseline.iter().chain(&series.candidate).any(|sample| sample.0 == 0) {
        return Err(SamplesError::Zero);
    }
    Ok(())
}
