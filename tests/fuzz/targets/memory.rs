//! How much memory an input takes: an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts the bytes that are allocated, and the most at any time of a measurement. Threads are counted together.
struct Counting {
    held: AtomicUsize,
    most: AtomicUsize,
}

impl Counting {
    fn add(&self, bytes: usize) {
        let held = self.held.fetch_add(bytes, Relaxed).wrapping_add(bytes);
        self.most.fetch_max(held, Relaxed);
    }
}

// SAFETY: every call is handed on to the system's allocator unchanged; the counters touch no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller's promises about `layout` are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.held.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the pointer came from a function above, and so from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static MEMORY: Counting = Counting { held: AtomicUsize::new(0), most: AtomicUsize::new(0) };

/// The most memory that `run` held at once beyond what was held before. One measurement at a time.
pub(crate) fn of(run: impl FnOnce()) -> usize {
    static TURN: Mutex<()> = Mutex::new(());
    // A target that panicked while it was measured leaves nothing behind that would count.
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = MEMORY.held.load(Relaxed);
    MEMORY.most.store(before, Relaxed);
    run();
    MEMORY.most.load(Relaxed).saturating_sub(before)
}
