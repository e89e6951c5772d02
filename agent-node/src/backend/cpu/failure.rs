//! Every way in which work on the CPU device fails, as the outcome it means.

use super::diagnostics::Diagnosis;
use super::rewrite::RewriteError;
use crate::backend::Failure;
use crate::backend::signature::SignatureError;
use fleet_config::domain::{
    Architecture, Blame, Cause, FaultKind, MemoryPlace, Milliseconds, Outcome, SourcePlace, Stage, Status,
    UnsupportedReason,
};
use std::fmt::Display;

pub(super) fn outcome(
    status: Status,
    stage: Stage,
    blame: Blame,
    code: &str,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> Outcome {
    let cause = Cause { code: code.to_owned(), message: message.into(), ..Cause::default() };
    Outcome::failed(status, stage, blame, cause, hint)
}

/// The node's own trouble; the scheduler tries again elsewhere.
pub(super) fn infrastructure(stage: Stage, what: &str, error: &dyn Display) -> Failure {
    let code = format!("{}/infrastructure", stage.name());
    let message = format!("cannot {what}: {error}");
    let hint = "look at this node's log; the attempt is repeated";
    Failure::new(outcome(Status::Infrastructure, stage, Blame::Fleet, &code, message, hint))
}

/// Nobody waits for the answer any more.
pub(super) fn interrupted(stage: Stage) -> Failure {
    infrastructure(stage, "go on", &"the attempt was cancelled")
}

/// A launch answered and changed its outputs afterwards.
pub(super) fn late_write(case: &str) -> Failure {
    let message = "outputs changed after the launch had said that it was done";
    let hint = "finish all work inside the launch; time is taken until every output stands";
    suspicious(case, "run/late-write", message, hint)
}

/// A worker that cannot be held still between its launches.
pub(super) fn traced(case: &str) -> Failure {
    let message = "a thread of the launch asked to be traced, and cannot be stopped between launches";
    let hint = "take the call of ptrace out; a node with its sandbox refuses it";
    suspicious(case, "run/traced", message, hint)
}

fn suspicious(case: &str, code: &str, message: &str, hint: &str) -> Failure {
    let blame = Blame::Nobody; // whoever's worker it is
    let mut outcome = outcome(Status::Suspicious, Stage::Validate, blame, code, message, hint);
    if let Some(cause) = &mut outcome.cause {
        cause.case = Some(case.to_owned());
    }
    Failure::new(outcome)
}

/// The toolchain cannot compile our own shim.
pub(super) fn toolchain(log: &str) -> Failure {
    let message = "the host compiler cannot compile the shim";
    let hint = "reinstall g++ or clang++ on this node";
    let outcome =
        outcome(Status::Infrastructure, Stage::Compile, Blame::Fleet, "compile/toolchain", message, hint);
    Failure::with_log(outcome, log)
}

fn rejected(code: &str, message: impl Into<String>, hint: &str, place: Option<SourcePlace>) -> Failure {
    let mut outcome = outcome(Status::Rejected, Stage::Compile, Blame::Candidate, code, message, hint);
    if let Some(cause) = &mut outcome.cause {
        cause.source = place;
    }
    Failure::new(outcome)
}

pub(super) fn flag(flag: &str) -> Failure {
    let message = format!("the policy's compiler flag {flag:?} is not one that this device allows");
    let hint = "use optimisation and language flags only";
    Failure::new(outcome(Status::Rejected, Stage::Compile, Blame::Task, "compile/flag", message, hint))
}

pub(super) fn main_missing(main: &str) -> Failure {
    rejected(
        "compile/main-missing",
        format!("the source tree has no file `{main}`"),
        "name an existing file",
        None,
    )
}

pub(super) fn path_outside(path: &str) -> Failure {
    let message = format!("the path `{path}` is not a relative path inside the source tree");
    rejected("compile/path", message, "use relative paths without `.` and `..`", None)
}

pub(super) fn source_refused(error: &RewriteError, place: SourcePlace) -> Failure {
    let (code, hint) = match error {
        RewriteError::Nul { .. } => ("compile/nul", "remove the NUL byte"),
        RewriteError::NotUtf8 { .. } => ("compile/utf8", "save the file as UTF-8"),
        RewriteError::AbsoluteInclude { .. } => {
            ("compile/include", "include files of the source tree or of the task by relative paths")
        }
    };
    rejected(code, error.to_string(), hint, Some(place))
}

pub(super) fn glue(error: &SignatureError) -> Failure {
    match error {
        SignatureError::Name(_) => {
            rejected("compile/kernel-name", error.to_string(), "correct the launch plan", None)
        }
        SignatureError::Signature(_) => {
            let hint = "correct the task's signature";
            Failure::new(outcome(
                Status::Rejected,
                Stage::Compile,
                Blame::Task,
                "compile/task-signature",
                error.to_string(),
                hint,
            ))
        }
    }
}

/// The device lacks something.
pub(super) fn unsupported(
    reason: UnsupportedReason,
    feature: &str,
    message: impl Into<String>,
    hint: &str,
    place: Option<SourcePlace>,
) -> Failure {
    let mut outcome = outcome(
        Status::UnsupportedOnDevice,
        Stage::Compile,
        Blame::Device,
        "compile/unsupported",
        message,
        hint,
    );
    if let Some(cause) = &mut outcome.cause {
        cause.unsupported = Some(reason);
        cause.vendor_code = Some(feature.to_owned());
        cause.source = place;
    }
    Failure::new(outcome)
}

pub(super) fn compile_timeout(limit: Milliseconds) -> Failure {
    let message = format!("compiling did not finish within its time limit of {} ms", limit.0);
    let hint = "make the source smaller, or raise the task's compile limit";
    Failure::new(outcome(
        Status::CompileTimeout,
        Stage::Compile,
        Blame::Candidate,
        "compile/time-limit",
        message,
        hint,
    ))
}

/// What the compiler's log says.
pub(super) fn diagnosis(diagnosis: Diagnosis, log: String) -> Failure {
    let mut failure = match diagnosis {
        Diagnosis::Unsupported { reason, feature, hint, place } => {
            let message = format!("{feature} cannot run on the CPU device");
            unsupported(reason, &feature, at(message, place.as_ref()), &hint, place)
        }
        Diagnosis::Signature { kernel } => {
            let message = format!("the signature of `{kernel}` differs from the task's");
            rejected(
                "compile/signature",
                message,
                "declare the kernel exactly as the task's signature does",
                None,
            )
        }
        Diagnosis::EntryMissing { message } => {
            let message = format!("a kernel that the launch plan names is not defined: {message}");
            rejected("compile/entry-missing", message, "define every kernel of the launch plan", None)
        }
        Diagnosis::Error { message, place } => {
            let mut outcome = outcome(
                Status::CompileError,
                Stage::Compile,
                Blame::Candidate,
                "compile/error",
                at(message, place.as_ref()),
                "correct the first error; the log has the rest",
            );
            if let Some(cause) = &mut outcome.cause {
                cause.source = place;
            }
            Failure::new(outcome)
        }
    };
    failure.log = Some(log.into_bytes());
    failure
}

/// `file:line:column: message`.
fn at(message: String, place: Option<&SourcePlace>) -> String {
    match place {
        Some(SourcePlace { file, line, column: 0 }) => format!("{file}:{line}: {message}"),
        Some(SourcePlace { file, line, column }) => format!("{file}:{line}:{column}: {message}"),
        None => message,
    }
}

/// Geometry that no device of this kind accepts.
pub(super) fn launch(message: impl Into<String>) -> Failure {
    Failure::new(outcome(
        Status::LaunchError,
        Stage::Validate,
        Blame::Candidate,
        "launch/geometry",
        message,
        "correct the launch plan",
    ))
}

/// More than this device has.
pub(super) fn launch_unsupported(reason: UnsupportedReason, message: impl Into<String>) -> Failure {
    let mut failure = unsupported(reason, "launch", message, "offer it to another device class", None);
    failure.outcome.stage = Stage::Validate;
    if let Some(cause) = &mut failure.outcome.cause {
        cause.code = "launch/unsupported".to_owned();
        cause.vendor_code = None;
    }
    failure
}

pub(super) fn out_of_memory(needed: u64, available: u64) -> Failure {
    let message = format!("the buffers need {needed} bytes and {available} bytes are granted");
    let hint = "use smaller cases or less scratch memory";
    Failure::new(outcome(
        Status::OutOfMemory,
        Stage::Validate,
        Blame::Candidate,
        "launch/memory",
        message,
        hint,
    ))
}

/// `what` did not finish within `limit`.
pub(super) fn timeout(what: &str, hint: &str, limit: Milliseconds, case: &str) -> Failure {
    let message = format!("{what} did not finish within its time limit of {} ms (timed out)", limit.0);
    let mut outcome =
        outcome(Status::Timeout, Stage::Validate, Blame::Candidate, "launch/time-limit", message, hint);
    if let Some(cause) = &mut outcome.cause {
        cause.case = Some(case.to_owned());
    }
    Failure::new(outcome)
}

/// The process that holds the candidate ended without a report, or with one that only a candidate can cause.
pub(super) fn ended(fault: FaultKind, vendor: String, message: String) -> Failure {
    let hint = match fault {
        FaultKind::Killed => {
            "take less memory; offer it again if the machine was short of it for other reasons"
        }
        FaultKind::IllegalAddress
        | FaultKind::MisalignedAddress
        | FaultKind::IllegalInstruction
        | FaultKind::ArithmeticException
        | FaultKind::StackOverflow
        | FaultKind::Assert
        | FaultKind::Trap
        | FaultKind::BarrierDivergence
        | FaultKind::Race
        | FaultKind::UninitialisedMemory
        | FaultKind::ForbiddenCall
        | FaultKind::Other => {
            "a kernel must not end the process, call the system or write outside its buffers"
        }
    };
    let code = "launch/worker-ended";
    let mut outcome = outcome(Status::RuntimeError, Stage::Validate, Blame::Candidate, code, message, hint);
    if let Some(cause) = &mut outcome.cause {
        cause.fault = Some(fault);
        cause.vendor_code = Some(vendor);
    }
    Failure::new(outcome)
}

/// Loading ran the candidate's initialisers, and they did not end.
pub(super) fn loading_timeout(limit: Milliseconds) -> Failure {
    let message = format!("loading the candidate did not finish within {} ms (timed out)", limit.0);
    let hint = "look for a static initialiser that does not end";
    let code = "launch/load-time-limit";
    Failure::new(outcome(Status::Timeout, Stage::Validate, Blame::Candidate, code, message, hint))
}

/// The artefact could not be loaded into the worker.
pub(super) fn loading(text: &str) -> Failure {
    let message = format!("the compiled candidate cannot be loaded: {text}");
    let hint = "remove initialisers and references that need more than the kernel itself";
    Failure::new(outcome(
        Status::LaunchError,
        Stage::Validate,
        Blame::Candidate,
        "launch/load",
        message,
        hint,
    ))
}

/// A canary beside a buffer changed.
pub(super) fn overrun(memory: MemoryPlace, case: String) -> Failure {
    let MemoryPlace { buffer, offset, size, .. } = &memory;
    let message = match u64::try_from(*offset) {
        Ok(offset) => format!(
            "out of bounds: write at byte {offset}, {} bytes past the end of `{buffer}` ({size} bytes)",
            offset.saturating_sub(*size)
        ),
        Err(_) => {
            format!("out of bounds: write {} bytes before the start of `{buffer}`", offset.unsigned_abs())
        }
    };
    let hint = "check the bounds of the index";
    let mut outcome = outcome(
        Status::ContractViolation,
        Stage::Validate,
        Blame::Candidate,
        "launch/out-of-bounds",
        message,
        hint,
    );
    if let Some(cause) = &mut outcome.cause {
        cause.case = Some(case);
        cause.memory = Some(memory);
    }
    Failure::new(outcome)
}

/// Code for this architecture does not run on this machine.
pub(super) fn architecture(architecture: &Architecture) -> Failure {
    let message = format!("this machine does not run code for {architecture}");
    let hint = "offer it to a device class of this machine's levels";
    unsupported(UnsupportedReason::Toolchain, architecture.name(), message, hint, None)
}
