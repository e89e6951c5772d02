//! Fault points: named moments at which a kill test lets the process die.
//!
//! `MUSTER_FAULT=<point>[:n[:stop]]` aborts the process at the n-th time that it reaches the point (n counts from 1);
//! with `stop` it is stopped as by SIGSTOP instead, until somebody continues it.
//! Builds without debug assertions honour it only with the feature `faults`, so that no released binary can be
//! stopped by its environment.

use std::fmt;

/// Declares the points with the names that `MUSTER_FAULT` takes.
macro_rules! fault_points {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// A moment between two durable steps.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultPoint {
            $($(#[$doc])* $variant,)*
        }

        impl FaultPoint {
            /// Every point, in the order in which a record passes them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name that `MUSTER_FAULT` takes.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

fault_points! {
    /// A journal fact is encoded, nothing of it is in the file.
    JournalBeforeWrite = "journal-before-write";
    /// A journal fact is written and not synced.
    JournalAfterWrite = "journal-after-write";
    /// A journal fact is durable and nobody was told.
    JournalAfterSync = "journal-after-sync";
    /// A batch is encoded, nothing of it is in the WAL.
    WalBeforeWrite = "wal-before-write";
    /// A batch is written to the WAL and not synced.
    WalAfterWrite = "wal-after-write";
    /// A batch is committed and nobody was told.
    WalAfterSync = "wal-after-sync";
    /// Committed entries are about to be integrated.
    IntegrateBeforeBundles = "integrate-before-bundles";
    /// Entry bundles are written, tiles are not.
    IntegrateAfterBundles = "integrate-after-bundles";
    /// Tiles are written; their directories are not synced.
    IntegrateAfterTiles = "integrate-after-tiles";
    /// Bundles and tiles are durable; the checkpoint is the old one.
    IntegrateBeforeCheckpoint = "integrate-before-checkpoint";
    /// The new checkpoint is durable; superseded partial tiles and the WAL prefix are still there.
    IntegrateAfterCheckpoint = "integrate-after-checkpoint";
    /// Superseded partial tiles are gone; the WAL still holds what the checkpoint covers.
    WalBeforeTrim = "wal-before-trim";
    /// The WAL holds nothing that the checkpoint covers.
    WalAfterTrim = "wal-after-trim";
    /// A node has signed a result and kept nothing of it.
    NodeBeforeOutbox = "node-before-outbox";
    /// A signed result is durable at its node and nobody was told.
    NodeAfterOutbox = "node-after-outbox";
    /// A result is acknowledged and still in the outbox of its node.
    NodeAfterAcknowledgement = "node-after-acknowledgement";
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Says that the process is at `point`. Does nothing unless a kill test asked for a fault here.
#[inline]
pub fn reach(point: FaultPoint) {
    #[cfg(test)]
    observer::call(point);
    #[cfg(any(debug_assertions, feature = "faults"))]
    armed::reach(point);
    #[cfg(not(any(debug_assertions, feature = "faults")))]
    let _ = point;
}

#[cfg(any(debug_assertions, feature = "faults"))]
mod armed {
    use super::FaultPoint;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// What happens at the point.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Fault {
        Abort,
        Stop,
    }

    /// The fault of this process, and how often its point was reached.
    struct Armed {
        point: FaultPoint,
        nth: u64,
        fault: Fault,
        reached: AtomicU64,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    pub(super) fn reach(point: FaultPoint) {
        let Some(armed) = ARMED.get_or_init(from_environment) else { return };
        if armed.point == point && armed.reached.fetch_add(1, Ordering::SeqCst) + 1 == armed.nth {
            tracing::error!(%point, nth = armed.nth, fault = ?armed.fault, "fault point reached");
            match armed.fault {
                Fault::Abort => std::process::abort(),
                Fault::Stop => stop(),
            }
        }
    }

    fn stop() {
        let own = rustix::process::getpid();
        if let Err(error) = rustix::process::kill_process(own, rustix::process::Signal::STOP) {
            tracing::error!(%error, "this process cannot be stopped, aborting");
            std::process::abort();
        }
    }

    fn from_environment() -> Option<Armed> {
        let text = std::env::var("MUSTER_FAULT").ok()?;
        let Some((point, nth, fault)) = parse(&text) else {
            // A kill test whose fault never fires would pass for the wrong reason.
            tracing::error!(%text, "MUSTER_FAULT names no fault point, aborting");
            std::process::abort();
        };
        Some(Armed { point, nth, fault, reached: AtomicU64::new(0) })
    }

    pub(super) fn parse(text: &str) -> Option<(FaultPoint, u64, Fault)> {
        let (name, rest) = text.split_once(':').unwrap_or((text, "1"));
        let (nth, fault) = match rest.split_once(':') {
            None => (rest, Fault::Abort),
            Some((nth, "stop")) => (nth, Fault::Stop),
            Some(_) => return None,
        };
        let nth = nth.parse().ok().filter(|nth| *nth > 0)?;
        FaultPoint::ALL.iter().find(|point| point.name() == name).map(|point| (*point, nth, fault))
    }
}

/// Lets a test of this crate look at the disk at every fault point without dying there.
#[cfg(test)]
pub(crate) mod observer {
    use super::FaultPoint;
    use std::cell::RefCell;

    type Observer = Box<dyn FnMut(FaultPoint)>;

    thread_local! {
        static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
    }

    /// Calls `observer` at every fault point that this thread reaches, until [`clear`].
    pub(crate) fn set(observer: impl FnMut(FaultPoint) + 'static) {
        OBSERVER.with(|slot| *slot.borrow_mut() = Some(Box::new(observer)));
    }

    pub(crate) fn clear() {
        OBSERVER.with(|slot| *slot.borrow_mut() = None);
    }

    pub(super) fn call(point: FaultPoint) {
        OBSERVER.with(|slot| {
            if let Some(observer) = slot.borrow_mut().as_mut() {
                observer(point);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_named_by_point_and_count() {
        use armed::Fault::{Abort, Stop};
        assert_eq!(armed::parse("wal-after-sync"), Some((FaultPoint::WalAfterSync, 1, Abort)));
        assert_eq!(armed::parse("journal-before-write:3"), Some((FaultPoint::JournalBeforeWrite, 3, Abort)));
        assert_eq!(armed::parse("node-after-outbox:2:stop"), Some((FaultPoint::NodeAfterOutbox, 2, Stop)));
        for wrong in
            ["", "wal", "wal-after-sync:", "wal-after-sync:0", "wal-after-sync:x", ":1", "wal-after-sync:1:x"]
        {
            assert_eq!(armed::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> = FaultPoint::ALL.iter().map(|point| point.name()).collect();
        assert_eq!(names.len(), FaultPoint::ALL.len());
    }
}
