//! The folder that a mirror is written to: one writer, whole files alone, the checkpoint last.

use crate::disk::{self, DirtyDirectories, DiskAction, DiskError};
use crate::log::store::Folder;
use crate::log::tile::TileCoordinate;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Beside the published files: the lock, and files on their way to their name.
const STATE: &str = ".mirror";

/// Why nothing can be written there.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("`{}` is a coordinator's own ledger; mirror into another folder", .0.display())]
    Ledger(PathBuf),
    #[error("`{}` is not empty and holds no mirror; name an empty folder", .0.display())]
    Foreign(PathBuf),
    #[error("another process writes to the mirror `{}`; let it end", .0.display())]
    Locked(PathBuf),
}

/// A mirror's folder, held by its one writer.
#[derive(Debug)]
pub(super) struct Target {
    root: PathBuf,
    folder: Folder,
    dirty: DirtyDirectories,
    temporaries: u64,
    _lock: File,
}

impl Target {
    /// Takes the folder, making it where there is none.
    pub(super) fn open(root: &Path) -> Result<Self, TargetError> {
        if root.join(".state").exists() {
            return Err(TargetError::Ledger(root.to_owned()));
        }
        let state = root.join(STATE);
        let is_new = !state.is_dir();
        if is_new && fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(TargetError::Foreign(root.to_owned()));
        }
        let mut dirty = DirtyDirectories::default();
        disk::create_directories(&state.join("tmp"), &mut dirty)?;
        let path = state.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(DiskError::at(DiskAction::Open, &path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(TargetError::Locked(root.to_owned())),
            Err(error) => return Err(DiskError::at(DiskAction::Lock, &path)(error.into()).into()),
        }
        let folder = Folder::at(root);
        Ok(Self { root: root.to_owned(), folder, dirty, temporaries: 0, _lock: lock })
    }

    /// The published files.
    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Where a file of the mirror lies.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A file of the mirror, if it is there.
    pub(super) fn read(&self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError> {
        match disk::read_limited(&self.path(path), bytes_max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a file whole, in the place of whatever had its name. Its name is durable after [`Self::sync`].
    pub(super) fn put(&mut self, path: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let place = self.path(path);
        if let Some(parent) = place.parent() {
            disk::create_directories(parent, &mut self.dirty)?;
        }
        let temporary = self.root.join(STATE).join("tmp").join(self.temporaries.to_string());
        self.temporaries += 1;
        disk::write_synced(&temporary, bytes)?;
        disk::rename(&temporary, &place)?;
        self.dirty.mark_up_to(&self.root, &place);
        Ok(())
    }

    /// Makes the names of all files durable.
    pub(super) fn sync(&mut self) -> Result<(), DiskError> {
        self.dirty.sync()
    }

    /// Removes a tile or bundle that turned out wrong. One that is not there is gone already.
    pub(super) fn discard(&self, coordinate: &TileCoordinate) -> Result<(), DiskError> {
        let path = self.folder.tile_path(coordinate);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(DiskError::at(DiskAction::Remove, &path)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes the partial forms of a tile or bundle that is full and durable.
    pub(super) fn remove_partials(&self, full: &TileCoordinate) -> Result<(), DiskError> {
        let directory = self.root.join(full.partials_path());
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(DiskError::at(DiskAction::Remove, &directory)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
