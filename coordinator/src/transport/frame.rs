//! Frames on QUIC streams: the codec's bytes in and out, with a time limit on each.

use fleet_config::wire::codec::{self, FrameError, PREFIX};
use quinn::{ReadExactError, RecvStream, SendStream, WriteError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Why no message could be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the stream ended within a frame")]
    Cut,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Stream(#[from] quinn::ReadError),
    #[error("nothing came in time")]
    Silence,
}

impl ReadError {
    /// Whether the peer broke the protocol, rather than the network the connection.
    pub(super) fn is_misbehaviour(&self) -> bool {
        match self {
            Self::Cut | Self::Frame(_) => true,
            Self::Stream(_) | Self::Silence => false,
        }
    }
}

/// Why no message could be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Stream(#[from] WriteError),
    #[error("the peer took nothing in time")]
    Silence,
}

/// The next message, or `None` where the stream ended cleanly.
pub(super) async fn read<T: DeserializeOwned>(stream: &mut RecvStream) -> Result<Option<T>, ReadError> {
    let mut prefix = [0u8; PREFIX];
    match stream.read_exact(&mut prefix).await {
        Ok(()) => {}
        Err(ReadExactError::FinishedEarly(0)) => return Ok(None),
        Err(error) => return Err(cut_short(error)),
    }
    let mut body = vec![0u8; codec::body_length(prefix)?];
    stream.read_exact(&mut body).await.map_err(cut_short)?;
    Ok(Some(codec::decode(&body)?))
}

/// The next message, which must come within `limit`.
pub(super) async fn read_within<T: DeserializeOwned>(
    stream: &mut RecvStream,
    limit: Duration,
) -> Result<Option<T>, ReadError> {
    tokio::time::timeout(limit, read(stream)).await.map_err(|_| ReadError::Silence)?
}

/// Writes one message, which the peer must take within `limit`.
pub(super) async fn write_within(
    stream: &mut SendStream,
    message: &impl Serialize,
    limit: Duration,
) -> Result<(), SendError> {
    let frame = codec::encode(message)?;
    tokio::time::timeout(limit, stream.write_all(&frame)).await.map_err(|_| SendError::Silence)??;
    Ok(())
}

fn cut_short(error: ReadExactError) -> ReadError {
    match error {
        ReadExactError::FinishedEarly(_) => ReadError::Cut,
        ReadExactError::ReadError(error) => ReadError::Stream(error),
    }
}
