//! Limits of a launch, checked before anything runs.

use super::cubin::Kernel;
use super::failure;
use crate::backend::{Argument, BufferUse, Evaluation, Failure, ResolvedStep};
use fleet_config::domain::{Role, UnsupportedReason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// As many steps as a launch plan may have.
const STEPS_MAX: usize = 64;
/// Buffers of one evaluation: parameters of a kernel and scratch.
const BUFFERS_MAX: usize = 128;
/// Bytes of one scalar argument.
const SCALAR_MAX: usize = 8;
/// Bytes of a pointer argument.
const POINTER: u32 = 8;

/// What one device allows, as its driver tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceLimits {
    pub threads_per_block: u64,
    pub block: [u64; 3],
    pub grid: [u64; 3],
    /// Dynamic shared memory of one block, opted in.
    pub shared_bytes: u64,
    pub warp_size: u64,
    pub multiprocessors: u64,
}

impl DeviceLimits {
    /// Names that launch expressions may use.
    pub(super) fn attributes(&self) -> BTreeMap<String, i64> {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        BTreeMap::from([
            ("device.multiprocessors".to_owned(), number(self.multiprocessors)),
            ("device.warp_size".to_owned(), number(self.warp_size)),
            ("device.threads_per_block_max".to_owned(), number(self.threads_per_block)),
            ("device.shared_bytes_max".to_owned(), number(self.shared_bytes)),
        ])
    }
}

/// Refuses what this device cannot launch.
pub(super) fn check(
    limits: &DeviceLimits,
    kernels: &[Kernel],
    evaluation: &Evaluation,
    memory: u64,
) -> Result<(), Failure> {
    let (steps, buffers) = (evaluation.steps.len(), evaluation.buffers.len());
    if steps > STEPS_MAX || buffers > BUFFERS_MAX {
        let message = format!(
            "{steps} steps and {buffers} buffers; at most {STEPS_MAX} and {BUFFERS_MAX} are possible"
        );
        return Err(failure::launch("launch/plan", message));
    }
    let total = evaluation.buffers.iter().fold(0u64, |sum, buffer| sum.saturating_add(buffer.bytes));
    if total > memory {
        let message = format!("the buffers need {total} bytes and {memory} bytes are granted");
        return Err(failure::out_of_memory(message));
    }
    evaluation.steps.iter().try_for_each(|step| check_step(limits, kernels, evaluation, step))
}

fn check_step(
    limits: &DeviceLimits,
    kernels: &[Kernel],
    evaluation: &Evaluation,
    step: &ResolvedStep,
) -> Result<(), Failure> {
    match step {
        ResolvedStep::Memset { buffer, byte: _ } => match evaluation.buffers.get(*buffer) {
            None => Err(failure::launch(
                "launch/plan",
                format!("the plan fills buffer {buffer}, which does not exist"),
            )),
            Some(found) => match found.use_ {
                BufferUse::Parameter(Role::In) => {
                    Err(failure::launch("launch/plan", format!("the plan fills the input `{}`", found.name)))
                }
                BufferUse::Parameter(Role::Out | Role::Inout) | BufferUse::Scratch => Ok(()),
            },
        },
        ResolvedStep::Kernel { entry, name, grid, block, shared_bytes, arguments, cooperative, cluster } => {
            check_geometry(limits, name, grid, block)?;
            let missing = UnsupportedReason::NotImplementedHere;
            if *cooperative {
                let message =
                    format!("`{name}` asks for a cooperative launch, which this backend does not have yet");
                return Err(failure::launch_unsupported(missing, message));
            }
            if cluster.is_some() {
                let message =
                    format!("`{name}` asks for thread block clusters, which this backend does not have yet");
                return Err(failure::launch_unsupported(missing, message));
            }
            if *shared_bytes > limits.shared_bytes {
                let message = format!(
                    "`{name}` needs {shared_bytes} bytes of dynamic shared memory and {} bytes are available",
                    limits.shared_bytes
                );
                return Err(failure::launch_unsupported(UnsupportedReason::SharedMemory, message));
            }
            let kernel = kernels.get(*entry).ok_or_else(|| {
                failure::launch(
                    "launch/plan",
                    format!("`{name}` is kernel {entry}, which the artefact lacks"),
                )
            })?;
            check_arguments(kernel, evaluation, name, arguments)
        }
    }
}

fn check_geometry(
    limits: &DeviceLimits,
    name: &str,
    grid: &[u64; 3],
    block: &[u64; 3],
) -> Result<(), Failure> {
    let text = |size: &[u64; 3]| format!("({}, {}, {})", size[0], size[1], size[2]);
    let legal =
        |size: &[u64; 3], max: &[u64; 3]| size.iter().zip(max).all(|(size, max)| (1..=*max).contains(size));
    if !legal(grid, &limits.grid) {
        let message =
            format!("`{name}`: grid {} is not within 1 to {} blocks", text(grid), text(&limits.grid));
        return Err(failure::launch("launch/geometry", message));
    }
    let threads = block.iter().fold(1u64, |product, size| product.saturating_mul(*size));
    if threads > limits.threads_per_block || !legal(block, &limits.block) {
        let message = format!(
            "`{name}`: block {} has {threads} threads; a block has 1 to {} threads within {}",
            text(block),
            limits.threads_per_block,
            text(&limits.block)
        );
        return Err(failure::launch("launch/geometry", message));
    }
    Ok(())
}

