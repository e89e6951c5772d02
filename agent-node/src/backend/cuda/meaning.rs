//! What a failed call of a worker means: an outcome, by the driver's code and what the worker was doing.

use super::failure::{self, infrastructure};
use super::protocol::{Phase, Trouble};
use crate::backend::Failure;
use fleet_config::domain::{FaultKind, Milliseconds, Stage, UnsupportedReason};

/// What a failed call means. Numbers are those of `CUresult` in cuda.h.
pub(super) fn explain(trouble: &Trouble, case: &str, launch_limit: Milliseconds) -> Failure {
    let Trouble { phase, call, code, name } = trouble;
    let vendor = format!("{name} ({code})");
    if let Some(kind) = fault(*code) {
        return failure::fault(kind, vendor, case);
    }
    let text = format!("{call}: {vendor}");
    let stage = match phase {
        Phase::Open | Phase::Load => Stage::Prepare,
        Phase::Prepare | Phase::Copy | Phase::Settle | Phase::Launch | Phase::Run | Phase::Fences => {
            Stage::Validate
        }
    };
    match (code, phase) {
        (702, _) => failure::timeout(launch_limit, case),
        // Not enough memory for a context is no candidate's doing.
        (2, Phase::Prepare | Phase::Launch | Phase::Run) => failure::out_of_memory(text),
        (209 | 222 | 223, Phase::Load) => {
            failure::toolchain(format!("the device does not take the cubin: {text}"))
        }
        (200 | 218 | 500, Phase::Load) => {
            failure::launch("launch/load", format!("the cubin cannot be used: {text}"))
        }
        (0, Phase::Launch) if call == "check the block" => failure::launch("launch/geometry", name.clone()),
        (1, Phase::Prepare) if call == "cuFuncSetAttribute" => failure::launch_unsupported(
            UnsupportedReason::SharedMemory,
            format!("static and dynamic shared memory together are more than a block may have: {text}"),
        ),
        (1 | 701 | 720, Phase::Launch) => {
            failure::launch("launch/refused", format!("the device refuses it: {text}"))
        }
        _ => infrastructure(stage, "use the device", &text),
    }
}

/// Faults that a kernel causes; the context is dead after each of them.
fn fault(code: u32) -> Option<FaultKind> {
    match code {
        700 | 717 => Some(FaultKind::IllegalAddress),
        716 => Some(FaultKind::MisalignedAddress),
        715 | 718 => Some(FaultKind::IllegalInstruction),
        714 => Some(FaultKind::StackOverflow),
        710 => Some(FaultKind::Assert),
        // "An exception occurred on the device": a trap, or what has no number of its own.
        719 => Some(FaultKind::Trap),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::{Blame, Status};

    fn status(phase: Phase, call: &str, code: u32) -> (Status, Blame) {
        let trouble = Trouble { phase, call: call.to_owned(), code, name: "X".to_owned() };
        let outcome = explain(&trouble, "case", Milliseconds(5)).outcome;
        (outcome.status, outcome.blame)
    }

    #[test]
    fn codes_of_the_driver_become_the_outcomes_they_mean() {
        for (phase, call, code, wanted) in [
            (Phase::Run, "cuEventSynchronize", 700, Status::RuntimeError),
            (Phase::Copy, "cuMemcpyDtoH", 719, Status::RuntimeError),
            (Phase::Run, "cuEventSynchronize", 702, Status::Timeout),
            (Phase::Prepare, "cuMemAlloc", 2, Status::OutOfMemory),
            (Phase::Open, "cuDevicePrimaryCtxRetain", 2, Status::Infrastructure),
            (Phase::Load, "cuModuleLoadData", 209, Status::UnsupportedOnDevice),
            (Phase::Load, "cuModuleGetFunction", 500, Status::LaunchError),
            (Phase::Launch, "cuLaunchKernel", 701, Status::LaunchError),
            (Phase::Launch, "check the block", 0, Status::LaunchError),
            (Phase::Prepare, "cuFuncSetAttribute", 1, Status::UnsupportedOnDevice),
            (Phase::Run, "cuEventSynchronize", 214, Status::Infrastructure),
            (Phase::Open, "load libcuda", 0, Status::Infrastructure),
            (Phase::Settle, "cuCtxSynchronize", 700, Status::RuntimeError),
            (Phase::Settle, "cuCtxSetLimit", 1, Status::Infrastructure),
        ] {
            assert_eq!(status(phase, call, code).0, wanted, "{phase:?} {call} {code}");
        }
        assert_eq!(status(Phase::Run, "x", 999).1, Blame::Fleet);
    }

    #[test]
    fn the_case_and_the_vendors_code_stand_in_a_fault() {
        let trouble =
            Trouble { phase: Phase::Run, call: "x".to_owned(), code: 716, name: "CUDA_ERROR_Y".to_owned() };
        let cause = explain(&trouble, "odd", Milliseconds(5)).outcome.cause.unwrap();
        assert_eq!(cause.fault, Some(FaultKind::MisalignedAddress));
        assert_eq!(cause.vendor_code.as_deref(), Some("CUDA_ERROR_Y (716)"));
        assert_eq!(cause.case.as_deref(), Some("odd"));
    }
}
