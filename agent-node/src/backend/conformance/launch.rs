//! What must hold for a launch so that its time and its answer can be trusted: fresh addresses, and a time that fits the
//! node's own wait.

use super::{Bed, N, Trouble, fill_inputs, vectors};
use crate::clock::monotonic;

/// Writes the three addresses as bits to the beginning of its output.
const ADDRESSES: &str = r#"
extern "C" __global__ void sum(const float* a, const float* b, float* c, int n) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        unsigned long long found[3] = {(unsigned long long)a, (unsigned long long)b, (unsigned long long)c};
        for (int i = 0; i < 6; ++i) c[i] = __int_as_float((int)(found[i / 2] >> (i % 2 * 32)));
    }
}
"#;

/// One thread computes for some hundredths of a second, each step waiting for the one before.
const LONG: &str = r#"
extern "C" __global__ void sum(const float* a, const float* b, float* c, int n) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        float x = a[0] + 1.0f;
        for (int i = 0; i < 20000000; ++i) x = x * 0.999f + 0.5f;
        c[0] = x;
    }
}
"#;

/// Sets of buffers that are looked at; each must lie elsewhere than the one before.
const SETS: usize = 3;

/// A candidate that remembers an address of an earlier set must not find it again.
pub(super) fn addresses_are_fresh(bed: &Bed<'_>) -> Result<(), Trouble> {
    let artefact = bed.compile("addresses", ADDRESSES, &["sum"])?;
    let mut worker = bed.open(&artefact)?;
    let mut before: Option<Vec<[u8; 8]>> = None;
    for _ in 0..SETS {
        worker.prepare(&vectors(N))?;
        fill_inputs(worker.as_mut())?;
        worker.fill(2, 0xff)?;
        worker.launch()?;
        let bytes = worker.read(2)?;
        let words = bytes.chunks_exact(8).take(3).filter_map(|word| word.try_into().ok());
        let now: Vec<[u8; 8]> = words.collect();
        if let Some(before) = &before
            && let Some(place) = now.iter().zip(before).position(|(now, before)| now == before)
        {
            let number = u64::from_le_bytes(now[place]);
            return Err(format!("buffer {place} of a new set lies at {number:#x} again").into());
        }
        before = Some(now);
    }
    worker.finish();
    Ok(())
}

/// The clock of record against the node's: no more than the wait, and of a long launch most of it.
pub(super) fn time_fits_the_wait(bed: &Bed<'_>) -> Result<(), Trouble> {
    let artefact = bed.compile("long", LONG, &["sum"])?;
    let mut worker = bed.open(&artefact)?;
    worker.prepare(&vectors(N))?;
    fill_inputs(worker.as_mut())?;
    worker.launch()?;
    let from = monotonic();
    let time = u128::from(worker.launch()?.0);
    let waited = monotonic().saturating_sub(from).as_nanos() * 1000;
    if time > waited {
        return Err(format!("a launch of {time} ps was waited for {waited} ps").into());
    }
    if time * 2 < waited {
        return Err(format!("a launch of {time} ps is less than half of the wait of {waited} ps").into());
    }
    worker.finish();
    Ok(())
}
