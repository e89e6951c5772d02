//! What verification finds wrong: which file, where in it, and how.

use crate::disk::DiskError;
use crate::log::bundle::BundleError;
use crate::log::frame::FrameError;
use crate::log::store::StoreError;
use crate::log::tile::TileCoordinate;
use crate::log::wal::WalError;
use fleet_config::domain::Sha256;
use std::fmt;
use std::io;

/// One thing that is wrong in a ledger folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Relative to the ledger folder.
    pub path: String,
    /// Byte in the file, where one can be named.
    pub offset: Option<u64>,
    pub fault: Fault,
}

impl Finding {
    /// A finding that concerns a file as a whole.
    pub fn file(path: impl Into<String>, fault: Fault) -> Self {
        Self { path: path.into(), offset: None, fault }
    }

    /// A finding at a byte of a file.
    pub fn at(path: impl Into<String>, offset: u64, fault: Fault) -> Self {
        Self { path: path.into(), offset: Some(offset), fault }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} at byte {offset}: {}", self.path, self.fault),
            None => write!(f, "{}: {}", self.path, self.fault),
        }
    }
}

/// How something is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("is missing")]
    Missing,
    #[error("cannot be read: {cause}")]
    Unreadable { kind: io::ErrorKind, cause: String },
    #[error("its content has another blake3 than its name")]
    BlobContent,
    #[error("is no file of a ledger's tile or blob folder")]
    Stray,
    #[error("holds more than the {size} entries that checkpoint and WAL account for")]
    Beyond { size: u64 },
    #[error("is {found} bytes long instead of {expected}")]
    Length { found: u64, expected: u64 },
    #[error("hash {position} does not follow from the entries")]
    TileHash { position: usize },
    #[error("{0}")]
    Framing(#[from] BundleError),
    #[error("entry {index} is not the one that the signed tree holds")]
    Entry { index: u64 },
    #[error("{cause}")]
    Checkpoint { cause: String },
    #[error("says root {signed} for {size} entries, the entries have root {found}")]
    Root { size: u64, signed: Sha256, found: Sha256 },
    #[error("{0}")]
    Wal(#[from] FrameError),
    #[error("ends with {bytes} bytes of an unfinished write; opening the ledger for writing cuts them off")]
    Torn { bytes: u64 },
    #[error("does not join the checkpoint of {size} entries: it holds entries {first} up to {end}")]
    WalRange { first: u64, end: u64, size: u64 },
    #[error("{cause}")]
    Version { cause: String },
    #[error("more than {limit} findings, the rest is left out")]
    TooMany { limit: usize },
}

impl From<&DiskError> for Fault {
    fn from(error: &DiskError) -> Self {
        match error.source.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            kind => Self::Unreadable { kind, cause: error.source.to_string() },
        }
    }
}

impl Finding {
    /// What reading the WAL found.
    pub(super) fn of_wal(path: &str, error: &WalError) -> Self {
        match error {
            WalError::Disk(error) => Self::file(path, error.into()),
            WalError::Frame { source, .. } => Self::at(path, source.offset(), (*source).into()),
        }
    }

    /// What reading the checkpoint found.
    pub(super) fn of_checkpoint(path: &str, error: &StoreError) -> Self {
        match error {
            StoreError::Disk(error) => Self::file(path, error.into()),
            other => Self::file(path, Fault::Checkpoint { cause: other.to_string() }),
        }
    }

    /// What reading a tile or bundle found.
    pub(super) fn of_tile(coordinate: &TileCoordinate, error: &DiskError) -> Self {
        Self::file(coordinate.to_string(), error.into())
    }
}
