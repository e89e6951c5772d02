//! What is tried again, and when: the fleet's own faults only.

use super::limits::{RETRY_BACKOFF, RETRY_BACKOFF_MAX};
use fleet_config::domain::{Blame, Status};
use std::time::Duration;

/// Whether an accepted result leaves its cell open: a retried status without proof against the candidate.
pub fn is_retried(status: Status, blame: Blame) -> bool {
    match blame {
        Blame::Fleet => status.is_retried(),
        Blame::Nobody | Blame::Candidate | Blame::Task | Blame::Device => false,
    }
}

/// How long a cell waits after its `attempts`-th failed attempt.
pub(super) fn backoff(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    (RETRY_BACKOFF * (1 << doublings)).min(RETRY_BACKOFF_MAX)
}
