//! Which node is connected by which connection, and what was counted.

use super::event::ConnectionId;
use super::limits;
use fleet_config::domain::NodeId;
use fleet_config::wire::close::CloseCode;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// Counts since the start, for metrics.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) handshakes_failed: AtomicU64,
    pub(super) connections_refused: AtomicU64,
    pub(super) joins_refused: AtomicU64,
    pub(super) joined: AtomicU64,
    pub(super) replaced: AtomicU64,
    pub(super) bad_frames: AtomicU64,
    pub(super) bad_blobs: AtomicU64,
    pub(super) reports: AtomicU64,
    pub(super) blobs_served: AtomicU64,
}

/// A snapshot of [`Counters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterValues {
    pub handshakes_failed: u64,
    pub connections_refused: u64,
    pub joins_refused: u64,
    pub joined: u64,
    pub replaced: u64,
    pub bad_frames: u64,
    pub bad_blobs: u64,
    pub reports: u64,
    pub blobs_served: u64,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
    /// All counts now.
    pub fn values(&self) -> CounterValues {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CounterValues {
            handshakes_failed: read(&self.handshakes_failed),
            connections_refused: read(&self.connections_refused),
            joins_refused: read(&self.joins_refused),
            joined: read(&self.joined),
            replaced: read(&self.replaced),
            bad_frames: read(&self.bad_frames),
            bad_blobs: read(&self.bad_blobs),
            reports: read(&self.reports),
            blobs_served: read(&self.blobs_served),
        }
    }
}

/// Connected nodes. The lock is held for map operations only.
#[derive(Debug, Default)]
pub(super) struct Registry {
    nodes: Mutex<BTreeMap<NodeId, Entry>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    id: ConnectionId,
    connection: quinn::Connection,
    /// Closed when the session has sent its `Lost`.
    ended: watch::Receiver<()>,
}

/// Held by a session as long as it may still send events.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) id: ConnectionId,
    _alive: watch::Sender<()>,
}

impl Registry {
    /// Seats a new connection of `node`; an earlier one is closed and its end awaited first.
    pub(super) async fn seat(
        &self,
        node: NodeId,
        connection: &quinn::Connection,
        counters: &Counters,
    ) -> Seat {
        let id = ConnectionId(self.next.fetch_add(1, Ordering::Relaxed));
        let (alive, ended) = watch::channel(());
        let entry = Entry { id, connection: connection.clone(), ended };
        let earlier = self.lock().insert(node, entry);
        if let Some(mut earlier) = earlier {
            Counters::add(&counters.replaced);
            earlier.connection.close(CloseCode::Replaced.number().into(), b"replaced by a newer connection");
            // The channel carries nothing: an error means that the session has ended, which is what is awaited.
            let ended = tokio::time::timeout(limits::REPLACE_WITHIN, earlier.ended.changed()).await;
            if ended.is_err() {
                tracing::warn!(%node, "the replaced session is slow to end");
            }
        }
        Seat { id, _alive: alive }
    }

    /// Forgets the connection `id` of `node`, unless a newer one has its place.
    pub(super) fn leave(&self, node: NodeId, id: ConnectionId) {
        let mut nodes = self.lock();
        if nodes.get(&node).is_some_and(|entry| entry.id == id) {
            nodes.remove(&node);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<NodeId, Entry>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
