//! Every way in which work on a CUDA device fails, as the outcome it means.

use super::diagnostics::Diagnosis;
use crate::backend::Failure;
use crate::backend::signature::SignatureError;
use fleet_config::domain::{
    Blame, Cause, FaultKind, MemoryPlace, Milliseconds, Outcome, SourcePlace, Stage, Status,
    UnsupportedReason,
};
use std::fmt::Display;

/// What a failure says.
struct Told<'a> {
    status: Status,
    stage: Stage,
    blame: Blame,
    code: &'a str,
    hint: &'a str,
}

impl Told<'_> {
    fn failure(&self, message: impl Into<String>) -> Failure {
        let cause = Cause { code: self.code.to_owned(), message: message.into(), ..Cause::default() };
        Failure::new(Outcome::failed(self.status, self.stage, self.blame, cause, self.hint))
    }
}

/// Changes the cause of a failure.
fn with(mut failure: Failure, change: impl FnOnce(&mut Cause)) -> Failure {
    if let Some(cause) = &mut failure.outcome.cause {
        change(cause);
    }
    failure
}

/// Adds a log, where there is something to add.
pub(super) fn logged(mut failure: Failure, log: &[u8]) -> Failure {
    if !log.is_empty() {
        let joined = failure.log.get_or_insert_with(Vec::new);
        if !joined.is_empty() {
            joined.push(b'\n');
        }
        joined.extend_from_slice(log);
    }
    failure
}

/// The node's own trouble; the scheduler tries again elsewhere.
pub(super) fn infrastructure(stage: Stage, what: &str, error: &dyn Display) -> Failure {
    let code = format!("{}/infrastructure", stage.name());
    let hint = "look at this node's log; the attempt is repeated";
    Told { status: Status::Infrastructure, stage, blame: Blame::Fleet, code: &code, hint }
        .failure(format!("cannot {what}: {error}"))
}

fn rejected(blame: Blame, code: &str, message: impl Into<String>, hint: &str) -> Failure {
    Told { status: Status::Rejected, stage: Stage::Compile, blame, code, hint }.failure(message)
}

/// A flag of the policy that this backend does not pass on.
pub(super) fn flag(flag: &str) -> Failure {
    let message = format!("the policy's compiler flag {flag:?} is not one that this device allows");
    rejected(Blame::Task, "compile/flag", message, "use language flags only")
}

/// The tree has no main file.
pub(super) fn main_missing(main: &str) -> Failure {
    let message = format!("the source tree has no file `{main}`");
    rejected(Blame::Candidate, "compile/main-missing", message, "name an existing file")
}

/// A path that leaves the tree.
pub(super) fn path_outside(path: &str) -> Failure {
    let message = format!("the path `{path}` is not a relative path inside the source tree");
    rejected(Blame::Candidate, "compile/path", message, "use relative paths without `.` and `..`")
}

/// Bytes that must not reach a compiler.
pub(super) fn source_refused(path: &str, what: &str) -> Failure {
    let message = format!("`{path}` {what}");
    rejected(Blame::Candidate, "compile/text", message, "save the file as UTF-8 without NUL")
}

/// What the glue cannot be written for.
pub(super) fn glue(error: &SignatureError) -> Failure {
    match error {
        SignatureError::Name(_) => {
            rejected(Blame::Candidate, "compile/kernel-name", error.to_string(), "correct the launch plan")
        }
        SignatureError::Signature(_) => {
            let hint = "correct the task's signature";
            rejected(Blame::Task, "compile/task-signature", error.to_string(), hint)
        }
    }
}

/// A kernel of the plan that the cubin does not hold.
pub(super) fn entry_missing(message: &str) -> Failure {
    let message = format!("a kernel that the launch plan names is not defined: {message}");
    rejected(Blame::Candidate, "compile/entry-missing", message, "define every kernel of the launch plan")
}

fn unsupported(stage: Stage, code: &str, reason: UnsupportedReason, message: String, hint: &str) -> Failure {
    let told = Told { status: Status::UnsupportedOnDevice, stage, blame: Blame::Device, code, hint };
    with(told.failure(message), |cause| cause.unsupported = Some(reason))
}

/// No compiler here makes code for this architecture.
pub(super) fn toolchain(message: String) -> Failure {
    let hint = "offer it to another device class, or install an NVRTC that knows this architecture";
    unsupported(Stage::Compile, "compile/toolchain", UnsupportedReason::Toolchain, message, hint)
}

/// The one toolchain that the policy names is not installed here.
pub(super) fn toolchain_pinned(message: String) -> Failure {
    let hint = "install that toolchain on the nodes of this class, or submit without pinning one";
    unsupported(Stage::Compile, "compile/toolchain-pinned", UnsupportedReason::Toolchain, message, hint)
}

/// The compiler did not finish in time.
pub(super) fn compile_timeout(limit: Milliseconds) -> Failure {
    let told = Told {
        status: Status::CompileTimeout,
        stage: Stage::Compile,
        blame: Blame::Candidate,
        code: "compile/time-limit",
        hint: "make the source smaller, or raise the task's compile limit",
    };
    told.failure(format!("compiling did not finish within its time limit of {limit}"))
}

