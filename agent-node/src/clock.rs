//! The only reader of time in this package.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time since the machine started, from the monotonic clock. All processes of one machine read the same clock, and
/// it never goes back; it stands still while the machine sleeps.
pub fn monotonic() -> Duration {
    since_zero(clock_gettime(ClockId::Monotonic))
}

/// CPU time that this process has used, all threads together.
pub fn process_cpu() -> Duration {
    since_zero(clock_gettime(ClockId::ProcessCPUTime))
}

/// Wall-clock time in RFC 3339, in UTC to the millisecond: for people and records, never for order or leases.
pub fn wall_rfc3339() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// Wall-clock time in whole seconds since 1970, for expiries that are written down.
pub fn wall_seconds() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn since_zero(time: rustix::fs::Timespec) -> Duration {
    // Neither clock is ever negative on Linux; a negative reading would be shown as zero.
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{monotonic, wall_rfc3339, wall_seconds};

    #[test]
    fn the_monotonic_clock_does_not_go_back() {
        let (first, second) = (monotonic(), monotonic());
        assert!(first <= second);
        assert!(!first.is_zero());
    }

    #[test]
    fn wall_time_is_rfc_3339_in_utc_with_milliseconds() {
        let text = wall_rfc3339();
        assert_eq!(text.len(), "2026-11-30T12:00:00.000Z".len(), "{text}");
        assert!(text.ends_with('Z') && text.as_bytes()[10] == b'T', "{text}");
        assert!(wall_seconds() > 1_700_000_000);
    }
}
