//! What a fault in a worker means: which buffer, how far off, which thread, which line.

use super::control::{Control, GUARD_BYTES, access, stop};
use super::failure;
use crate::backend::{Buffer, BufferUse, Failure};
use fleet_config::domain::{Blame, FaultKind, LaunchPlace, MemoryPlace, Role, SourcePlace, Stage, Status};
use std::sync::atomic::{AtomicU32, Ordering};

/// A worker's report, read once: the page may change while it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub kind: u32,
    pub signal: i32,
    pub code: i32,
    pub access: u32,
    pub line: u32,
    pub detail: [u32; 2],
    pub place: LaunchPlace,
    pub address: u64,
    /// Offset in the artefact.
    pub instruction: Option<u64>,
    pub shared: [u64; 2],
    pub stack: [u64; 2],
    pub stack_pointer: u64,
}

impl Report {
    /// Copies the record out of the control page.
    pub(super) fn read(control: &Control) -> Self {
        let fault = &control.fault;
        let word = |value: &AtomicU32| value.load(Ordering::Relaxed);
        let instruction = fault.instruction.load(Ordering::Relaxed);
        Self {
            kind: word(&fault.kind),
            signal: word(&fault.signal).cast_signed(),
            code: word(&fault.code).cast_signed(),
            access: word(&fault.access),
            line: word(&fault.line),
            detail: fault.detail.each_ref().map(word),
            place: LaunchPlace {
                block: fault.block.each_ref().map(word),
                thread: fault.thread.each_ref().map(word),
            },
            address: fault.address.load(Ordering::Relaxed),
            instruction: (instruction != u64::MAX).then_some(instruction),
            shared: fault.shared.each_ref().map(|value| value.load(Ordering::Relaxed)),
            stack: fault.stack.each_ref().map(|value| value.load(Ordering::Relaxed)),
            stack_pointer: fault.stack_pointer.load(Ordering::Relaxed),
        }
    }
}

/// A buffer where the worker mapped it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located<'a> {
    pub buffer: &'a Buffer,
    pub address: u64,
}

