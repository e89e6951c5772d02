//! Blobs that came from the coordinator, by blake3: written beside, checked, synced, renamed.
//!
//! `<state>/blob/blake3/<first 2 hex>/<64 hex>`. A blob that is read is checked again, so that a damaged disk
//! costs a transfer and never a verdict.

use super::folder;
use fleet_config::domain::{BlobRef, Digest, Sha256};
use fleet_config::state;
use sha2::Digest as _;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The cache. Clones share it.
#[derive(Debug, Clone)]
pub struct BlobCache {
    folder: PathBuf,
    counter: Arc<AtomicU64>,
    bytes_max: u64,
    /// Bytes here, as far as this process knows.
    bytes: Arc<AtomicU64>,
}

/// Why bytes did not become a blob.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("the bytes are not those of blob {0}")]
    Differs(Digest),
}

impl BlobCache {
    /// Opens the cache and clears half-written files. When it holds more than `bytes_max`, blobs that were used least
    /// lately go until three quarters are left; who still wants one fetches it again.
    pub fn open(folder: &Path, bytes_max: u64) -> std::io::Result<Self> {
        let incoming = folder.join("incoming");
        if incoming.exists() {
            std::fs::remove_dir_all(&incoming)?;
        }
        state::make_folder(&incoming)?;
        state::make_folder(&folder.join("blake3"))?;
        let cache =
            Self { folder: folder.to_owned(), counter: Arc::default(), bytes_max, bytes: Arc::default() };
        cache.prune()?;
        Ok(cache)
    }

    fn prune(&self) -> std::io::Result<()> {
        let (mut blobs, mut total) = (Vec::new(), 0_u64);
        for shelf in std::fs::read_dir(self.folder.join("blake3"))? {
            for blob in std::fs::read_dir(shelf?.path())? {
                let blob = blob?;
                let Ok(found) = blob.metadata() else { continue };
                total = total.saturating_add(found.len());
                blobs.push((found.modified()?, found.len(), blob.path()));
            }
        }
        if total > self.bytes_max {
            blobs.sort();
            for (_, bytes, path) in blobs {
                if total <= self.bytes_max / 4 * 3 {
                    break;
                }
                std::fs::remove_file(path)?;
                total = total.saturating_sub(bytes);
            }
        }
        self.bytes.store(total, Ordering::Relaxed);
        Ok(())
    }

    /// Where the blob lies, whether or not it is there.
    pub fn path(&self, blob: &BlobRef) -> PathBuf {
        let name = blob.blake3.to_string();
        self.folder.join("blake3").join(&name[..2]).join(name)
    }