/// What the compiler's log says.
pub(super) fn diagnosis(diagnosis: Diagnosis, log: &str) -> Failure {
    let failure = match diagnosis {
        Diagnosis::Unsupported { reason, message, hint, place } => {
            let failure =
                unsupported(Stage::Compile, "compile/unsupported", reason, at(message, place.as_ref()), hint);
            with(failure, |cause| cause.source = place)
        }
        Diagnosis::Signature { kernel } => {
            let message = format!("the signature of `{kernel}` differs from the task's");
            let hint = "declare the kernel exactly as the task's signature does";
            rejected(Blame::Candidate, "compile/signature", message, hint)
        }
        Diagnosis::EntryMissing { message } => entry_missing(&message),
        Diagnosis::Error { message, place } => {
            let told = Told {
                status: Status::CompileError,
                stage: Stage::Compile,
                blame: Blame::Candidate,
                code: "compile/error",
                hint: "correct the first error; the log has the rest",
            };
            with(told.failure(at(message, place.as_ref())), |cause| cause.source = place)
        }
    };
    logged(failure, log.as_bytes())
}

/// `file:line: message`.
fn at(message: String, place: Option<&SourcePlace>) -> String {
    match place {
        Some(SourcePlace { file, line, column: _ }) => format!("{file}:{line}: {message}"),
        None => message,
    }
}

/// Geometry or arguments that no launch accepts.
pub(super) fn launch(code: &str, message: impl Into<String>) -> Failure {
    let told = Told {
        status: Status::LaunchError,
        stage: Stage::Validate,
        blame: Blame::Candidate,
        code,
        hint: "correct the launch plan",
    };
    told.failure(message)
}

/// More than this device, or this backend, has.
pub(super) fn launch_unsupported(reason: UnsupportedReason, message: String) -> Failure {
    let hint = "offer it to another device class";
    unsupported(Stage::Validate, "launch/unsupported", reason, message, hint)
}

/// Buffers beyond the granted memory.
pub(super) fn out_of_memory(message: String) -> Failure {
    let told = Told {
        status: Status::OutOfMemory,
        stage: Stage::Validate,
        blame: Blame::Candidate,
        code: "launch/memory",
        hint: "use smaller cases or less scratch memory",
    };
    told.failure(message)
}

/// A launch that did not end.
pub(super) fn timeout(limit: Milliseconds, case: &str) -> Failure {
    let told = Told {
        status: Status::Timeout,
        stage: Stage::Validate,
        blame: Blame::Candidate,
        code: "launch/time-limit",
        hint: "look for a loop that does not end, or raise the task's launch limit",
    };
    let failure = told.failure(format!("the launch did not finish within its time limit of {limit}"));
    with(failure, |cause| cause.case = Some(case.to_owned()))
}

/// The device stopped the kernel.
pub(super) fn fault(kind: FaultKind, vendor: String, case: &str) -> Failure {
    let told = Told {
        status: Status::RuntimeError,
        stage: Stage::Validate,
        blame: Blame::Candidate,
        code: "launch/fault",
        hint: "check the bounds and alignment of every access",
    };
    let failure = told.failure(format!("the kernel was stopped by the device: {vendor}"));
    with(failure, |cause| {
        cause.fault = Some(kind);
        cause.vendor_code = Some(vendor);
        cause.case = Some(case.to_owned());
    })
}

/// The worker's process is gone or does not answer, without proof against the candidate.
pub(super) fn worker_lost(stage: Stage, message: String) -> Failure {
    let told = Told {
        status: Status::WorkerLost,
        stage,
        blame: Blame::Fleet,
        code: "launch/worker-lost",
        hint: "the attempt is repeated; the log has what the worker said",
    };
    told.failure(message)
}

/// Nobody waits for the result any more.
pub(super) fn interrupted(stage: Stage) -> Failure {
    infrastructure(stage, "go on", &"the attempt was cancelled")
}

/// The events and the supervisor's own clock cannot both be right.
pub(super) fn clocks_disagree(message: String) -> Failure {
    let told = Told {
        status: Status::Suspicious,
        stage: Stage::Time,
        blame: Blame::Nobody,
        code: "launch/clocks-disagree",
        hint: "measure again on another device",
    };
    told.failure(message)
}

/// Bytes beside a buffer changed.
pub(super) fn overrun(memory: MemoryPlace, case: &str) -> Failure {
    let MemoryPlace { buffer, offset, size, place: _ } = &memory;
    let message = match u64::try_from(*offset) {
        Ok(offset) => format!(
            "out of bounds: write at byte {offset}, {} bytes past the end of `{buffer}` ({size} bytes)",
            offset.saturating_sub(*size)
        ),
        Err(_) => {
            format!("out of bounds: write {} bytes before the start of `{buffer}`", offset.unsigned_abs())
        }
    };
    let told = Told {
        status: Status::ContractViolation,
        stage: Stage::Validate,
        blame: Blame::Candidate,
        code: "launch/out-of-bounds",
        hint: "check the bounds of the index",
    };
    with(told.failure(message), |cause| {
        cause.case = Some(case.to_owned());
        cause.memory = Some(memory);
    })
}
