//! The page that supervisor and worker share: doorbell, orders, and what the worker says of itself.
//!
//! All fields are atomics, since the other side may change any of them at any time. The supervisor takes from it only
//! that a launch has ended, and diagnosis; nothing here decides whether an output is right.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Most buffers of an evaluation: parameters of a kernel and scratch.
pub(super) const BUFFERS_MAX: usize = 128;
/// As many as a launch plan may have.
pub(super) const STEPS_MAX: usize = 64;
/// Most arguments of a kernel; CUDA limits their bytes to 4 KiB, and longer lists are not written by hand.
pub(super) const ARGUMENTS_MAX: usize = 64;
/// Bytes of a message of the loader.
pub(super) const TEXT_MAX: usize = 240;
/// Bytes that the page takes at the start of the shared file.
pub(super) const CONTROL_BYTES: usize = size_of::<Control>().next_multiple_of(65536);
/// Memory without access on both sides of every buffer.
pub(super) const GUARD_BYTES: usize = 4 << 20;

/// What `command` may say.
pub(super) mod command {
    /// Answer when confined and ready to load.
    pub(in super::super) const GREET: u32 = 0;
    /// Map the buffers that the table names.
    pub(in super::super) const MAP: u32 = 1;
    /// Run the steps.
    pub(in super::super) const RUN: u32 = 2;
    /// Load the artefact, which runs its initialisers: asked once, after the greeting.
    pub(in super::super) const LOAD: u32 = 3;
}

/// What `status` may say.
pub(super) mod status {
    pub(in super::super) const GOOD: u32 = 0;
    /// The fault record is being written.
    pub(in super::super) const FAULTING: u32 = 1;
    pub(in super::super) const FAULT: u32 = 2;
    /// The artefact could not be loaded; `text` has the loader's message.
    pub(in super::super) const LOAD: u32 = 3;
    /// The worker could not confine itself, map memory or make threads; `text` says which. The fleet's trouble in
    /// answer to `GREET` only.
    pub(in super::super) const SETUP: u32 = 4;
    /// A kernel takes another number of arguments: `fault.detail` is (step, arity).
    pub(in super::super) const ARITY: u32 = 5;
}

/// What `fault.kind` may say beside a signal.
pub(super) mod stop {
    pub(in super::super) const DEADLOCK: u32 = 0;
    pub(in super::super) const ASSERTION: u32 = 1;
    pub(in super::super) const TRAP: u32 = 2;
    pub(in super::super) const MIXED_BARRIERS: u32 = 3;
    pub(in super::super) const BAD_MASK: u32 = 4;
    pub(in super::super) const SIGNAL: u32 = 100;
}

/// How an access went wrong, as far as the processor says.
pub(super) mod access {
    pub(in super::super) const UNKNOWN: u32 = 0;
    pub(in super::super) const READ: u32 = 1;
    pub(in super::super) const WRITE: u32 = 2;
}

#[repr(C)]
pub(super) struct Control {
    /// Raised by the supervisor for every command.
    pub ring: AtomicU32,
    /// Set to `ring` by the worker when the command is done.
    pub done: AtomicU32,
    pub status: AtomicU32,
    pub command: AtomicU32,
    pub buffer_count: AtomicU32,
    pub step_count: AtomicU32,
    pub text_length: AtomicU32,
    pub text: [AtomicU8; TEXT_MAX],
    pub fault: FaultSlot,
    pub buffers: [BufferSlot; BUFFERS_MAX],
    pub steps: [StepSlot; STEPS_MAX],
    /// How every launch runs: see [`Arrangement`](super::screen::Arrangement).
    pub order: AtomicU32,
    pub seed: AtomicU32,
    pub shared_poison: AtomicU32,
    pub lane_poison: AtomicU32,
}

impl Control {
    /// What a worker wrote as its text: at most [`TEXT_MAX`] bytes of anything.
    pub(super) fn words(&self) -> String {
        let length = self.text_length.load(Ordering::Relaxed) as usize;
        let bytes: Vec<u8> = self.text.iter().take(length).map(|byte| byte.load(Ordering::Relaxed)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Forgets all that a process before said. `rung` is what the doorbell said last: a fresh worker waits for another.
    pub(super) fn forget(&self, rung: u32) {
        self.status.store(status::GOOD, Ordering::Relaxed);
        self.text_length.store(0, Ordering::Relaxed);
        self.ring.store(rung, Ordering::Relaxed);
        self.done.store(rung, Ordering::Release);
    }
}

#[repr(C)]
pub(super) struct FaultSlot {
    pub kind: AtomicU32,
    pub signal: AtomicU32,
    pub code: AtomicU32,
    pub access: AtomicU32,
    pub line: AtomicU32,
    /// Threads at the barrier and threads alive; or two numbers that `status` explains.
    pub detail: [AtomicU32; 2],
    pub block: [AtomicU32; 3],
    pub thread: [AtomicU32; 3],
    pub address: AtomicU64,
    /// Instruction pointer relative to the artefact; `u64::MAX` outside it.
    pub instruction: AtomicU64,
    pub shared: [AtomicU64; 2],
    pub stack: [AtomicU64; 2],
    pub stack_pointer: AtomicU64,
}

#[repr(C)]
pub(super) struct BufferSlot {
    /// Written by the supervisor: place in the shared file, whole pages.
    pub file_offset: AtomicU64,
    pub mapped_bytes: AtomicU64,
    /// Where the buffer starts in its pages.
    pub start: AtomicU64,
    pub read_only: AtomicU32,
    /// Written by the worker: address of the first byte of the buffer.
    pub address: AtomicU64,
    /// For fills by the plan.
    pub bytes: AtomicU64,
}

#[repr(C)]
pub(super) struct StepSlot {
    /// Entry index, or `u32::MAX` for a fill.
    pub entry: AtomicU32,
    pub grid: [AtomicU32; 3],
    pub block: [AtomicU32; 3],
    pub shared_bytes: AtomicU32,
    pub argument_count: AtomicU32,
    pub buffer: AtomicU32,
    pub byte: AtomicU32,
    pub arguments: [ArgumentSlot; ARGUMENTS_MAX],
}

/// The entry of a step that fills a buffer.
pub(super) const FILL_STEP: u32 = u32::MAX;

#[repr(C)]
pub(super) struct ArgumentSlot {
    /// Index of a buffer, or `u32::MAX` for a scalar.
    pub buffer: AtomicU32,
    pub scalar: AtomicU64,
}

/// The buffer index of an argument that is a scalar.
pub(super) const SCALAR: u32 = u32::MAX;
