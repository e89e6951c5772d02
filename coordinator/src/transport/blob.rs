//! Blobs on streams: where they come from, where they go, and the check of size and digests on the way.

use super::limits;
use fleet_config::domain::{BlobRef, Digest, Sha256};
use quinn::{RecvStream, SendStream};
use sha2::Digest as _;
use std::io::Read;
use std::sync::Arc;

/// Where blobs are read from. Methods block; they are called on blocking threads.
pub trait BlobSource: Send + Sync + 'static {
    /// A reader of exactly the bytes of `blob`, or `None` if it is not there.
    fn open(&self, blob: &BlobRef) -> std::io::Result<Option<Box<dyn Read + Send>>>;
}

/// Where blobs of reports are kept. Methods block; they are called on blocking threads.
pub trait BlobSink: Send + Sync + 'static {
    /// Whether the blob is kept already, so that it need not be sent.
    fn contains(&self, blob: &BlobRef) -> std::io::Result<bool>;
    /// Starts to keep a blob.
    fn begin(&self, blob: &BlobRef) -> std::io::Result<Box<dyn BlobWriter>>;
}

/// A blob on its way in. Dropping it uncommitted leaves nothing behind.
pub trait BlobWriter: Send {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()>;
    /// Called once size and both digests are those that were declared: syncs the bytes and gives them their
    /// name. The name itself is durable once the store is synced, which whoever commits an entry that relies on it
    /// does first.
    fn commit(self: Box<Self>) -> std::io::Result<()>;
}

/// A store that holds nothing and takes nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoBlobs;

impl BlobSource for NoBlobs {
    fn open(&self, _blob: &BlobRef) -> std::io::Result<Option<Box<dyn Read + Send>>> {
        Ok(None)
    }
}

impl BlobSink for NoBlobs {
    fn contains(&self, _blob: &BlobRef) -> std::io::Result<bool> {
        Ok(false)
    }
    fn begin(&self, _blob: &BlobRef) -> std::io::Result<Box<dyn BlobWriter>> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// Why a blob did not cross.
#[derive(Debug, thiserror::Error)]
pub(super) enum BlobError {
    #[error("the store failed: {0}")]
    Store(#[from] std::io::Error),
    #[error("a worker thread ended early: {0}")]
    Thread(#[from] tokio::task::JoinError),
    #[error(transparent)]
    Read(#[from] quinn::ReadError),
    #[error(transparent)]
    Write(#[from] quinn::WriteError),
    #[error("the stream ended before the blob did")]
    Cut,
    #[error("the bytes are not those of blob {0}")]
    Differs(Digest),
    #[error("nothing moved in time")]
    Silence,
}

impl BlobError {
    /// Whether the peer is to blame.
    pub(super) fn is_misbehaviour(&self) -> bool {
        match self {
            Self::Cut | Self::Differs(_) => true,
            Self::Store(_) | Self::Thread(_) | Self::Read(_) | Self::Write(_) | Self::Silence => false,
        }
    }
}

/// Both digests of bytes that pass by.
struct Digests {
    blake3: blake3::Hasher,
    sha256: sha2::Sha256,
}

impl Digests {
    fn new() -> Self {
        Self { blake3: blake3::Hasher::new(), sha256: sha2::Sha256::new() }
    }
    fn update(&mut self, bytes: &[u8]) {
        self.blake3.update(bytes);
        self.sha256.update(bytes);
    }
    fn are_of(self, blob: &BlobRef) -> bool {
        Digest(*self.blake3.finalize().as_bytes()) == blob.blake3
            && Sha256(self.sha256.finalize().into()) == blob.sha256
    }
}

/// Receives exactly the bytes of `blob` into `sink`; keeps them only if both digests agree.
pub(super) async fn receive(
    stream: &mut RecvStream,
    blob: BlobRef,
    sink: &Arc<dyn BlobSink>,
) -> Result<(), BlobError> {
    let begin = Arc::clone(sink);
    let mut writer = tokio::task::spawn_blocking(move || begin.begin(&blob)).await??;
    let mut digests = Digests::new();
    let mut left = blob.size;
    while left > 0 {
        let want = usize::try_from(left.min(limits::CHUNK as u64)).unwrap_or(limits::CHUNK);
        let piece = read_piece(stream, want).await?;
        left -= piece.len() as u64;
        (writer, digests) = tokio::task::spawn_blocking(move || {
            digests.update(&piece);
            writer.write(&piece).map(|()| (writer, digests))
        })
        .await??;
    }
    if !digests.are_of(&blob) {
        return Err(BlobError::Differs(blob.blake3));
    }
    tokio::task::spawn_blocking(move || writer.commit()).await??;
    Ok(())
}

async fn read_piece(stream: &mut RecvStream, want: usize) -> Result<Vec<u8>, BlobError> {
    let mut piece = vec![0u8; want];
    match tokio::time::timeout(limits::STREAM_SILENCE, stream.read_exact(&mut piece)).await {
        Err(_) => Err(BlobError::Silence),
        Ok(Ok(())) => Ok(piece),
        Ok(Err(quinn::ReadExactError::FinishedEarly(_))) => Err(BlobError::Cut),
        Ok(Err(quinn::ReadExactError::ReadError(error))) => Err(error.into()),
    }
}

/// Sends the bytes of `reader` until its end.
pub(super) async fn send(stream: &mut SendStream, mut reader: Box<dyn Read + Send>) -> Result<(), BlobError> {
    loop {
        let (back, piece) = tokio::task::spawn_blocking(move || {
            let mut piece = Vec::with_capacity(limits::CHUNK);
            reader.by_ref().take(limits::CHUNK as u64).read_to_end(&mut piece).map(|_| (reader, piece))
        })
        .await??;
        if piece.is_empty() {
            return Ok(());
        }
        reader = back;
        let written = tokio::time::timeout(limits::STREAM_SILENCE, stream.write_all(&piece)).await;
        written.map_err(|_| BlobError::Silence)??;
    }
}
