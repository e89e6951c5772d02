//! Faults in a worker: a handler that writes what it knows to the control page and ends the process.

use super::control::{Control, access, status, stop};
use super::runtime::{Place, Where};
use rustix::thread::futex;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static CONTROL: AtomicPtr<Control> = AtomicPtr::new(null_mut());
static WHERE: AtomicUsize = AtomicUsize::new(0);
static BASE: AtomicUsize = AtomicUsize::new(0);

/// The handler must run even when a fiber has used up its stack.
const HANDLER_STACK: usize = 64 * 1024;
/// Instructions further than this from the library's start are not in it.
const LIBRARY_MAX: usize = 256 << 20;
/// Exit code of a worker that has reported why it ends.
pub(super) const REPORTED: i32 = 70;

const CAUGHT: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];

/// Installs the handlers; `control` must live as long as the process.
pub(super) fn install(control: &'static Control) -> bool {
    CONTROL.store(std::ptr::from_ref(control).cast_mut(), Ordering::Release);
    CAUGHT.iter().all(|signal| {
        // SAFETY: the structure is zeroed and then filled; the handler only calls what is safe in one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(*signal, &raw const action, null_mut()) == 0
        }
    })
}

/// Gives the calling thread a stack for the handler; it is never given back.
pub(super) fn prepare_thread() -> bool {
    let memory = Box::leak(vec![0u8; HANDLER_STACK].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: HANDLER_STACK };
    // SAFETY: the memory is leaked, so it stays valid for the thread's whole life.
    unsafe { libc::sigaltstack(&raw const stack, null_mut()) == 0 }
}

/// Tells the handler where the candidate is.
pub(super) fn set_module(place: Where, base: usize) {
    WHERE.store(place as usize, Ordering::Release);
    BASE.store(base, Ordering::Release);
}

/// Called by the shim's runtime when a launch cannot go on.
pub(super) extern "C" fn on_stop(kind: i32, line: i32, waiting: u32, alive: u32) {
    report(|control| {
        control.fault.kind.store(kind.unsigned_abs(), Ordering::Relaxed);
        control.fault.line.store(line.unsigned_abs(), Ordering::Relaxed);
        for (slot, value) in control.fault.detail.iter().zip([waiting, alive]) {
            slot.store(value, Ordering::Relaxed);
        }
    });
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    report(|control| {
        let fault = &control.fault;
        fault.kind.store(stop::SIGNAL, Ordering::Relaxed);
        fault.signal.store(signal.unsigned_abs(), Ordering::Relaxed);
        // SAFETY: the kernel passes valid structures to a handler installed with SA_SIGINFO.
        let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
        fault.code.store(code.cast_unsigned(), Ordering::Relaxed);
        fault.address.store(address, Ordering::Relaxed);
        // SAFETY: as above; the context is a ucontext of this machine.
        let (instruction, stack_pointer, kind) = unsafe { machine(context.cast::<libc::ucontext_t>()) };
        fault.access.store(kind, Ordering::Relaxed);
        fault.stack_pointer.store(stack_pointer as u64, Ordering::Relaxed);
        let base = BASE.load(Ordering::Acquire);
        let inside = instruction.checked_sub(base).filter(|offset| base != 0 && *offset < LIBRARY_MAX);
        fault.instruction.store(inside.map_or(u64::MAX, |offset| offset as u64), Ordering::Relaxed);
    });
}

/// Instruction pointer, stack pointer and kind of access.
#[cfg(target_arch = "x86_64")]
unsafe fn machine(context: *const libc::ucontext_t) -> (usize, usize, u32) {
    const PAGE_FAULT: i64 = 14;
    // SAFETY: the caller passes the context of a signal.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let register = |index: i32| registers.get(index.unsigned_abs() as usize).copied().unwrap_or(0);
    let kind = match (register(libc::REG_TRAPNO), register(libc::REG_ERR) & 2) {
        (PAGE_FAULT, 0) => access::READ,
        (PAGE_FAULT, _) => access::WRITE,
        _ => access::UNKNOWN,
    };
    let word = |index: i32| usize::try_from(register(index).cast_unsigned()).unwrap_or(0);
    (word(libc::REG_RIP), word(libc::REG_RSP), kind)
}

/// Instruction pointer and stack pointer; the kind of access is left out, since it lies in a record that has to be searched for.
#[cfg(target_arch = "aarch64")]
unsafe fn machine(context: *const libc::ucontext_t) -> (usize, usize, u32) {
    // SAFETY: the caller passes the context of a signal.
    let (counter, stack) = unsafe { ((*context).uc_mcontext.pc, (*context).uc_mcontext.sp) };
    (usize::try_from(counter).unwrap_or(0), usize::try_from(stack).unwrap_or(0), access::UNKNOWN)
}

/// Lets the first faulting thread write, publishes its report and ends the process.
fn report(write: impl FnOnce(&Control)) {
    // SAFETY: `install` stored a reference that lives as long as the process.
    let Some(control) = (unsafe { CONTROL.load(Ordering::Acquire).as_ref() }) else {
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(REPORTED) }
    };
    let first = control
        .status
        .compare_exchange(status::GOOD, status::FAULTING, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok();
    if !first {
        loop {
            // Another thread is writing and will end the process.
            std::hint::spin_loop();
        }
    }
    let mut place = Place::default();
    let find = WHERE.load(Ordering::Acquire);
    if find != 0 {
        // SAFETY: `set_module` stored a function of this type.
        unsafe { std::mem::transmute::<usize, Where>(find)(&raw mut place) };
    }
    let fault = &control.fault;
    let words = fault.block.iter().chain(&fault.thread).zip(place.block.iter().chain(&place.thread));
    for (slot, value) in words {
        slot.store(*value, Ordering::Relaxed);
    }
    for (slot, value) in fault.shared.iter().chain(&fault.stack).zip(place.shared.iter().chain(&place.stack))
    {
        slot.store(*value, Ordering::Relaxed);
    }
    write(control);
    control.status.store(status::FAULT, Ordering::Release);
    finish(control, control.ring.load(Ordering::Acquire));
    // SAFETY: ends the process at once, without running anything of the candidate's.
    unsafe { libc::_exit(REPORTED) }
}

/// Answers the ring `rung`.
pub(super) fn finish(control: &Control, rung: u32) {
    control.done.store(rung, Ordering::Release);
    let _ = futex::wake(&control.done, futex::Flags::empty(), 1);
}
