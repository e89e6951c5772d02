//! The write-ahead log file: an entry is committed once its frame here is synced.

use super::frame::{self, FrameError, Scan, Tail, TornTail};
use crate::disk::{self, DiskAction, DiskError};
use crate::fault::{FaultPoint, reach};
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Largest WAL that is read. The writer integrates long before; a larger file is not ours.
pub const WAL_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Why the WAL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WalError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("{}: {source}", path.display())]
    Frame { path: PathBuf, source: FrameError },
}

/// The content of a WAL as read at one moment.
#[derive(Debug)]
pub struct WalContent {
    pub bytes: Vec<u8>,
    pub scan: Scan,
}

impl WalContent {
    /// Reads the WAL at `path` without changing it.
    pub fn read(path: &Path) -> Result<Self, WalError> {
        let bytes = disk::read_limited(path, WAL_BYTES_MAX)?;
        let scan =
            frame::scan(&bytes).map_err(|source| WalError::Frame { path: path.to_path_buf(), source })?;
        Ok(Self { bytes, scan })
    }

    /// Sequence and bytes of each entry.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.scan.frames.iter().map(|frame| (frame.sequence, &self.bytes[frame.entry.clone()]))
    }

    /// The sequences that it holds, if any.
    pub fn range(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.scan.frames.first()?, self.scan.frames.last()?);
        Some((first.sequence, last.sequence + 1))
    }
}

/// The open WAL, owned by the one writer.
#[derive(Debug)]
pub struct Wal {
    path: PathBuf,
    file: File,
}

impl Wal {
    /// Puts an empty WAL at `path`. The temporary is synced before the rename, so a crash leaves either no WAL (and
    /// creation is repeated) or a whole one.
    pub fn create(path: &Path) -> Result<Self, DiskError> {
        let temporary = path.with_extension("new");
        let file = disk::write_synced(&temporary, &frame::file_header())?;
        disk::rename(&temporary, path)?;
        if let Some(parent) = path.parent() {
            disk::sync_directory(parent)?;
        }
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// Opens the WAL for appending, cutting off a torn tail. What was cut is part of the content's scan.
    pub fn open(path: &Path) -> Result<(Self, WalContent), WalError> {
        let content = WalContent::read(path)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(DiskError::at(DiskAction::Open, path))?;
        match content.scan.tail {
            Tail::Whole => (),
            Tail::Torn(TornTail { offset, bytes }) => {
                tracing::warn!(
                    offset,
                    bytes,
                    "cutting a torn tail off the WAL; nothing in it was acknowledged"
                );
                file.set_len(offset).map_err(DiskError::at(DiskAction::Write, path))?;
            }
        }
        // A crash between write and sync may have left whole frames that are in memory only. They are about to be
        // treated as committed, so they must be durable first.
        file.sync_all().map_err(DiskError::at(DiskAction::Sync, path))?;
        file.seek(SeekFrom::End(0)).map_err(DiskError::at(DiskAction::Write, path))?;
        Ok((Self { path: path.to_path_buf(), file }, content))
    }

    /// Appends one batch whose first entry is leaf `first` and returns once it is durable. After an error the WAL's
    /// end is unknown: the caller must write nothing more before it is opened again.
    pub fn append(&mut self, first: u64, entries: &[Vec<u8>]) -> Result<(), DiskError> {
        let bytes = frame::encode_batch(first, entries);
        reach(FaultPoint::WalBeforeWrite);
        self.file.write_all(&bytes).map_err(DiskError::at(DiskAction::Write, &self.path))?;
        // We may die here: the frames are whole, torn or absent on the disk. Nobody was told, so all three are
        // right; whole frames are simply committed when the WAL is next opened.
        reach(FaultPoint::WalAfterWrite);
        self.file.sync_data().map_err(DiskError::at(DiskAction::Sync, &self.path))?;
        // We may die here: committed and not acknowledged. The sender sends again and is recognised by its
        // (cell, fence).
        reach(FaultPoint::WalAfterSync);
        Ok(())
    }

    /// Drops every frame, because a durable checkpoint covers them all. A new file takes the old one's place, so
    /// that readers which hold the old one keep a whole file.
    pub fn clear(&mut self) -> Result<(), DiskError> {
        reach(FaultPoint::WalBeforeTrim);
        // We may die before or after the rename: the old WAL overlaps the checkpoint, which opening checks and
        // accepts; the new one is empty.
        *self = Self::create(&self.path)?;
        reach(FaultPoint::WalAfterTrim);
        Ok(())
    }
}
