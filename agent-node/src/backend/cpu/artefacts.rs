//! Compiled artefacts by key, in a folder that several nodes may share, bounded by its size.

use fleet_config::domain::Digest;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The cache of one device.
#[derive(Debug, Clone)]
pub struct ArtefactCache {
    folder: PathBuf,
    bytes_max: u64,
}

impl ArtefactCache {
    /// A cache in `folder`, which is made when it is needed. When the artefacts take more than `bytes_max`, those that
    /// were used least lately go until three quarters are left.
    pub fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self { folder, bytes_max }
    }

    /// The folder, for what is shared by all artefacts.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn shelf(&self) -> PathBuf {
        self.folder.join("artefacts")
    }

    fn place(&self, key: Digest) -> PathBuf {
        self.shelf().join(format!("{key}.so"))
    }

    /// Links the artefact of `key` to `target`; false if there is none.
    pub(super) fn take(&self, key: Digest, target: &Path) -> io::Result<bool> {
        let place = self.place(key);
        let Ok(file) = fs::File::open(&place) else { return Ok(false) };
        let now = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        };
        // Of another user on a shared cache: then it counts as old.
        let _ = futimens(&file, &now);
        match link(&place, target) {
            Ok(()) => Ok(true),
            // Cleared by another node between the two calls.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Adds `made` under `key`; a reader sees all of it or nothing.
    pub(super) fn keep(&self, key: Digest, made: &Path) -> io::Result<()> {
        let shelf = self.shelf();
        fs::create_dir_all(&shelf)?;
        let beside = shelf.join(format!("{key}.part-{}", std::process::id()));
        link(made, &beside)?;
        // Renaming a link onto a link of the same file does nothing and leaves both names.
        fs::rename(&beside, self.place(key))?;
        let _ = fs::remove_file(&beside);
        self.prune()
    }

    fn prune(&self) -> io::Result<()> {
        let (mut files, mut total) = (Vec::new(), 0_u64);
        for entry in fs::read_dir(self.shelf())? {
            let entry = entry?;
            // Another node may have removed it meanwhile.
            let Ok(found) = entry.metadata() else { continue };
            total = total.saturating_add(found.len());
            files.push((found.modified()?, found.len(), entry.path()));
        }
        if total <= self.bytes_max {
            return Ok(());
        }
        files.sort();
        for (_, bytes, path) in files {
            if total <= self.bytes_max / 4 * 3 {
                break;
            }
            let _ = fs::remove_file(&path);
            total = total.saturating_sub(bytes);
        }
        Ok(())
    }
}

/// A second name, or a copy on another file system.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::remove_file(to) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    match fs::hard_link(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => fs::copy(from, to).map(|_| ()),
        linked => linked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    fn key(number: u8) -> Digest {
        Digest([number; 32])
    }

    /// Kept long ago, the larger numbers later.
    fn put(cache: &ArtefactCache, folder: &Path, number: u8, bytes: usize) {
        let made = folder.join(format!("made-{number}"));
        fs::write(&made, vec![number; bytes]).unwrap();
        cache.keep(key(number), &made).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(number));
        fs::File::open(cache.place(key(number))).unwrap().set_modified(then).unwrap();
    }

    #[test]
    fn an_artefact_in_use_outlives_its_place_in_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ArtefactCache::new(folder.path().join("cache"), 1000);
        let mine = folder.path().join("mine.so");
        assert!(!cache.take(key(1), &mine).unwrap());
        put(&cache, folder.path(), 1, 100);
        assert!(cache.take(key(1), &mine).unwrap());
        fs::remove_dir_all(cache.shelf()).unwrap();
        assert_eq!(fs::read(&mine).unwrap(), [1; 100]);
        assert!(!cache.take(key(1), &mine).unwrap());
    }

    #[test]
    fn a_full_cache_lets_go_of_what_was_used_least_lately() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ArtefactCache::new(folder.path().join("cache"), 1000);
        for number in 1..=9 {
            put(&cache, folder.path(), number, 100);
        }
        assert!(cache.take(key(1), &folder.path().join("mine")).unwrap(), "nothing went so far");
        put(&cache, folder.path(), 10, 300);
        let is_kept = |number| cache.place(key(number)).exists();
        assert!(is_kept(1) && is_kept(10), "just used");
        assert_eq!((1..=10).filter(|number| is_kept(*number)).count(), 5, "750 of 1000 bytes at most");
        assert!(!is_kept(2) && is_kept(9));
        assert_eq!(fs::read_dir(cache.shelf()).unwrap().count(), 5, "no names are left behind");
        // The same key again replaces it.
        put(&cache, folder.path(), 9, 50);
        assert_eq!(fs::read(cache.place(key(9))).unwrap(), [9; 50]);
    }
}
