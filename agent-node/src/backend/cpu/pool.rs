//! The threads of a worker: blocks over the cores, woken as a tree, so that a launch costs few system calls.

use super::runtime::{Launch, RunBlocks};
use rustix::thread::futex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Most blocks that a thread takes at once: big enough to make the counter cheap, small enough to share the rest.
const CHUNK_MAX: u64 = 64;

/// State of all threads. Thread 0 is the one that calls [`Pool::run`].
pub(super) struct Pool {
    bells: Vec<AtomicU32>,
    participants: AtomicU32,
    /// Threads that have not finished the current launch.
    busy: AtomicU32,
    run: AtomicUsize,
    launch: AtomicPtr<Launch>,
    blocks: AtomicU64,
    next: AtomicU64,
    failed: AtomicBool,
}

impl Pool {
    pub(super) fn new(threads: u32) -> Self {
        Self {
            bells: (0..threads.max(1)).map(|_| AtomicU32::new(0)).collect(),
            participants: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            run: AtomicUsize::new(0),
            launch: AtomicPtr::new(std::ptr::null_mut()),
            blocks: AtomicU64::new(0),
            next: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// Runs all blocks of `launch`; false if a thread had no memory for its stacks.
    pub(super) fn run(&self, run: RunBlocks, launch: &mut Launch, blocks: u64) -> bool {
        let threads = u32::try_from(self.bells.len()).unwrap_or(u32::MAX);
        let participants = u32::try_from(blocks).unwrap_or(u32::MAX).clamp(1, threads);
        self.run.store(run as usize, Ordering::Relaxed);
        self.launch.store(launch, Ordering::Relaxed);
        self.blocks.store(blocks, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.failed.store(false, Ordering::Relaxed);
        self.busy.store(participants - 1, Ordering::Relaxed);
        self.participants.store(participants, Ordering::Release);
        self.wake_children(0, participants);
        self.work();
        loop {
            let busy = self.busy.load(Ordering::Acquire);
            if busy == 0 {
                return !self.failed.load(Ordering::Relaxed);
            }
            let _ = futex::wait(&self.busy, futex::Flags::PRIVATE, busy, None);
        }
    }

    /// The life of thread `index`, which is not 0.
    pub(super) fn serve(&self, index: u32) {
        let Some(bell) = self.bells.get(index as usize) else { return };
        let mut heard = 0;
        loop {
            let rung = bell.load(Ordering::Acquire);
            if rung == heard {
                let _ = futex::wait(bell, futex::Flags::PRIVATE, heard, None);
                continue;
            }
            heard = rung;
            self.wake_children(index, self.participants.load(Ordering::Acquire));
            self.work();
            if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
                let _ = futex::wake(&self.busy, futex::Flags::PRIVATE, 1);
            }
        }
    }

    fn wake_children(&self, index: u32, participants: u32) {
        for child in [2 * index + 1, 2 * index + 2] {
            if child < participants
                && let Some(bell) = self.bells.get(child as usize)
            {
                bell.fetch_add(1, Ordering::Release);
                let _ = futex::wake(bell, futex::Flags::PRIVATE, 1);
            }
        }
    }

    fn work(&self) {
        let blocks = self.blocks.load(Ordering::Relaxed);
        let threads = u64::from(self.participants.load(Ordering::Relaxed)).max(1);
        let chunk = (blocks / (threads * 8)).clamp(1, CHUNK_MAX);
        let launch = self.launch.load(Ordering::Relaxed);
        // SAFETY: `run` stored a pointer of this type before it woke anybody.
        let run: RunBlocks =
            unsafe { std::mem::transmute::<usize, RunBlocks>(self.run.load(Ordering::Relaxed)) };
        loop {
            let first = self.next.fetch_add(chunk, Ordering::Relaxed);
            if first >= blocks {
                return;
            }
            // SAFETY: `launch` lives until `Pool::run` returns, which waits for every participant.
            if unsafe { run(launch, first, blocks.min(first + chunk)) } == 0 {
                self.failed.store(true, Ordering::Relaxed);
            }
        }
    }
}