/// The outcome of a faulted launch. `main` is the file that bare line numbers belong to.
pub(super) fn explain(
    report: &Report,
    buffers: &[Located<'_>],
    case: &str,
    main: &str,
    source: Option<SourcePlace>,
) -> Failure {
    let verdict = if report.kind == stop::SIGNAL { signal(report, buffers) } else { stopped(report) };
    let bare = (report.line > 0).then(|| SourcePlace { file: main.to_owned(), line: report.line, column: 0 });
    let source = source.or(bare);
    let LaunchPlace { block, thread } = report.place;
    let mut message = format!("{}; block {}, thread {}", verdict.message, triple(block), triple(thread));
    if let Some(place) = &source {
        message = format!("{message}, {}:{}", place.file, place.line);
    }
    let mut outcome = failure::outcome(
        verdict.status,
        Stage::Validate,
        Blame::Candidate,
        verdict.code,
        message,
        verdict.hint,
    );
    if let Some(cause) = &mut outcome.cause {
        cause.fault = Some(verdict.fault);
        cause.vendor_code = verdict.vendor;
        cause.case = Some(case.to_owned());
        cause.source = source;
        cause.memory = verdict.memory;
    }
    Failure::new(outcome)
}

fn triple(index: [u32; 3]) -> String {
    format!("({},{},{})", index[0], index[1], index[2])
}

struct Verdict {
    status: Status,
    code: &'static str,
    fault: FaultKind,
    message: String,
    hint: &'static str,
    vendor: Option<String>,
    memory: Option<MemoryPlace>,
}

fn runtime(fault: FaultKind, message: String, hint: &'static str) -> Verdict {
    let status = Status::RuntimeError;
    Verdict { status, code: "launch/fault", fault, message, hint, vendor: None, memory: None }
}

/// The runtime of the shim gave up.
fn stopped(report: &Report) -> Verdict {
    let [waiting, alive] = report.detail;
    let barrier = "every thread of a block must reach the same __syncthreads, and every lane of a mask the same operation";
    let masks = |verdict: Verdict| Verdict { code: "launch/shuffle-mask", ..verdict };
    match report.kind {
        // Nobody is at a barrier: all wait in warp operations.
        stop::DEADLOCK if waiting == 0 => masks(runtime(
            FaultKind::BarrierDivergence,
            format!("deadlock: all of {alive} threads wait in warp operations for lanes that do not come"),
            "name in the mask the lanes that reach the operation, and no others",
        )),
        stop::DEADLOCK => runtime(
            FaultKind::BarrierDivergence,
            format!("deadlock: {waiting} of {alive} threads wait at a barrier that the others do not reach"),
            barrier,
        ),
        stop::MIXED_BARRIERS => runtime(
            FaultKind::BarrierDivergence,
            format!(
                "divergent __syncthreads: {waiting} of {alive} threads met at barriers of different lines"
            ),
            barrier,
        ),
        stop::BAD_MASK => masks(runtime(
            FaultKind::BarrierDivergence,
            "a warp operation was called by a lane that its mask does not name".to_owned(),
            "name every calling lane in the mask",
        )),
        stop::ASSERTION => runtime(FaultKind::Assert, "assertion failed".to_owned(), "correct the kernel"),
        stop::TRAP => runtime(FaultKind::Trap, "the kernel executed __trap".to_owned(), "correct the kernel"),
        // The page may hold anything: a candidate can write to it.
        _ => runtime(
            FaultKind::Other,
            "the kernel stopped for an unknown reason".to_owned(),
            "correct the kernel",
        ),
    }
}

fn signal(report: &Report, buffers: &[Located<'_>]) -> Verdict {
    let name = signal_name(report.signal);
    let mut verdict = match report.signal {
        libc::SIGSEGV | libc::SIGBUS => memory(report, buffers),
        libc::SIGFPE => runtime(
            FaultKind::ArithmeticException,
            "integer division by zero or overflow".to_owned(),
            "guard the division",
        ),
        libc::SIGILL => runtime(
            FaultKind::IllegalInstruction,
            "illegal instruction".to_owned(),
            "look for undefined behaviour, such as a function without a return",
        ),
        libc::SIGTRAP => runtime(FaultKind::Trap, "the kernel trapped".to_owned(), "correct the kernel"),
        libc::SIGSYS => runtime(
            FaultKind::ForbiddenCall,
            "the kernel made a system call that is forbidden here".to_owned(),
            "a kernel must not call the system",
        ),
        _ => runtime(FaultKind::Other, format!("the kernel was ended by {name}"), "correct the kernel"),
    };
    verdict.vendor = Some(name);
    verdict
}

/// Local variables of one function that a fault is still attributed to.
const FRAME_MAX: u64 = 4 << 20;

fn memory(report: &Report, buffers: &[Located<'_>]) -> Verdict {
    const SI_KERNEL: i32 = 0x80;
    if report.signal == libc::SIGSEGV && report.code == SI_KERNEL {
        return runtime(
            FaultKind::MisalignedAddress,
            "misaligned or non-canonical address".to_owned(),
            "a vector of 16 bytes must lie at a multiple of 16",
        );
    }
    let verb = match report.access {
        access::WRITE => "write",
        access::READ => "read",
        _ => "access",
    };
    // A frame larger than the guard jumps over it, so the stack pointer is asked too. Where the kernel placed the
    // stacks just above the dynamic shared memory, both explain the address: the nearer one is it.
    let (low, high) = (report.shared[0], report.shared[1]);
    let past_shared = report.address.checked_sub(high).filter(|past| high > 0 && *past < GUARD_BYTES as u64);
    let from_stack = report.address.abs_diff(report.stack_pointer);
    let nearer_to_shared = past_shared.is_some_and(|past| past < from_stack);
    if report.address < report.stack[0] && from_stack <= FRAME_MAX && !nearer_to_shared {
        let message = "stack overflow: the local variables of a thread do not fit its stack".to_owned();
        return runtime(FaultKind::StackOverflow, message, "make local arrays smaller");
    }
    if let Some(found) = nearest(report.address, buffers) {
        return in_buffer(report, found, verb);
    }
    if let Some(past) = past_shared {
        let message = format!(
            "out of bounds: {verb} {} bytes past the end of the dynamic shared memory of {} bytes",
            past + 1,
            high.saturating_sub(low)
        );
        return runtime(FaultKind::IllegalAddress, message, "check the index, or ask for more shared memory");
    }
    let message = format!("illegal address {:#x}: {verb} in no buffer", report.address);
    runtime(FaultKind::IllegalAddress, message, "check pointers and indices")
}

/// A fault in a buffer or its guards breaks the contract that the task states.
fn in_buffer(report: &Report, found: Located<'_>, verb: &str) -> Verdict {
    let Located { buffer, address } = found;
    let offset = i64::try_from(i128::from(report.address) - i128::from(address)).unwrap_or(i64::MAX);
    let size = buffer.bytes;
    let name = &buffer.name;
    let (code, message, hint) = if offset < 0 {
        let message =
            format!("out of bounds: {verb} {} bytes before the start of `{name}`", offset.unsigned_abs());
        ("launch/out-of-bounds", message, "check the lower bound of the index")
    } else if offset.unsigned_abs() < size {
        let message = format!("write to `{name}` at byte {offset}: an input may not be modified");
        ("launch/input-written", message, "write to outputs and scratch only")
    } else {
        let past = offset.unsigned_abs() - size;
        let message = format!(
            "out of bounds: {verb} at byte {offset}, {past} bytes past the end of `{name}` ({size} bytes)"
        );
        ("launch/out-of-bounds", message, "check the upper bound of the index")
    };
    let memory = MemoryPlace { buffer: name.clone(), offset, size, place: Some(report.place) };
    Verdict {
        status: Status::ContractViolation,
        code,
        fault: FaultKind::IllegalAddress,
        message,
        hint,
        vendor: None,
        memory: Some(memory),
    }
}

/// The buffer that `address` lies in or in whose guards it lies.
fn nearest<'a>(address: u64, buffers: &[Located<'a>]) -> Option<Located<'a>> {
    let guard = GUARD_BYTES as u64;
    let distance = |located: &Located<'_>| {
        let end = located.address.saturating_add(located.buffer.bytes);
        if address < located.address {
            located.address - address
        } else {
            address.saturating_add(1).saturating_sub(end)
        }
    };
    buffers
        .iter()
        .filter(|located| located.address != 0 && distance(located) <= guard)
        .min_by_key(|l| distance(l))
        .copied()
}

