//! The state in which every launch finds the device: nothing else running, limits as at the start, the L2 as stated.
//! Only used in workers.
//!
//! ```text
//! restore:  drain the context ─ limits ─ persisting lines of the L2 ─ write the scratch ─┐ on the stream
//! launch:                                                     event ─ the plan ─ event ◄─┘
//! ```
//! While the device writes the scratch, the plan is put on the stream behind it, so that its first kernel begins without
//! waiting for this process. Kernels can hold lines of the L2 for longer than a flush lasts (`evict_last`, set-aside
//! ways): nothing is set aside, and such lines are made ordinary before the scratch is written.

use super::driver::{CallError, Device, Memory, Outcome, call};
use super::protocol::CacheOrder;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUlimit};

/// Empty pairs of events at the start; the median of few is steady, and they take some microseconds each.
const FLOOR_TRIES: usize = 21;
/// The scratch in sizes of the L2: lines are not replaced strictly in the order of their use.
const FLUSH_TIMES: usize = 2;
/// A device that does not tell its L2 is taken to have as much as any of today.
const L2_UNKNOWN: usize = 128 << 20;
const FLUSH_BYTE: u8 = 0x5a;
/// CUDA_ERROR_UNSUPPORTED_LIMIT and CUDA_ERROR_NOT_SUPPORTED: devices before compute capability 8.0 set nothing aside.
const UNSUPPORTED: [u32; 2] = [215, 801];
/// What a context can be told and a launch may meet.
const LIMITS: [CUlimit; 4] = [
    CUlimit::CU_LIMIT_STACK_SIZE,
    CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE,
    CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE,
    CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE,
];

/// What was found and made at the start.
pub(super) struct Conditions {
    limits: Vec<(CUlimit, usize)>,
    /// Overwritten before each launch, if the L2 is to be flushed.
    scratch: Option<(Memory, usize)>,
    persisting: Persisting,
    floor: u64,
}

/// Whether the device can hold lines of its L2 back.
#[derive(Clone, Copy)]
enum Persisting {
    Possible,
    Unknown,
}

impl Conditions {
    /// Of a context that was just made; the L2 is left alone until [`Conditions::settle`].
    pub(super) fn establish(device: &Device) -> Outcome<Self> {
        let aside = CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
        let persisting = match supported(call("cuCtxSetLimit", result::ctx::set_limit(aside, 0)))? {
            Some(()) => match supported(reset_persisting())? {
                Some(()) => Persisting::Possible,
                None => Persisting::Unknown,
            },
            None => Persisting::Unknown,
        };
        let mut limits = Vec::with_capacity(LIMITS.len());
        for limit in LIMITS {
            if let Some(value) = supported(call("cuCtxGetLimit", result::ctx::get_limit(limit)))? {
                limits.push((limit, value));
            }
        }
        // The first use of events costs more than any other; it is no floor of what follows.
        let floor = floor(device)?;
        Ok(Self { limits, scratch: None, persisting, floor })
    }

    /// Right before the first launch: the floor of this moment, and the L2 as it is to be.
    pub(super) fn settle(&mut self, device: &Device, cache: CacheOrder) -> Outcome<()> {
        self.floor = floor(device)?;
        self.scratch = match cache {
            CacheOrder::AsLeft => None,
            CacheOrder::Flushed => {
                let l2 = if device.l2_bytes == 0 { L2_UNKNOWN } else { device.l2_bytes };
                let bytes = l2.saturating_mul(FLUSH_TIMES);
                Some((device.allocate(bytes)?, bytes))
            }
        };
        Ok(())
    }

    /// Picoseconds between two events with nothing between them.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// Bytes that are overwritten before each launch.
    pub(super) fn flush_bytes(&self) -> u64 {
        self.scratch.as_ref().map_or(0, |(_, bytes)| *bytes as u64)
    }

    /// Brings the device into the stated state. The last part of it may still run: it stands on the stream.
    pub(super) fn restore(&self, device: &Device) -> Outcome<()> {
        drain()?;
        for (limit, value) in &self.limits {
            if call("cuCtxGetLimit", result::ctx::get_limit(*limit))? != *value {
                call("cuCtxSetLimit", result::ctx::set_limit(*limit, *value))?;
            }
        }
        match self.persisting {
            Persisting::Possible => reset_persisting()?,
            Persisting::Unknown => {}
        }
        match &self.scratch {
            Some((memory, bytes)) => device.fill_on_stream(memory, 0, *bytes, FLUSH_BYTE),
            None => Ok(()),
        }
    }
}

/// Waits until nothing of this context runs, on any stream: copies from pageable memory may still be on their way when
/// their call has returned, and a fault of the last launch is seen here at the latest.
pub(super) fn drain() -> Outcome<()> {
    call("cuCtxSynchronize", result::ctx::synchronize())
}

fn reset_persisting() -> Outcome<()> {
    // SAFETY: takes nothing; acts on the current context.
    call("cuCtxResetPersistingL2Cache", unsafe { sys::cuCtxResetPersistingL2Cache() }.result())
}

/// `None` where the device does not know what was asked.
fn supported<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(CallError { code, .. }) if UNSUPPORTED.contains(&code) => Ok(None),
        Err(error) => Err(error),
    }
}

fn floor(device: &Device) -> Outcome<u64> {
    let mut times = Vec::with_capacity(FLOOR_TRIES);
    for _ in 0..FLOOR_TRIES {
        device.mark(0)?;
        device.mark(1)?;
        times.push(device.elapsed()?);
    }
    times.sort_unstable();
    Ok(times.get(FLOOR_TRIES / 2).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_does_not_know_is_no_error_and_everything_else_is() {
        let failed = |code| -> Outcome<()> {
            Err(CallError { call: "cuCtxSetLimit", code, name: "CUDA_ERROR_X".to_owned() })
        };
        assert_eq!(supported(failed(215)), Ok(None));
        assert_eq!(supported(failed(801)), Ok(None));
        assert!(supported(failed(700)).is_err());
        assert_eq!(supported(Ok(7)), Ok(Some(7)));
    }
}
