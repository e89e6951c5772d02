//! Values of index rows: bincode with limits, behind one module so that it can be replaced in a day. Nothing
//! hashed or signed goes through here.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most bytes of one value; the largest holds a summary of a few hundred.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// Why a value cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    #[error("cannot be encoded: {0}")]
    Encode(#[from] bincode::error::EncodeError),
    #[error("cannot be decoded: {0}")]
    Decode(#[from] bincode::error::DecodeError),
    #[error("{extra} bytes follow the value")]
    Trailing { extra: usize },
    #[error("a key has no leaf index at its end")]
    Key,
    #[error("entry {leaf} has no summary")]
    Dangling { leaf: u64 },
}

fn configuration() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<VALUE_BYTES_MAX>()
}

/// The bytes of `value`.
pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>, CodecError> {
    Ok(bincode::serde::encode_to_vec(value, configuration())?)
}

/// The value of `bytes`, all of them.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (value, used) = bincode::serde::decode_from_slice(bytes, configuration())?;
    if used == bytes.len() { Ok(value) } else { Err(CodecError::Trailing { extra: bytes.len() - used }) }
}