/// The usual name of a signal.
pub(super) fn signal_name(signal: i32) -> String {
    match signal {
        libc::SIGSEGV => "SIGSEGV".to_owned(),
        libc::SIGBUS => "SIGBUS".to_owned(),
        libc::SIGFPE => "SIGFPE".to_owned(),
        libc::SIGILL => "SIGILL".to_owned(),
        libc::SIGABRT => "SIGABRT".to_owned(),
        libc::SIGTRAP => "SIGTRAP".to_owned(),
        libc::SIGSYS => "SIGSYS".to_owned(),
        libc::SIGKILL => "SIGKILL".to_owned(),
        libc::SIGXCPU => "SIGXCPU".to_owned(),
        other => format!("signal {other}"),
    }
}

/// Whether kernels may write to `use_`.
pub(super) fn is_read_only(use_: BufferUse) -> bool {
    match use_ {
        BufferUse::Parameter(Role::In) => true,
        BufferUse::Parameter(Role::Out | Role::Inout) | BufferUse::Scratch => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::ElementType;

    fn report(signal: i32, address: u64) -> Report {
        Report {
            kind: stop::SIGNAL,
            signal,
            code: 1,
            access: access::WRITE,
            line: 0,
            detail: [0; 2],
            place: LaunchPlace { block: [0; 3], thread: [0; 3] },
            address,
            instruction: None,
            shared: [0; 2],
            stack: [0; 2],
            stack_pointer: 0,
        }
    }

    #[test]
    fn no_report_of_a_hostile_worker_makes_the_supervisor_fail() {
        let buffer = Buffer {
            name: "x".to_owned(),
            use_: BufferUse::Scratch,
            element: ElementType::F32,
            bytes: u64::MAX,
        };
        let edges = [0, 1, 4096, u64::MAX / 2, u64::MAX - 1, u64::MAX];
        for address in edges {
            for other in edges {
                let mut hostile = report(libc::SIGSEGV, address);
                (hostile.shared, hostile.stack) = ([address, other], [other, address]);
                hostile.stack_pointer = other;
                hostile.detail = [u32::MAX; 2];
                let located = [Located { buffer: &buffer, address: other }];
                for kind in [stop::SIGNAL, stop::DEADLOCK, stop::MIXED_BARRIERS, 77] {
                    hostile.kind = kind;
                    let failure = explain(&hostile, &located, "case", "main.cu", None);
                    assert_ne!(failure.outcome.status, Status::Ok);
                    explain(&hostile, &[], "case", "main.cu", None);
                }
            }
        }
    }

    #[test]
    fn the_nearer_of_stack_and_shared_memory_explains_a_fault_between_them() {
        let high = 1 << 30;
        let mut fault = report(libc::SIGSEGV, high);
        (fault.shared, fault.stack) = ([high - 256, high], [high + (1 << 20), high + (2 << 20)]);
        fault.stack_pointer = high + (1 << 20) + 60_000;
        let cause = |fault: &Report| explain(fault, &[], "c", "m", None).outcome.cause.unwrap();
        assert!(cause(&fault).message.contains("dynamic shared memory of 256 bytes"));
        fault.address = high + 500_000;
        fault.stack_pointer = fault.address - 64;
        assert_eq!(cause(&fault).fault, Some(FaultKind::StackOverflow));
    }

    #[test]
    fn faults_far_from_every_buffer_are_not_blamed_on_one() {
        let buffer =
            Buffer { name: "x".to_owned(), use_: BufferUse::Scratch, element: ElementType::F32, bytes: 400 };
        let located = [Located { buffer: &buffer, address: 1 << 30 }];
        let near = explain(&report(libc::SIGSEGV, (1 << 30) + 404), &located, "c", "m", None);
        assert_eq!(near.outcome.status, Status::ContractViolation);
        let far = explain(&report(libc::SIGSEGV, 2 << 30), &located, "c", "m", None);
        assert_eq!(far.outcome.status, Status::RuntimeError);
    }
}
