//! Waiting for a condition: polls until it holds or the deadline is over, and then says what was waited for.

use std::time::{Duration, Instant};

/// Longest pause between two looks.
const PAUSE: Duration = Duration::from_millis(40);

/// Calls `look` until it gives something. Panics with `what` when `within` is over.
#[expect(clippy::disallowed_methods, reason = "the harness waits for real processes")]
pub fn until<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < within, "waited {within:?} in vain for {what}");
        std::thread::sleep(PAUSE);
    }
}
