//! The journal: durable facts as versioned, checksummed JSON frames, synced before anything follows from them.
//!
//! One file `<state>/journal`, append-only; [`frame`] has its bytes, [`recovery`] says what each half-written state
//! means at start. Trust: it is truth for what was promised (accepted submissions, fences, cancels), never for
//! results. Losing it loses open work and lets fences repeat, which the scheduler notices from the ledger.

pub mod frame;
mod recovery;
#[cfg(test)]
mod tests;

pub use frame::FRAME_MAX;
pub use recovery::{OpenReport, TornTail};

use crate::scheduler::Fact;
use frame::FrameError;
use ledger::fault::{self, FaultPoint};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Name of the file in the state folder.
pub const FILE_NAME: &str = "journal";

/// Facts with their sequence numbers, in order.
pub type NumberedFacts = Vec<(u64, Fact)>;

/// An open journal: the only writer of its file, which it holds locked.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Sequence number of the next fact.
    next: u64,
    health: Health,
}

/// ```text
///   Sound ── any failed write or sync ──► Poisoned
/// ```
/// After a failed sync nobody knows what is on disk (the kernel may have dropped the pages), so nothing is written
/// any more; the next start reads what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Sound,
    Poisoned,
}

/// A journal that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the journal {path} cannot be read or created")]
    Io { path: PathBuf, source: io::Error },
    #[error("the journal {path} is in use by another coordinator")]
    Locked { path: PathBuf },
    #[error("{path} is no journal of this version: {found}")]
    Header { path: PathBuf, found: String },
    #[error(
        "the journal {path} is damaged at byte {offset} ({problem}) while later facts are whole; restore it from a backup"
    )]
    Damaged { path: PathBuf, offset: u64, problem: String },
}

/// Facts that were not made durable. Nothing that follows from them may be done.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error("the journal stopped after an earlier write error; restart the coordinator")]
    Poisoned,
    #[error("fact {found} was to be written where {expected} comes next")]
    Sequence { expected: u64, found: u64 },
    #[error("fact {sequence} cannot be written")]
    Frame { sequence: u64, source: FrameError },
    #[error("the journal {path} cannot be written; is the disk full or read-only?")]
    Io { path: PathBuf, source: io::Error },
}

impl Journal {
    /// Sequence number of the first fact.
    pub const FIRST_SEQUENCE: u64 = crate::scheduler::Scheduler::FIRST_SEQUENCE;

    /// Opens or creates the journal of a state folder and reads every fact in it. A torn tail (a batch whose sync
    /// never returned) is cut off, kept beside the file, and reported; other damage is refused.
    pub fn open(state: &Path) -> Result<(Self, NumberedFacts, OpenReport), OpenError> {
        let path = state.join(FILE_NAME);
        let io = |source| OpenError::Io { path: path.clone(), source };
        if !path.try_exists().map_err(io)? {
            create(state, &path).map_err(io)?;
        }
        let file = OpenOptions::new().read(true).append(true).open(&path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked { path }),
            Err(TryLockError::Error(source)) => return Err(OpenError::Io { path, source }),
        }
        let bytes = fs::read(&path).map_err(io)?;
        let (facts, report) = recovery::read(&path, &bytes)?;
        if let Some(torn) = &report.torn {
            recovery::cut(state, &file, &bytes, torn).map_err(io)?;
        }
        let next = facts.last().map_or(Self::FIRST_SEQUENCE, |(sequence, _)| sequence + 1);
        Ok((Self { file, path, next, health: Health::Sound }, facts, report))
    }

    /// Appends facts with one sync. On return they are durable; on an error none of them may be acted upon.
    pub fn append_batch(&mut self, facts: &[(u64, Fact)]) -> Result<(), AppendError> {
        match self.health {
            Health::Sound => {}
            Health::Poisoned => return Err(AppendError::Poisoned),
        }
        // Whoever wrote an earlier frame waited for its sync: everything before this batch is durable.
        let durable = self.next - 1;
        let mut bytes = Vec::new();
        for (expected, (sequence, fact)) in (self.next..).zip(facts) {
            if *sequence != expected {
                return Err(AppendError::Sequence { expected, found: *sequence });
            }
            frame::encode(*sequence, durable, fact, &mut bytes)
                .map_err(|source| AppendError::Frame { sequence: *sequence, source })?;
        }
        if bytes.is_empty() {
            return Ok(());
        }
        if let Err(source) = self.write(&bytes) {
            self.health = Health::Poisoned;
            return Err(AppendError::Io { path: self.path.clone(), source });
        }
        self.next += facts.len() as u64;
        Ok(())
    }

    /// What [`Self::open`] reads out of the bytes of a file, for the fuzz targets.
    #[doc(hidden)]
    pub fn read(bytes: &[u8]) -> Result<(NumberedFacts, OpenReport), OpenError> {
        recovery::read(Path::new(FILE_NAME), bytes)
    }

    /// Sequence number of the next fact.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        fault::reach(FaultPoint::JournalBeforeWrite);
        self.file.write_all(bytes)?;
        fault::reach(FaultPoint::JournalAfterWrite);
        self.file.sync_data()?;
        fault::reach(FaultPoint::JournalAfterSync);
        Ok(())
    }
}

/// A journal appears whole or not at all: written beside its place, synced, renamed, and the folder synced.
fn create(state: &Path, path: &Path) -> io::Result<()> {
    let draft = state.join(format!("{FILE_NAME}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&draft)?;
    file.write_all(&frame::HEADER)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(state)?.sync_all()
}
