//! The state folder of a node: one owner, private files, writes that a crash cannot tear.
//!
//! ```text
//! <state>/lock               held by the node that runs on it
//! <state>/keys/              tls.key.der, signing (0600)
//! <state>/coordinator.json   the pinned coordinator, after the first welcome
//! <state>/checkpoint         newest checkpoint seen
//! <state>/outbox/            signed results that are not yet acknowledged
//! <state>/promises/          what the coordinator promised about them
//! <state>/blob/              blobs fetched from the coordinator
//! ```

use fleet_config::refusal::Refusal;
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, flock, futimens};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// A state folder that this process owns.
#[derive(Debug)]
pub struct NodeFolder {
    path: PathBuf,
    _lock: File,
}

impl NodeFolder {
    /// Opens the folder, makes it if it is absent, and takes its lock.
    pub fn open(path: &Path) -> Result<Self, Refusal> {
        let place = path.display().to_string();
        make(path).map_err(|error| io(&place, &error))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(path.join("lock")).map_err(|error| io(&place, &error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Refusal::new(
                    "state/in-use",
                    place,
                    "another node runs on this folder",
                    "stop it, or name another --state folder",
                ));
            }
            Err(error) => return Err(io(&place, &error.into())),
        }
        let folder = Self { path: path.to_owned(), _lock: lock };
        for part in [folder.keys(), folder.outbox(), folder.promises(), folder.blobs()] {
            make(&part).map_err(|error| io(&part.display().to_string(), &error))?;
        }
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
    pub fn keys(&self) -> PathBuf {
        self.path.join("keys")
    }
    pub fn pin(&self) -> PathBuf {
        self.path.join("coordinator.json")
    }
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint")
    }
    pub fn outbox(&self) -> PathBuf {
        self.path.join("outbox")
    }
    pub fn promises(&self) -> PathBuf {
        self.path.join("promises")
    }
    pub fn blobs(&self) -> PathBuf {
        self.path.join("blob")
    }
}

/// Makes a 0700 folder with its parents.
pub(super) fn make(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Syncs the entries of a folder.
pub(super) fn sync_folder(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

/// Reads a file that must be private to its owner; `None` if it does not exist.
pub(super) fn read_private(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, Refusal> {
    let place = path.display().to_string();
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(&place, &error)),
    };
    let mode = file.metadata().map_err(|error| io(&place, &error))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Refusal::new(
            "state/secret-readable",
            &place,
            format!("this secret can be read by others (mode {:03o})", mode & 0o777),
            "run `chmod 600` on it and consider the key known to others",
        ));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.read_to_end(&mut bytes).map_err(|error| io(&place, &error))?;
    Ok(Some(bytes))
}

/// Reads at most `limit` bytes of a file; `None` if it does not exist.
pub(super) fn read_bounded(path: &Path, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut bytes)? as u64;
    if read > limit { Err(ErrorKind::FileTooLarge.into()) } else { Ok(Some(bytes)) }
}

/// Writes a new 0600 file and syncs it; its folder is the caller's to sync.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Replaces a 0600 file so that a crash leaves the old one or the new one.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
    write_new(&temporary, bytes)?;
    std::fs::rename(&temporary, path)?;
    match path.parent() {
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}

/// Says that a file was used now; where that fails it counts as old.
pub(super) fn touch(path: &Path) {
    let now = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    let _ = File::open(path).map(|file| futimens(&file, &now));
}

/// The refusal that an I/O error on `place` becomes.
pub(super) fn io(place: &str, error: &std::io::Error) -> Refusal {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Refusal::new(
            "state/not-writable",
            place,
            error.to_string(),
            "name a folder that this user may write with --state, or mount it writable",
        ),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Refusal::new(
            "state/disk-full",
            place,
            error.to_string(),
            "free space on this file system, then start again",
        ),
        _ => Refusal::new("state/io", place, error.to_string(), "check the folder and its file system"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let first = NodeFolder::open(folder.path()).unwrap();
        assert_eq!(NodeFolder::open(folder.path()).unwrap_err().code, "state/in-use");
        drop(first);
        NodeFolder::open(folder.path()).unwrap();
    }

    #[test]
    fn bounded_reads_refuse_what_is_longer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert_eq!(read_bounded(&path, 4).unwrap(), None);
        replace(&path, b"four").unwrap();
        assert_eq!(read_bounded(&path, 4).unwrap(), Some(b"four".to_vec()));
        assert!(read_bounded(&path, 3).is_err());
    }
}
