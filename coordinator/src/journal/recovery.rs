//! What each state of the file means at start.
//!
//! The process may have died before a batch was written (nothing is there), while it was written (a part is there, in
//! any order of blocks), or after (all is there, and nobody was told). So an unsynced batch may be whole, cut or have
//! holes; nothing followed from it, and what is broken of it is dropped from the first hole on. A broken frame that
//! had been synced is damage, and refused: dropping it would forget promises.

use super::frame::{self, Frame, FrameError, HEADER, JSON_START, PREFIX};
use super::{FILE_NAME, Journal, NumberedFacts, OpenError};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What opening found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReport {
    pub facts: usize,
    /// Length of the file that is kept, in bytes.
    pub length: u64,
    pub torn: Option<TornTail>,
}

/// A batch whose sync never returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// Where the file was cut, in bytes.
    pub offset: u64,
    pub bytes_cut: u64,
    /// Why the frame there was not read.
    pub problem: String,
    /// Where the cut bytes are kept, for people; nothing reads them.
    pub kept: PathBuf,
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<(NumberedFacts, OpenReport), OpenError> {
    if !bytes.starts_with(&HEADER) {
        let start = &bytes[..bytes.len().min(HEADER.len())];
        let found = format!("it begins with {:?}", String::from_utf8_lossy(start));
        return Err(OpenError::Header { path: path.to_owned(), found });
    }
    let mut facts = Vec::new();
    let mut offset = HEADER.len();
    while offset < bytes.len() {
        let expected = Journal::FIRST_SEQUENCE + facts.len() as u64;
        let damaged =
            |problem: String| OpenError::Damaged { path: path.to_owned(), offset: offset as u64, problem };
        match frame::decode(&bytes[offset..]) {
            Ok(Frame { sequence, durable: _, fact, size }) if sequence == expected => {
                facts.push((sequence, fact));
                offset += size;
            }
            Ok(Frame { sequence, .. }) => {
                return Err(damaged(format!("it has fact {sequence} where {expected} should stand")));
            }
            // These frames are whole: a newer program wrote them, or one that is not ours.
            Err(error @ (FrameError::Version { .. } | FrameError::Json(_))) => {
                return Err(damaged(error.to_string()));
            }
            Err(error @ (FrameError::Length { .. } | FrameError::Short | FrameError::Checksum)) => {
                if was_durable(&bytes[offset..], expected) {
                    return Err(damaged(error.to_string()));
                }
                let torn = TornTail {
                    offset: offset as u64,
                    bytes_cut: (bytes.len() - offset) as u64,
                    problem: error.to_string(),
                    kept: path.with_file_name(format!("{FILE_NAME}.torn-{offset}")),
                };
                let report = OpenReport { facts: facts.len(), length: torn.offset, torn: Some(torn) };
                return Ok((facts, report));
            }
        }
    }
    let report = OpenReport { facts: facts.len(), length: bytes.len() as u64, torn: None };
    Ok((facts, report))
}

/// Whether a later frame proves that fact `broken` had been synced. Linear: only places where a frame's JSON
/// begins are looked at.
fn was_durable(rest: &[u8], broken: u64) -> bool {
    let starts = rest.windows(JSON_START.len()).enumerate().filter(|(_, window)| *window == JSON_START);
    let mut frames = starts.filter_map(|(at, _)| frame::decode(&rest[at.checked_sub(PREFIX)?..]).ok());
    frames.any(|frame| frame.durable >= broken)
}

/// Cuts a torn tail off, keeping its bytes. Dying between the copy and the cut leaves the same tail for next time.
pub(super) fn cut(state: &Path, file: &File, bytes: &[u8], torn: &TornTail) -> io::Result<()> {
    let tail = &bytes[usize::try_from(torn.offset).map_err(io::Error::other)?..];
    fs::write(&torn.kept, tail)?;
    file.set_len(torn.offset)?;
    file.sync_all()?;
    File::open(state)?.sync_all()
}
