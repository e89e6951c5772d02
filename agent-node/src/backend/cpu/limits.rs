//! Limits of the CPU device: those of CUDA where CUDA has one, so that a plan that runs here is legal there.

use super::control::{ARGUMENTS_MAX, BUFFERS_MAX, STEPS_MAX};
use super::failure;
use super::fault::is_read_only;
use crate::backend::{Argument, Evaluation, Failure, ResolvedStep};
use fleet_config::domain::UnsupportedReason;
use std::collections::BTreeMap;

/// From the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
pub(super) const THREADS_PER_BLOCK_MAX: u64 = 1024;
const BLOCK_MAX: [u64; 3] = [1024, 1024, 64];
const GRID_MAX: [u64; 3] = [0x7fff_ffff, 65535, 65535];
/// Dynamic shared memory of one block: what the largest GPUs grant.
pub(super) const SHARED_BYTES_MAX: u64 = 232_448;
pub(super) const WARP_SIZE: i64 = 32;

/// Names that launch expressions may use.
pub(super) fn attributes(threads: u32) -> BTreeMap<String, i64> {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    BTreeMap::from([
        ("device.multiprocessors".to_owned(), i64::from(threads)),
        ("device.warp_size".to_owned(), WARP_SIZE),
        ("device.threads_per_block_max".to_owned(), number(THREADS_PER_BLOCK_MAX)),
        ("device.shared_bytes_max".to_owned(), number(SHARED_BYTES_MAX)),
    ])
}

/// Refuses what this device cannot launch, before anything runs.
pub(super) fn check(evaluation: &Evaluation) -> Result<(), Failure> {
    if evaluation.steps.len() > STEPS_MAX || evaluation.buffers.len() > BUFFERS_MAX {
        return Err(failure::launch(format!(
            "{} steps and {} buffers; at most {STEPS_MAX} and {BUFFERS_MAX} are possible",
            evaluation.steps.len(),
            evaluation.buffers.len()
        )));
    }
    evaluation.steps.iter().try_for_each(|step| check_step(evaluation, step))
}

fn check_step(evaluation: &Evaluation, step: &ResolvedStep) -> Result<(), Failure> {
    match step {
        ResolvedStep::Memset { buffer, byte: _ } => match evaluation.buffers.get(*buffer) {
            Some(found) if !is_read_only(found.use_) => Ok(()),
            Some(found) => Err(failure::launch(format!("the plan fills the input `{}`", found.name))),
            None => Err(failure::launch(format!("the plan fills buffer {buffer}, which does not exist"))),
        },
        ResolvedStep::Kernel {
            entry: _,
            name,
            grid,
            block,
            shared_bytes,
            arguments,
            cooperative,
            cluster,
        } => {
            check_geometry(name, grid, block)?;
            if *cooperative {
                let message =
                    format!("`{name}` asks for a cooperative launch, which the CPU device does not have yet");
                return Err(failure::launch_unsupported(UnsupportedReason::NotImplementedHere, message));
            }
            if cluster.is_some() {
                let message =
                    format!("`{name}` asks for thread block clusters, which the CPU device does not have");
                return Err(failure::launch_unsupported(UnsupportedReason::LaunchLimits, message));
            }
            if *shared_bytes > SHARED_BYTES_MAX {
                let message = format!(
                    "`{name}` needs {shared_bytes} bytes of dynamic shared memory and {SHARED_BYTES_MAX} bytes are available"
                );
                return Err(failure::launch_unsupported(UnsupportedReason::SharedMemory, message));
            }
            check_arguments(evaluation, name, arguments)
        }
    }
}

fn check_geometry(name: &str, grid: &[u64; 3], block: &[u64; 3]) -> Result<(), Failure> {
    let text = |size: &[u64; 3]| format!("({}, {}, {})", size[0], size[1], size[2]);
    let legal =
        |size: &[u64; 3], max: &[u64; 3]| size.iter().zip(max).all(|(size, max)| (1..=*max).contains(size));
    if !legal(grid, &GRID_MAX) {
        let message = format!("`{name}`: grid {} is not within 1 to {} blocks", text(grid), text(&GRID_MAX));
        return Err(failure::launch(message));
    }
    let threads = block.iter().fold(1u64, |product, size| product.saturating_mul(*size));
    if threads > THREADS_PER_BLOCK_MAX || !legal(block, &BLOCK_MAX) {
        let message = format!(
            "`{name}`: block {} has {threads} threads; a block has 1 to {THREADS_PER_BLOCK_MAX} threads within {}",
            text(block),
            text(&BLOCK_MAX)
        );
        return Err(failure::launch(message));
    }
    Ok(())
}

fn check_arguments(evaluation: &Evaluation, name: &str, arguments: &[Argument]) -> Result<(), Failure> {
    if arguments.len() > ARGUMENTS_MAX {
        let message =
            format!("`{name}` has {} arguments; at most {ARGUMENTS_MAX} are possible", arguments.len());
        return Err(failure::launch(message));
    }
    for argument in arguments {
        match argument {
            Argument::Buffer(index) if evaluation.buffers.get(*index).is_none() => {
                return Err(failure::launch(format!(
                    "`{name}` is given buffer {index}, which does not exist"
                )));
            }
            Argument::Scalar(bytes) if bytes.len() > 8 => {
                return Err(failure::launch(format!("`{name}` is given a scalar of {} bytes", bytes.len())));
            }
            Argument::Buffer(_) | Argument::Scalar(_) => {}
        }
    }
    Ok(())
}
