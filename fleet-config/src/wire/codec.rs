//! Frames: a big-endian u32 length and that many bytes of bincode. Bytes in, bytes out, no IO.

use super::FRAME_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of the length prefix.
pub const PREFIX: usize = 4;

/// Why bytes are no frame of the expected message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("frame of {0} bytes is longer than the limit of {FRAME_MAX}")]
    TooLong(usize),
    #[error("frame does not decode: {0}")]
    Decode(#[from] bincode::error::DecodeError),
    #[error("message does not encode: {0}")]
    Encode(#[from] bincode::error::EncodeError),
    #[error("{0} bytes follow the message in its frame")]
    Trailing(usize),
}

fn config() -> bincode::config::Configuration<
    bincode::config::LittleEndian,
    bincode::config::Varint,
    bincode::config::Limit<FRAME_MAX>,
> {
    bincode::config::standard().with_limit::<FRAME_MAX>()
}

/// The frame of `message`, prefix included.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let body = bincode::serde::encode_to_vec(message, config())?;
    if body.len() > FRAME_MAX {
        return Err(FrameError::TooLong(body.len()));
    }
    let length = u32::try_from(body.len()).map_err(|_| FrameError::TooLong(body.len()))?;
    let mut frame = Vec::with_capacity(PREFIX + body.len());
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// The length of the body that follows `prefix`.
pub fn body_length(prefix: [u8; PREFIX]) -> Result<usize, FrameError> {
    let length = u32::from_be_bytes(prefix) as usize;
    if length > FRAME_MAX { Err(FrameError::TooLong(length)) } else { Ok(length) }
}

/// The message in a frame's body; every byte must belong to it.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    if body.len() > FRAME_MAX {
        return Err(FrameError::TooLong(body.len()));
    }
    let (message, used) = bincode::serde::decode_from_slice(body, config())?;
    if used == body.len() { Ok(message) } else { Err(FrameError::Trailing(body.len() - used)) }
}
