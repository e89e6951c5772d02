//! The state folder of a node as the session sees it: where its parts lie, and the lock of the node that runs on it.
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
use fleet_config::state::{self, Lock};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A state folder that this process owns.
#[derive(Debug)]
pub struct NodeFolder {
    path: PathBuf,
    _lock: File,
}

impl NodeFolder {
    /// Opens the folder, makes it if it is absent, and takes its lock.
    pub fn open(path: &Path) -> Result<Self, Refusal> {
        state::make_folder(path).map_err(state::at(path))?;
        let lock = match state::lock(&path.join("lock"))? {
            Lock::Taken(lock) => lock,
            Lock::Busy(_) => {
                return Err(Refusal::new(
                    "state/in-use",
                    path.display().to_string(),
                    "another node runs on this folder",
                    "stop it, or name another --state folder",
                ));
            }
        };
        let folder = Self { path: path.to_owned(), _lock: lock };
        for part in [folder.keys(), folder.outbox(), folder.promises(), folder.blobs()] {
            state::make_folder(&part).map_err(state::at(&part))?;
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

/// Says that a file was used now; where that fails it counts as old.
pub(super) fn touch(path: &Path) {
    let now = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    let _ = File::open(path).map(|file| futimens(&file, &now));
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
}
