//! Blobs of raw samples: zstd-compressed canonical JSON of a sample series.

use fleet_config::domain::SampleSeries;
use fleet_config::domain::canonical::{CanonicalError, from_bytes, to_bytes};

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