/// The driver reads as many bytes behind each argument as the kernel has declared: their number and sizes must agree.
fn check_arguments(
    kernel: &Kernel,
    evaluation: &Evaluation,
    name: &str,
    arguments: &[Argument],
) -> Result<(), Failure> {
    let wrong = |message: String| Err(failure::launch("launch/arguments", message));
    if arguments.len() != kernel.parameters.len() {
        return wrong(format!(
            "the plan gives `{name}` {} arguments and it has {} parameters",
            arguments.len(),
            kernel.parameters.len()
        ));
    }
    for (index, (argument, size)) in arguments.iter().zip(&kernel.parameters).enumerate() {
        let given = match argument {
            Argument::Buffer(buffer) if evaluation.buffers.get(*buffer).is_none() => {
                return wrong(format!("`{name}` is given buffer {buffer}, which does not exist"));
            }
            Argument::Buffer(_) => POINTER,
            Argument::Scalar(bytes) if bytes.len() > SCALAR_MAX => {
                return wrong(format!("`{name}` is given a scalar of {} bytes", bytes.len()));
            }
            Argument::Scalar(bytes) => u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        };
        if given != *size {
            return wrong(format!(
                "argument {index} of `{name}` has {given} bytes where the parameter has {size}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Buffer;
    use fleet_config::domain::{ElementType, Status};

    fn device() -> DeviceLimits {
        DeviceLimits {
            threads_per_block: 1024,
            block: [1024, 1024, 64],
            grid: [0x7fff_ffff, 65535, 65535],
            shared_bytes: 232_448,
            warp_size: 32,
            multiprocessors: 132,
        }
    }

    fn evaluation(change: impl FnOnce(&mut ResolvedStep)) -> Evaluation {
        let mut step = ResolvedStep::Kernel {
            entry: 0,
            name: "f".to_owned(),
            grid: [4, 1, 1],
            block: [256, 1, 1],
            shared_bytes: 0,
            arguments: vec![Argument::Buffer(0), Argument::Scalar(vec![0; 4])],
            cooperative: false,
            cluster: None,
        };
        change(&mut step);
        let use_ = BufferUse::Parameter(Role::In);
        let buffer = Buffer { name: "x".to_owned(), use_, element: ElementType::F32, bytes: 4096 };
        Evaluation { case: "c".to_owned(), buffers: vec![buffer], steps: vec![step] }
    }

    fn verdict(change: impl FnOnce(&mut ResolvedStep)) -> Option<Status> {
        let kernels = [Kernel { symbol: "f".to_owned(), parameters: vec![8, 4] }];
        let checked = check(&device(), &kernels, &evaluation(change), 4096);
        checked.err().map(|failure| failure.outcome.status)
    }

    #[test]
    fn legal_launches_pass_and_each_limit_refuses_its_own() {
        type Change = fn(&mut ResolvedStep);
        fn kernel(step: &mut ResolvedStep) -> (&mut [u64; 3], &mut u64, &mut Vec<Argument>, &mut bool) {
            match step {
                ResolvedStep::Kernel { block, shared_bytes, arguments, cooperative, .. } => {
                    (block, shared_bytes, arguments, cooperative)
                }
                ResolvedStep::Memset { .. } => unreachable!(),
            }
        }
        let cases: [(Change, Option<Status>); 9] = [
            (|_| {}, None),
            (|step| kernel(step).0[0] = 1024, None),
            (|step| kernel(step).0[0] = 1025, Some(Status::LaunchError)),
            (|step| kernel(step).0[2] = 0, Some(Status::LaunchError)),
            (|step| *kernel(step).1 = 232_449, Some(Status::UnsupportedOnDevice)),
            (|step| drop(kernel(step).2.pop()), Some(Status::LaunchError)),
            (|step| kernel(step).2[1] = Argument::Scalar(vec![0; 8]), Some(Status::LaunchError)),
            (|step| *kernel(step).3 = true, Some(Status::UnsupportedOnDevice)),
            (|step| *step = ResolvedStep::Memset { buffer: 0, byte: 0 }, Some(Status::LaunchError)),
        ];
        for (index, (change, wanted)) in cases.into_iter().enumerate() {
            assert_eq!(verdict(change), wanted, "case {index}");
        }
    }

    #[test]
    fn more_memory_than_granted_is_out_of_memory() {
        let kernels = [Kernel { symbol: "f".to_owned(), parameters: vec![8, 4] }];
        let failure = check(&device(), &kernels, &evaluation(|_| {}), 4095).unwrap_err();
        assert_eq!(failure.outcome.status, Status::OutOfMemory);
    }
}
