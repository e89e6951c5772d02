//! The only reader of time in this package.

use std::time::{Duration, Instant};

/// Monotonic time since this clock was made: leases and timeouts.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the room that reads the clock")]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Wall time for people, RFC 3339 in UTC with seconds. Nothing is ordered by it.
pub fn wall_rfc3339() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Wall time in milliseconds since 1970, for expiries that people set.
pub fn wall_unix_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}
