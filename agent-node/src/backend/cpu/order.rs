//! Steps of a plan as the worker reads them from the control page.

use super::control::{FILL_STEP, SCALAR, StepSlot};
use crate::backend::{Argument, ResolvedStep};
use std::sync::atomic::{AtomicU32, Ordering};

/// Writes `step` into its slot.
pub(super) fn write_step(slot: &StepSlot, step: &ResolvedStep) {
    match step {
        ResolvedStep::Memset { buffer, byte } => {
            slot.entry.store(FILL_STEP, Ordering::Relaxed);
            slot.buffer.store(u32::try_from(*buffer).unwrap_or(u32::MAX), Ordering::Relaxed);
            slot.byte.store(u32::from(*byte), Ordering::Relaxed);
        }
        ResolvedStep::Kernel {
            entry,
            name: _,
            grid,
            block,
            shared_bytes,
            arguments,
            cooperative: _,
            cluster: _,
        } => {
            slot.entry.store(u32::try_from(*entry).unwrap_or(FILL_STEP - 1), Ordering::Relaxed);
            let three = |words: &[AtomicU32; 3], sizes: &[u64; 3]| {
                for (word, size) in words.iter().zip(sizes) {
                    word.store(u32::try_from(*size).unwrap_or(0), Ordering::Relaxed);
                }
            };
            three(&slot.grid, grid);
            three(&slot.block, block);
            slot.shared_bytes.store(u32::try_from(*shared_bytes).unwrap_or(0), Ordering::Relaxed);
            slot.argument_count.store(u32::try_from(arguments.len()).unwrap_or(0), Ordering::Relaxed);
            for (place, argument) in slot.arguments.iter().zip(arguments) {
                match argument {
                    Argument::Buffer(index) => {
                        place.buffer.store(u32::try_from(*index).unwrap_or(SCALAR - 1), Ordering::Relaxed);
                    }
                    Argument::Scalar(bytes) => {
                        let mut word = [0u8; 8];
                        for (to, from) in word.iter_mut().zip(bytes) {
                            *to = *from;
                        }
                        place.buffer.store(SCALAR, Ordering::Relaxed);
                        place.scalar.store(u64::from_le_bytes(word), Ordering::Relaxed);
                    }
                }
            }
        }
    }
}