    /// The bytes of a blob, if they are there and right. Wrong ones are removed.
    pub fn read(&self, blob: &BlobRef) -> std::io::Result<Option<Vec<u8>>> {
        let path = self.path(blob);
        let Ok(found) = state::read_bounded(&path, blob.size) else {
            std::fs::remove_file(&path)?;
            return Ok(None);
        };
        match found {
            Some(bytes) if BlobRef::of(&bytes) == *blob => {
                folder::touch(&path);
                Ok(Some(bytes))
            }
            Some(_) => {
                tracing::warn!(blob = %blob.blake3, "a cached blob was damaged; it is fetched again");
                std::fs::remove_file(&path)?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Starts to take a blob in.
    pub(super) fn begin(&self, blob: BlobRef) -> std::io::Result<Incoming> {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join("incoming").join(number.to_string());
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let (blake3, sha256) = (blake3::Hasher::new(), sha2::Sha256::new());
        Ok(Incoming { cache: self.clone(), blob, path, file, blake3, sha256, size: 0 })
    }
}

/// A blob on its way in; dropped unfinished it leaves nothing behind.
pub(super) struct Incoming {
    cache: BlobCache,
    blob: BlobRef,
    path: PathBuf,
    file: File,
    blake3: blake3::Hasher,
    sha256: sha2::Sha256,
    size: u64,
}

impl Incoming {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), CacheError> {
        self.size += bytes.len() as u64;
        if self.size > self.blob.size {
            return Err(CacheError::Differs(self.blob.blake3));
        }
        self.blake3.update(bytes);
        self.sha256.update(bytes);
        Ok(self.file.write_all(bytes)?)
    }

    /// Checks size and digests, and gives the file its name.
    pub(super) fn commit(self) -> Result<(), CacheError> {
        let found = BlobRef {
            blake3: Digest(*self.blake3.finalize().as_bytes()),
            sha256: Sha256(self.sha256.clone().finalize().into()),
            size: self.size,
        };
        if found != self.blob {
            return Err(CacheError::Differs(self.blob.blake3));
        }
        self.file.sync_all()?;
        let path = self.cache.path(&self.blob);
        let shelf = path.parent().unwrap_or(&self.cache.folder);
        state::make_folder(shelf)?;
        std::fs::rename(&self.path, &path)?;
        state::sync_folder(shelf)?;
        if self.cache.bytes.fetch_add(self.size, Ordering::Relaxed) + self.size > self.cache.bytes_max {
            self.cache.prune()?;
        }
        Ok(())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // After a commit the file has its name and nothing is here; a leftover is cleared at the next start.
        let _gone = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn only_the_declared_bytes_get_in() {
        let folder = tempfile::tempdir().unwrap();
        let cache = BlobCache::open(folder.path(), 1000).unwrap();
        let blob = BlobRef::of(b"right");
        assert_eq!(cache.read(&blob).unwrap(), None);
        let mut wrong = cache.begin(blob).unwrap();
        wrong.write(b"wrong").unwrap();
        assert!(matches!(wrong.commit(), Err(CacheError::Differs(_))));
        let mut short = cache.begin(blob).unwrap();
        short.write(b"righ").unwrap();
        assert!(short.commit().is_err());
        assert!(cache.begin(blob).unwrap().write(b"right and more").is_err());
        assert_eq!(cache.read(&blob).unwrap(), None);
        let mut right = cache.begin(blob).unwrap();
        right.write(b"ri").unwrap();
        right.write(b"ght").unwrap();
        right.commit().unwrap();
        assert_eq!(cache.read(&blob).unwrap().unwrap(), b"right");
        assert_eq!(std::fs::read_dir(folder.path().join("incoming")).unwrap().count(), 0);
    }

    #[test]
    fn a_full_cache_keeps_what_was_used_last() {
        let folder = tempfile::tempdir().unwrap();
        let cache = BlobCache::open(folder.path(), 1000).unwrap();
        let put = |number: u8, bytes: usize| {
            let bytes = vec![number; bytes];
            let mut incoming = cache.begin(BlobRef::of(&bytes)).unwrap();
            incoming.write(&bytes).unwrap();
            incoming.commit().unwrap();
            let blob = BlobRef::of(&bytes);
            let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(number));
            File::open(cache.path(&blob)).unwrap().set_modified(long_ago).unwrap();
            blob
        };
        let blobs: Vec<BlobRef> = (1..=9).map(|number| put(number, 100)).collect();
        assert!(cache.read(&blobs[0]).unwrap().is_some());
        let last = put(10, 300);
        let is_kept = |blob: &BlobRef| cache.path(blob).exists();
        assert!(is_kept(&blobs[0]) && is_kept(&last) && !is_kept(&blobs[1]));
        assert_eq!(blobs.iter().filter(|blob| is_kept(blob)).count(), 4, "750 of 1000 bytes at most");
        // Another size at the next start is obeyed at once.
        BlobCache::open(folder.path(), 100).unwrap();
        assert_eq!(blobs.iter().chain([&last]).filter(|blob| is_kept(blob)).count(), 0, "75 bytes hold none");
    }

    #[test]
    fn a_damaged_blob_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let cache = BlobCache::open(folder.path(), 1000).unwrap();
        let blob = BlobRef::of(b"right");
        for damage in ["wrong", "longer than right", ""] {
            let mut incoming = cache.begin(blob).unwrap();
            incoming.write(b"right").unwrap();
            incoming.commit().unwrap();
            std::fs::write(cache.path(&blob), damage).unwrap();
            assert_eq!(cache.read(&blob).unwrap(), None);
            assert!(!cache.path(&blob).exists());
        }
    }
}
