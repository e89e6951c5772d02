//! Time as an argument of the steps, so that tests can set it.

use fleet_config::domain::Picoseconds;

/// Time as an argument.
pub trait Clock: Send + Sync {
    /// Monotonic, since the machine started.
    fn now(&self) -> Picoseconds;
    /// RFC 3339 in UTC, for people; order never comes from it.
    fn date(&self) -> String;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Picoseconds {
        Picoseconds::from_duration(crate::clock::monotonic())
    }
    fn date(&self) -> String {
        crate::clock::wall_rfc3339()
    }
}
