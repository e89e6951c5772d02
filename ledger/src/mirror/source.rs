//! Where a mirror copies from: files by their path in a ledger folder, from a disk or over a network.

use crate::disk::{self, DiskError};
use std::path::{Path, PathBuf};

/// Why a source did not answer. Its answers are checked elsewhere; here it could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("{place}: {cause}")]
    Unreachable { place: String, cause: String },
}

/// Files by path. Nothing that it answers is believed.
pub trait Source {
    /// The bytes of the file at `path`, relative to the ledger folder; none where there is no such file. Fails when the
    /// file is larger than `bytes_max`, and may be asked again after any failure.
    fn fetch(&mut self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, SourceError>;
}

/// A ledger folder, or a copy of one, on a disk.
#[derive(Debug)]
pub struct FolderSource(PathBuf);

impl FolderSource {
    /// The folder at `root`.
    pub fn at(root: &Path) -> Self {
        Self(root.to_owned())
    }
}

impl Source for FolderSource {
    fn fetch(&mut self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, SourceError> {
        match disk::read_limited(&self.0.join(path), bytes_max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
