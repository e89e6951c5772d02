//! The bytes of the journal.
//!
//! ```text
//!   file   = header frame*
//!   header = "muster.journal" 0x00 0x01                   16 bytes; the last is the version
//!   frame  = length:u32le checksum:u32le json             checksum = crc32c(length ‖ json), RFC 3720 B.4
//!   json   = {"v":1,"seq":n,"durable":m,"fact":{…}}       m: every fact up to m was synced before this was written
//! ```
//! `durable` tells a torn batch from damage: a whole frame after a broken one belongs to the same unsynced batch if
//! its `durable` is below the broken one's number, and proves that the broken one had been whole otherwise.

use crate::scheduler::Fact;
use serde::{Deserialize, Serialize};

/// First bytes of the file.
pub const HEADER: [u8; 16] = *b"muster.journal\x00\x01";

/// Longest JSON of a frame: a submission of the most cells with room to spare; more is damage.
pub const FRAME_MAX: usize = 16 << 20;

/// Bytes before the JSON.
pub const PREFIX: usize = 8;

/// How every frame's JSON begins: what a search for later frames looks for.
pub(super) const JSON_START: &[u8] = b"{\"v\":1,\"seq\":";

/// Version of the JSON in a frame.
const VERSION: u32 = 1;

/// A frame that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {length} bytes is longer than {FRAME_MAX}")]
    Length { length: usize },
    #[error("the file ends within a frame")]
    Short,
    #[error("the checksum does not match")]
    Checksum,
    #[error("the frame has version {found}; this program reads {VERSION}")]
    Version { found: u32 },
    #[error("the frame is no fact")]
    Json(#[from] serde_json::Error),
}

#[derive(Serialize)]
struct Written<'a> {
    v: u32,
    seq: u64,
    durable: u64,
    fact: &'a Fact,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[expect(dead_code, reason = "checked by `Versioned` before; named so that it is no unknown field")]
    v: u32,
    seq: u64,
    durable: u64,
    fact: Fact,
}

/// The version alone, so that a newer frame is named as such and not as broken JSON.
#[derive(Deserialize)]
struct Versioned {
    v: u32,
}

/// A frame that was read.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) sequence: u64,
    pub(super) durable: u64,
    pub(super) fact: Fact,
    /// Its bytes, the prefix included.
    pub(super) size: usize,
}

/// Appends the frame of a fact to `out`.
pub fn encode(sequence: u64, durable: u64, fact: &Fact, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let json = serde_json::to_vec(&Written { v: VERSION, seq: sequence, durable, fact })?;
    let length = u32::try_from(json.len()).ok().filter(|_| json.len() <= FRAME_MAX);
    let length = length.ok_or(FrameError::Length { length: json.len() })?.to_le_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&checksum(length, &json).to_le_bytes());
    out.extend_from_slice(&json);
    Ok(())
}

/// Reads the frame at the start of `bytes`.
pub(super) fn decode(bytes: &[u8]) -> Result<Frame, FrameError> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or(FrameError::Short)?;
    let (sum, rest) = rest.split_first_chunk::<4>().ok_or(FrameError::Short)?;
    let size = u32::from_le_bytes(*length) as usize;
    if size > FRAME_MAX {
        return Err(FrameError::Length { length: size });
    }
    let json = rest.get(..size).ok_or(FrameError::Short)?;
    if checksum(*length, json) != u32::from_le_bytes(*sum) {
        return Err(FrameError::Checksum);
    }
    let found = serde_json::from_slice::<Versioned>(json)?.v;
    if found != VERSION {
        return Err(FrameError::Version { found });
    }
    let Read { seq, durable, fact, .. } = serde_json::from_slice(json)?;
    Ok(Frame { sequence: seq, durable, fact, size: PREFIX + size })
}

fn checksum(length: [u8; 4], json: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length), json)
}
