//! The ledger folder on disk: paths, the single writer's lock, write-once files, the checkpoint's rename.

use super::bundle::{self, BUNDLE_BYTES_MAX, BundleError};
use super::checkpoint::{Checkpoint, CheckpointError};
use super::frame::FILE_HEADER_BYTES;
use super::note::{NOTE_BYTES_MAX, VerifierKey};
use super::tile::{self, HASH_BYTES, TILE_WIDTH, TileCoordinate, TileKind};
use crate::disk::{self, DirtyDirectories, DiskAction, DiskError};
use fleet_config::domain::Sha256;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Content of `.state/version`; a program that does not know it must not write here.
const VERSION_TEXT: &str = "muster-ledger 1\n";
/// The version file is one line.
const VERSION_BYTES_MAX: u64 = 64;
const TILE_BYTES_MAX: u64 = TILE_WIDTH as u64 * HASH_BYTES as u64;

/// Why a file of the log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("`{}` holds no ledger; create one first", folder.display())]
    NotALedger { folder: PathBuf },
    #[error("`{}` holds a ledger already", folder.display())]
    AlreadyALedger { folder: PathBuf },
    #[error("`{}` has the ledger format `{found}`, this program knows `muster-ledger 1`", folder.display())]
    Version { folder: PathBuf, found: String },
    #[error("another process writes to the ledger `{}`; stop it first", folder.display())]
    Locked { folder: PathBuf },
    #[error("`{path}` exists with other content; a tile is written once, so the folder is damaged or forked")]
    Differs { path: String },
    #[error("two computations of the root of {size} entries differ; the memory of this machine is not sound")]
    Computation { size: u64 },
    #[error("`{path}` is not {width} hashes long")]
    TileLength { path: String, width: u16 },
    #[error("`{path}`: {source}")]
    Bundle { path: String, source: BundleError },
    #[error("checkpoint: {0}")]
    Checkpoint(#[from] CheckpointError),
}

/// A bundle as read: its bytes and the places of its entries.
#[derive(Debug)]
pub struct Bundle {
    pub bytes: Vec<u8>,
    pub entries: Vec<Range<usize>>,
}

impl Bundle {
    /// Entry `position` of this bundle.
    pub fn entry(&self, position: usize) -> Option<&[u8]> {
        self.entries.get(position).map(|place| &self.bytes[place.clone()])
    }
}

/// The paths of a ledger folder, and reading from them.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The folder at `root`; nothing is touched.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The published checkpoint.
    pub fn checkpoint_path(&self) -> PathBuf {
        self.root.join("checkpoint")
    }

    /// The write-ahead log.
    pub fn wal_path(&self) -> PathBuf {
        self.state("wal")
    }

    /// The format's version.
    pub fn version_path(&self) -> PathBuf {
        self.state("version")
    }

    fn temporary_directory(&self) -> PathBuf {
        self.state("tmp")
    }

    fn state(&self, name: &str) -> PathBuf {
        self.root.join(".state").join(name)
    }

    /// The file of a tile or bundle.
    pub fn tile_path(&self, coordinate: &TileCoordinate) -> PathBuf {
        self.root.join(coordinate.to_string())
    }

    /// Whether this holds the published files of a log (checkpoint, tiles, bundles) without a writer's state beside
    /// them. A writer never makes or takes such a folder.
    pub fn is_published_alone(&self) -> bool {
        self.checkpoint_path().is_file() && !self.root.join(".state").exists()
    }

    /// Refuses a folder whose format is not ours.
    pub fn check_version(&self) -> Result<(), StoreError> {
        let bytes = match disk::read_limited(&self.version_path(), VERSION_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.is_missing() => {
                return Err(StoreError::NotALedger { folder: self.root.clone() });
            }
            Err(error) => return Err(error.into()),
        };
        if bytes != VERSION_TEXT.as_bytes() {
            let found = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            return Err(StoreError::Version { folder: self.root.clone(), found });
        }
        Ok(())
    }

    /// Whether there are entries, whatever else is missing: creation must never overwrite them.
    fn has_history(&self) -> bool {
        let wal_bytes = fs::metadata(self.wal_path()).map_or(0, |metadata| metadata.len());
        self.root.join("tile").exists() || wal_bytes > FILE_HEADER_BYTES as u64
    }

    /// The checkpoint's note and what it says, if `verifier` signed it.
    pub fn read_checkpoint(&self, verifier: &VerifierKey) -> Result<(String, Checkpoint), StoreError> {
        let bytes = disk::read_limited(&self.checkpoint_path(), NOTE_BYTES_MAX)?;
        let checkpoint = Checkpoint::open(&bytes, verifier)?;
        Ok((String::from_utf8_lossy(&bytes).into_owned(), checkpoint))
    }

    /// The bytes of a tile or bundle of at least this width, and the coordinate that was found: the very one, or
    /// the full one that superseded it.
    pub fn read_at_least(&self, wanted: TileCoordinate) -> Result<(TileCoordinate, Vec<u8>), DiskError> {
        let bytes_max = match wanted.kind {
            TileKind::Entries => BUNDLE_BYTES_MAX,
            TileKind::Hashes(_) => TILE_BYTES_MAX,
        };
        let full = TileCoordinate::full(wanted.kind, wanted.index);
        match disk::read_limited(&self.tile_path(&wanted), bytes_max) {
            Ok(bytes) => Ok((wanted, bytes)),
            Err(error) if error.is_missing() && !wanted.is_full() => {
                Ok((full, disk::read_limited(&self.tile_path(&full), bytes_max)?))
            }
            Err(error) => Err(error),
        }
    }

    /// The first `width` hashes of a tile.
    pub fn read_tile(&self, level: u8, index: u64, width: u16) -> Result<Vec<Sha256>, StoreError> {
        let wanted = TileCoordinate { kind: TileKind::Hashes(level), index, width };
        let (found, bytes) = self.read_at_least(wanted)?;
        let bad_length = || StoreError::TileLength { path: found.to_string(), width: found.width };
        let mut hashes = tile::decode(&bytes).ok_or_else(bad_length)?;
        if hashes.len() != usize::from(found.width) {
            return Err(bad_length());
        }
        hashes.truncate(usize::from(width));
        Ok(hashes)
    }

    /// A bundle of at least `width` entries; later ones of a full bundle are dropped.
    pub fn read_bundle(&self, index: u64, width: u16) -> Result<Bundle, StoreError> {
        let wanted = TileCoordinate { kind: TileKind::Entries, index, width };
        let (found, bytes) = self.read_at_least(wanted)?;
        let mut entries = bundle::decode(&bytes, usize::from(found.width))
            .map_err(|source| StoreError::Bundle { path: found.to_string(), source })?;
        entries.truncate(usize::from(width));
        Ok(Bundle { bytes, entries })
    }
}

