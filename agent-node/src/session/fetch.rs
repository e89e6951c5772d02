//! Blobs for jobs: from the cache, else from the coordinator, across as many connections as it takes.

use super::blob_cache::{BlobCache, CacheError};
use crate::transport::{self, StreamError};
use fleet_config::domain::{BlobRef, Digest};
use fleet_config::wire::BLOB_MAX;
use fleet_config::wire::v1::{BlobReply, BlobRequest, Opening};
use quinn::Connection;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// Blobs fetched at once: a task with its sources, or a few jobs starting together.
const FETCHES_MAX: usize = 8;

/// Wrong or broken answers of a living connection before a blob is given up.
const FAILURES_MAX: u32 = 3;

/// Bytes hashed and written at once.
const CHUNK: usize = 128 * 1024;

/// A stream that owes bytes and brings none for this long is given up.
const SILENCE: Duration = Duration::from_secs(30);

/// Why a blob cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("the coordinator does not have blob {0}")]
    Missing(Digest),
    #[error("blob {blob} of {size} bytes is larger than any blob may be")]
    TooLarge { blob: Digest, size: u64 },
    #[error("the blob cache failed: {0}")]
    Cache(#[from] CacheError),
    #[error("blob {blob} did not come: {source}")]
    Stream { blob: Digest, source: StreamError },
    #[error("nobody waits for it any more")]
    Cancelled,
    #[error("the session has ended")]
    Ended,
    #[error("a worker thread ended early: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

impl From<std::io::Error> for FetchError {
    fn from(error: std::io::Error) -> Self {
        Self::Cache(error.into())
    }
}

/// Fetches blobs. Clones share the cache and the limits.
#[derive(Debug, Clone)]
pub struct BlobFetcher {
    shared: Arc<Shared>,
    runtime: Handle,
}

#[derive(Debug)]
struct Shared {
    cache: BlobCache,
    links: watch::Receiver<Option<Connection>>,
    permits: Semaphore,
    /// One lock per blob that is being fetched, so that two jobs fetch it once.
    busy: Mutex<BTreeMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
}

impl BlobFetcher {
    /// Must be called within a tokio runtime, on which [`BlobFetcher::fetch_blocking`] then relies.
    pub(super) fn new(cache: BlobCache, links: watch::Receiver<Option<Connection>>) -> Self {
        let permits = Semaphore::new(FETCHES_MAX);
        let shared = Shared { cache, links, permits, busy: Mutex::default() };
        Self { shared: Arc::new(shared), runtime: Handle::current() }
    }

    /// The bytes of `blob`, checked against it. Waits for a connection for as long as the session lives.
    pub async fn fetch(&self, blob: &BlobRef) -> Result<Vec<u8>, FetchError> {
        let blob = *blob;
        if blob.size > BLOB_MAX {
            return Err(FetchError::TooLarge { blob: blob.blake3, size: blob.size });
        }
        let lock = self.lock_of(blob.blake3);
        let _alone = lock.lock().await;
        if let Some(bytes) = self.cached(blob).await? {
            return Ok(bytes);
        }
        let _permit = self.shared.permits.acquire().await.map_err(|_| FetchError::Ended)?;
        let mut failures = 0;
        loop {
            let mut links = self.shared.links.clone();
            let living = |link: &Option<Connection>| {
                link.as_ref().is_some_and(|connection| connection.close_reason().is_none())
            };
            let connection = links.wait_for(living).await.map_err(|_| FetchError::Ended)?.clone();
            let Some(connection) = connection else { continue };
            match self.transfer(&connection, blob).await {
                Ok(()) => match self.cached(blob).await? {
                    Some(bytes) => return Ok(bytes),
                    None => failures += 1,
                },
                // The connection went; the next one brings it.
                Err(FetchError::Stream { .. }) if connection.close_reason().is_some() => continue,
                Err(error @ (FetchError::Stream { .. } | FetchError::Cache(CacheError::Differs(_)))) => {
                    failures += 1;
                    if failures >= FAILURES_MAX {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
            if failures >= FAILURES_MAX {
                return Err(CacheError::Differs(blob.blake3).into());
            }
        }
    }

    /// The same from a thread that may block, until `cancel`.
    pub fn fetch_blocking(&self, blob: &BlobRef, cancel: &CancellationToken) -> Result<Vec<u8>, FetchError> {
        self.runtime.block_on(async {
            cancel.run_until_cancelled(self.fetch(blob)).await.unwrap_or(Err(FetchError::Cancelled))
        })
    }

    fn lock_of(&self, blob: Digest) -> Arc<tokio::sync::Mutex<()>> {
        let mut busy = self.shared.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = busy.get(&blob).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::default();
        busy.insert(blob, Arc::downgrade(&lock));
        lock
    }

    async fn cached(&self, blob: BlobRef) -> Result<Option<Vec<u8>>, FetchError> {
        let cache = self.shared.cache.clone();
        Ok(tokio::task::spawn_blocking(move || cache.read(&blob)).await??)
    }

    async fn transfer(&self, connection: &Connection, blob: BlobRef) -> Result<(), FetchError> {
        let broken = |source: StreamError| FetchError::Stream { blob: blob.blake3, source };
        let (mut send, mut receive) = connection.open_bi().await.map_err(|error| broken(error.into()))?;
        let opening = Opening::FetchBlob(BlobRequest { blob: blob.into() });
        transport::write(&mut send, &opening).await.map_err(broken)?;
        // A stream that is closed on the other side has said so by its answer.
        let _closed = send.finish();
        let reply = tokio::time::timeout(SILENCE, transport::read::<BlobReply>(&mut receive));
        match reply.await.map_err(|_| broken(StreamError::Silence))?.map_err(broken)? {
            None => return Err(broken(StreamError::Early)),
            Some(BlobReply::Missing) => return Err(FetchError::Missing(blob.blake3)),
            Some(BlobReply::Follows { blob: other }) if BlobRef::from(other) != blob => {
                return Err(CacheError::Differs(blob.blake3).into());
            }
            Some(BlobReply::Follows { .. }) => {}
        }
        let cache = self.shared.cache.clone();
        let mut incoming = tokio::task::spawn_blocking(move || cache.begin(blob)).await??;
        loop {
            let piece = tokio::time::timeout(SILENCE, receive.read_chunk(CHUNK, true));
            let piece = piece.await.map_err(|_| broken(StreamError::Silence))?;
            let Some(piece) = piece.map_err(|error| broken(error.into()))? else { break };
            incoming = tokio::task::spawn_blocking(move || incoming.write(&piece.bytes).map(|()| incoming))
                .await??;
        }
        Ok(tokio::task::spawn_blocking(move || incoming.commit()).await??)
    }
}
