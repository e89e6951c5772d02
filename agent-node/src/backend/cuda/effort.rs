//! Where the time of a device's workers goes: sums since the node started, for those who ask what an attempt costs.

use crate::clock;
use fleet_config::domain::{Fact, Facts, field};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a stretch of time was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spent {
    /// From the wish for a worker to one that has a context.
    Open,
    /// Loading modules, making buffers and guard zones.
    Prepare,
    /// Writing, filling, reading, gathering, checking guard zones.
    Copy,
    /// Launches: the stated state of the device, the plan, and the wait for it.
    Launch,
    /// Until an ended worker was gone.
    End,
    /// This node had the device.
    Held,
}

#[derive(Debug, Default)]
struct Sum {
    microseconds: AtomicU64,
    times: AtomicU64,
}

#[derive(Debug, Default)]
struct Sums {
    open: Sum,
    prepare: Sum,
    copy: Sum,
    launch: Sum,
    end: Sum,
    held: Sum,
    adopted: AtomicU64,
}

/// The sums of one device, shared by all who work on it.
#[derive(Debug, Clone, Default)]
pub(super) struct Effort(Arc<Sums>);

impl Effort {
    fn sum(&self, on: Spent) -> &Sum {
        match on {
            Spent::Open => &self.0.open,
            Spent::Prepare => &self.0.prepare,
            Spent::Copy => &self.0.copy,
            Spent::Launch => &self.0.launch,
            Spent::End => &self.0.end,
            Spent::Held => &self.0.held,
        }
    }

    /// Adds the time since `from`, a reading of the monotonic clock.
    pub(super) fn add(&self, on: Spent, from: Duration) {
        let took = clock::monotonic().saturating_sub(from);
        let sum = self.sum(on);
        sum.microseconds.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        sum.times.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker was taken from those that stood by.
    pub(super) fn adopted(&self) {
        self.0.adopted.fetch_add(1, Ordering::Relaxed);
    }

    /// The sums as facts.
    pub(super) fn facts(&self) -> Facts {
        let micros = |on: Spent| Fact::Count(self.sum(on).microseconds.load(Ordering::Relaxed));
        let times = |on: Spent| Fact::Count(self.sum(on).times.load(Ordering::Relaxed));
        Facts::from([
            (field::WORKER_OPENED.to_owned(), times(Spent::Open)),
            (field::WORKER_ADOPTED.to_owned(), Fact::Count(self.0.adopted.load(Ordering::Relaxed))),
            (field::WORKER_OPEN.to_owned(), micros(Spent::Open)),
            (field::WORKER_PREPARE.to_owned(), micros(Spent::Prepare)),
            (field::WORKER_COPY.to_owned(), micros(Spent::Copy)),
            (field::WORKER_LAUNCHES.to_owned(), times(Spent::Launch)),
            (field::WORKER_LAUNCH.to_owned(), micros(Spent::Launch)),
            (field::WORKER_END.to_owned(), micros(Spent::End)),
            (field::LEASE_HELD.to_owned(), micros(Spent::Held)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_time_has_its_own_sum() {
        let effort = Effort::default();
        effort.add(Spent::Launch, Duration::ZERO);
        effort.add(Spent::Launch, clock::monotonic());
        effort.adopted();
        let facts = effort.facts();
        assert_eq!(facts[field::WORKER_LAUNCHES], Fact::Count(2));
        assert_eq!(facts[field::WORKER_ADOPTED], Fact::Count(1));
        assert_eq!(facts[field::WORKER_OPENED], Fact::Count(0));
        assert!(matches!(facts[field::WORKER_LAUNCH], Fact::Count(micros) if micros > 0));
        assert_eq!(facts[field::WORKER_COPY], Fact::Count(0));
    }
}