/// The folder as its single writer holds it: the lock is held as long as this lives.
#[derive(Debug)]
pub struct Store {
    folder: Folder,
    dirty: DirtyDirectories,
    temporaries: u64,
    _lock: File,
}

impl Store {
    /// Takes the lock of an existing ledger.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let folder = Folder::at(root);
        folder.check_version()?;
        let store = Self::lock(folder)?;
        store.clear_temporaries()?;
        Ok(store)
    }

    /// Takes the lock of a folder that is to become a ledger. Until [`Self::finish_creation`] it is none, so a crash
    /// in between leaves something that creation may be repeated on.
    pub fn begin_creation(root: &Path) -> Result<Self, StoreError> {
        let folder = Folder::at(root);
        let mut dirty = DirtyDirectories::default();
        disk::create_directories(&folder.temporary_directory(), &mut dirty)?;
        let mut store = Self::lock(folder)?;
        match store.folder.check_version() {
            Err(StoreError::NotALedger { .. }) if !store.folder.has_history() => (),
            Ok(()) | Err(StoreError::NotALedger { .. }) => {
                return Err(StoreError::AlreadyALedger { folder: root.to_path_buf() });
            }
            Err(error) => return Err(error),
        }
        store.dirty.take_from(&mut dirty);
        store.clear_temporaries()?;
        Ok(store)
    }

    /// Makes the folder a ledger: the version file is the last thing that creation writes.
    pub fn finish_creation(&mut self) -> Result<(), StoreError> {
        self.dirty.sync()?;
        let path = self.folder.version_path();
        self.dirty.mark_parent(&self.folder.root);
        self.place(&path, VERSION_TEXT.as_bytes())?;
        Ok(self.dirty.sync()?)
    }

    fn lock(folder: Folder) -> Result<Self, StoreError> {
        let path = folder.state("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(DiskError::at(DiskAction::Open, &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { folder, dirty: DirtyDirectories::default(), temporaries: 0, _lock: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::Locked { folder: folder.root }),
            Err(error) => Err(DiskError::at(DiskAction::Lock, &path)(error.into()).into()),
        }
    }

    /// Removes what a crash left half written. Nothing else lives in that directory.
    fn clear_temporaries(&self) -> Result<(), DiskError> {
        let directory = self.folder.temporary_directory();
        for entry in fs::read_dir(&directory).map_err(DiskError::at(DiskAction::List, &directory))? {
            let path = entry.map_err(DiskError::at(DiskAction::List, &directory))?.path();
            fs::remove_file(&path).map_err(DiskError::at(DiskAction::Remove, &path))?;
        }
        Ok(())
    }

    /// The paths.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Writes a tile or bundle that must not change ever after. If it is there already its content must be the same:
    /// an integration that a crash interrupted is simply done again.
    pub fn put_once(&mut self, coordinate: &TileCoordinate, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.folder.tile_path(coordinate);
        match disk::read_limited(&path, BUNDLE_BYTES_MAX) {
            Ok(present) if present == bytes => {
                // The rename may not have reached the disk before the crash.
                self.dirty.mark_up_to(&self.folder.root, &path);
                return Ok(());
            }
            Ok(_) => return Err(StoreError::Differs { path: coordinate.to_string() }),
            Err(error) if error.is_missing() => (),
            Err(error) => return Err(error.into()),
        }
        if let Some(parent) = path.parent() {
            disk::create_directories(parent, &mut self.dirty)?;
        }
        Ok(self.place(&path, bytes)?)
    }

    /// Publishes a checkpoint. Everything that it covers must be synced before.
    pub fn put_checkpoint(&mut self, note: &str) -> Result<(), StoreError> {
        let path = self.folder.checkpoint_path();
        self.place(&path, note.as_bytes())?;
        Ok(self.dirty.sync()?)
    }

    /// Makes the names of all files written so far durable.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        Ok(self.dirty.sync()?)
    }

    /// Removes the partial forms of a tile that is full and durable.
    pub fn remove_partials(&mut self, full: &TileCoordinate) -> Result<(), StoreError> {
        let directory = self.folder.root.join(full.partials_path());
        match fs::remove_dir_all(&directory) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(DiskError::at(DiskAction::Remove, &directory)(error).into()),
        }
    }

    fn place(&mut self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        let temporary = self.folder.temporary_directory().join(self.temporaries.to_string());
        self.temporaries += 1;
        disk::write_synced(&temporary, bytes)?;
        disk::rename(&temporary, path)?;
        self.dirty.mark_up_to(&self.folder.root, path);
        Ok(())
    }
}
