//! Blobs: content beside the ledger, addressed by blake3, written once.
//!
//! `<ledger>/blob/blake3/<first 2 hex>/<64 hex>`. A blob is in its place only when it is whole, synced and equal to
//! its name; its directory entry is durable after [`BlobStore::sync`], which a batch calls once before its entries
//! are committed. Whoever relies on a blob that was there before ([`BlobStore::contains`], [`BlobStore::put`]) gets
//! the same promise: a process that died after the rename may not have synced the directory, and nothing shows that,
//! so each directory counts as unsynced until this process has synced it once.

use crate::disk::{self, DirtyDirectories, DiskAction, DiskError};
use fleet_config::domain::{BlobRef, Digest, Sha256};
use sha2::Digest as _;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Read from a stream at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// Why a blob was not stored or not read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("cannot read the incoming blob: {0}")]
    Stream(#[source] io::Error),
    #[error("blob {blake3} is not in the store")]
    Missing { blake3: Digest },
    #[error("blob {blake3} has {bytes} bytes, at most {bytes_max} are allowed here")]
    TooLarge { blake3: Digest, bytes: u64, bytes_max: u64 },
    #[error("blob {blake3} was announced with {declared} bytes, {received} came")]
    Size { blake3: Digest, declared: u64, received: u64 },
    #[error("what came is not blob {blake3}: its digests differ")]
    Digest { blake3: Digest },
    #[error("blob {blake3} in the store is damaged: its content differs from its name")]
    Damaged { blake3: Digest },
    #[error("the blob store stopped after a failed sync and must be opened again: {cause}")]
    Stopped { cause: String },
}

/// What is to be made durable, and whether that is still possible.
#[derive(Debug, Default)]
struct Durability {
    dirty: DirtyDirectories,
    /// Directories that this process has synced: what stood in them when it started is durable.
    settled: BTreeSet<PathBuf>,
    /// Directories in `dirty` that become settled by the next sync.
    settling: BTreeSet<PathBuf>,
    /// Set by a failed sync: what it covered may be lost without another error.
    stopped: Option<String>,
}

impl Durability {
    /// Somebody relies on a blob that an earlier process may have left unsynced.
    fn rely_on(&mut self, ledger: &Path, path: &Path) {
        let above = path.ancestors().skip(1).take_while(|directory| directory.starts_with(ledger));
        for directory in above {
            if !self.settled.contains(directory) {
                self.dirty.mark(directory);
                self.settling.insert(directory.to_path_buf());
            }
        }
    }

    /// Syncs each marked directory once; a failure stops the store.
    fn sync(&mut self) -> Result<(), DiskError> {
        match self.dirty.sync() {
            Ok(()) => {
                self.settled.append(&mut self.settling);
                Ok(())
            }
            Err(error) => {
                self.stopped = Some(error.to_string());
                Err(error)
            }
        }
    }
}

/// The blobs of one ledger folder. Threads may share it; one process writes.
#[derive(Debug)]
pub struct BlobStore {
    ledger: PathBuf,
    root: PathBuf,
    durability: Mutex<Durability>,
    temporaries: AtomicU64,
}

impl BlobStore {
    /// The store in a ledger folder. Nothing is touched before the first write.
    pub fn open(ledger: &Path) -> Self {
        let durability = Mutex::new(Durability::default());
        let root = ledger.join("blob");
        Self { ledger: ledger.to_path_buf(), root, durability, temporaries: AtomicU64::new(0) }
    }

    /// Where a blob is, if it is there.
    pub fn path(&self, blake3: &Digest) -> PathBuf {
        let name = blake3.to_string();
        self.root.join("blake3").join(&name[..2]).join(name)
    }

    /// Whether the store has a blob of this name; if so, it is durable after the next [`Self::sync`]. Its content is
    /// checked when it is read.
    pub fn contains(&self, blake3: &Digest) -> bool {
        let path = self.path(blake3);
        let is_there = path.is_file();
        if is_there {
            // A store that has stopped syncs nothing, and then no entry is committed either.
            let mut state = self.durability.lock().unwrap_or_else(PoisonError::into_inner);
            state.rely_on(&self.ledger, &path);
        }
        is_there
    }

    /// Stores content that is in memory. Durable after the next [`Self::sync`].
    pub fn put(&self, bytes: &[u8]) -> Result<BlobRef, BlobError> {
        let blob = BlobRef::of(bytes);
        let path = self.path(&blob.blake3);
        match disk::read_limited(&path, blob.size) {
            Ok(present) if present == bytes => {
                self.lock()?.rely_on(&self.ledger, &path);
                return Ok(blob);
            }
            Ok(_) => tracing::warn!(blake3 = %blob.blake3, "replacing a damaged blob"),
            Err(error) if error.is_missing() => (),
            Err(error) => tracing::warn!(%error, "replacing a blob that cannot be read"),
        }
        let mut upload = self.receive(&blob, blob.size)?;
        upload.write(bytes)?;
        self.finish(upload)?;
        Ok(blob)
    }

    /// Begins to take a blob that a peer announced. Fails at once if it announces more than `bytes_max`.
    pub fn receive(&self, declared: &BlobRef, bytes_max: u64) -> Result<BlobUpload, BlobError> {
        let BlobRef { blake3, size, .. } = *declared;
        if size > bytes_max {
            return Err(BlobError::TooLarge { blake3, bytes: size, bytes_max });
        }
        let directory = self.temporary_directory();
        disk::create_directories(&directory, &mut self.lock()?.dirty)?;
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("{}-{number}", process::id()));
        let file = File::create(&path).map_err(DiskError::at(DiskAction::Create, &path))?;
        Ok(BlobUpload {
            declared: *declared,
            temporary: Temporary(path),
            file,
            received: 0,
            blake3: blake3::Hasher::new(),
            sha256: sha2::Sha256::new(),
        })
    }

    /// Ends an upload: only what equals its announcement gets a name. Durable after the next [`Self::sync`].
    pub fn finish(&self, upload: BlobUpload) -> Result<(), BlobError> {
        let BlobUpload { declared, temporary, file, received, blake3, sha256 } = upload;
        let BlobRef { blake3: name, size, .. } = declared;
        if received != size {
            return Err(BlobError::Size { blake3: name, declared: size, received });
        }
        let found = (Digest(*blake3.finalize().as_bytes()), Sha256(sha256.finalize().into()));
        if found != (name, declared.sha256) {
            return Err(BlobError::Digest { blake3: name });
        }
        file.sync_all().map_err(DiskError::at(DiskAction::Sync, &temporary.0))?;
        let path = self.path(&name);
        let mut state = self.lock()?;
        if let Some(parent) = path.parent() {
            disk::create_directories(parent, &mut state.dirty)?;
        }
        disk::rename(&temporary.0, &path)?;
        // We may die here: the blob is there or not, and no entry that names it is committed yet.
        state.dirty.mark_up_to(&self.ledger, &path);
        Ok(())
    }

    /// Takes a whole blob from a blocking stream.
    pub fn put_stream(
        &self,
        declared: &BlobRef,
        bytes_max: u64,
        stream: &mut impl Read,
    ) -> Result<(), BlobError> {
        let mut upload = self.receive(declared, bytes_max)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return self.finish(upload),
                Ok(count) => upload.write(&buffer[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(BlobError::Stream(error)),
            }
        }
    }

    /// Makes the names of all blobs stored so far durable, each directory synced once. To be called before the entries
    /// that name them are committed.
    pub fn sync(&self) -> Result<(), BlobError> {
        Ok(self.lock()?.sync()?)
    }

    /// The content of a blob of at most `bytes_max` bytes, checked against its name.
    pub fn read(&self, blob: &BlobRef, bytes_max: u64) -> Result<Vec<u8>, BlobError> {
        let BlobRef { blake3, size, .. } = *blob;
        if size > bytes_max {
            return Err(BlobError::TooLarge { blake3, bytes: size, bytes_max });
        }
        let Some(bytes) = self.read_unchecked(&blake3, bytes_max)? else {
            return Err(BlobError::Missing { blake3 });
        };
        if bytes.len() as u64 != size || Digest::of(&bytes) != blake3 {
            return Err(BlobError::Damaged { blake3 });
        }
        Ok(bytes)
    }

    /// Whatever stands under this name, for a reader that checks it itself; none if nothing does.
    pub fn read_unchecked(&self, blake3: &Digest, bytes_max: u64) -> Result<Option<Vec<u8>>, BlobError> {
        match disk::read_limited(&self.path(blake3), bytes_max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a blob. To be called after the erasure entry is committed; doing it again does no harm.
    pub fn erase(&self, blake3: &Digest) -> Result<(), BlobError> {
        let path = self.path(blake3);
        match fs::remove_file(&path) {
            Ok(()) => self.lock()?.dirty.mark_parent(&path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (),
            Err(error) => return Err(DiskError::at(DiskAction::Remove, &path)(error).into()),
        }
        Ok(())
    }

    /// Removes what interrupted uploads left. For the one writing process, before it takes uploads.
    pub fn clear_temporaries(&self) -> Result<(), BlobError> {
        let directory = self.temporary_directory();
        match fs::remove_dir_all(&directory) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(DiskError::at(DiskAction::Remove, &directory)(error).into()),
        }
    }

    fn temporary_directory(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// A panic of another thread leaves the marks of a set, which are whole at every moment.
    fn lock(&self) -> Result<MutexGuard<'_, Durability>, BlobError> {
        let state = self.durability.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.stopped {
            None => Ok(state),
            Some(cause) => Err(BlobError::Stopped { cause: cause.clone() }),
        }
    }
}

/// A blob on its way in. Dropping it forgets what came.
#[derive(Debug)]
pub struct BlobUpload {
    declared: BlobRef,
    temporary: Temporary,
    file: File,
    received: u64,
    blake3: blake3::Hasher,
    sha256: sha2::Sha256,
}

impl BlobUpload {
    /// Takes the next bytes; refuses the first one too many.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let received = self.received.saturating_add(bytes.len() as u64);
        if received > self.declared.size {
            let BlobRef { blake3, size, .. } = self.declared;
            return Err(BlobError::Size { blake3, declared: size, received });
        }
        self.file.write_all(bytes).map_err(DiskError::at(DiskAction::Write, &self.temporary.0))?;
        self.blake3.update(bytes);
        self.sha256.update(bytes);
        self.received = received;
        Ok(())
    }
}

/// A file that is removed when it was not renamed into place.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the rename there is nothing under this name; a file that stays for another reason is removed by
        // the next start.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, BlobStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = BlobStore::open(&directory.path().join("ledger"));
        (directory, store)
    }

    /// Files anywhere in the store.
    fn files(directory: &Path) -> usize {
        let children = fs::read_dir(directory).into_iter().flatten().flatten();
        children.map(|child| if child.path().is_dir() { files(&child.path()) } else { 1 }).sum()
    }

    #[test]
    fn a_blob_is_found_under_its_hash_and_read_back() {
        let (directory, store) = store();
        let blob = store.put(b"content").unwrap();
        assert_eq!(blob, BlobRef::of(b"content"));
        store.sync().unwrap();
        let name = blob.blake3.to_string();
        let path = directory.path().join("ledger/blob/blake3").join(&name[..2]).join(&name);
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert!(store.contains(&blob.blake3));
        assert_eq!(store.read(&blob, 7).unwrap(), b"content");
        assert!(matches!(store.read(&blob, 6), Err(BlobError::TooLarge { bytes: 7, bytes_max: 6, .. })));
        assert_eq!(store.put(b"content").unwrap(), blob);
        assert_eq!(files(&directory.path().join("ledger")), 1);
        let empty = store.put(b"").unwrap();
        assert_eq!(store.read(&empty, 0).unwrap(), b"");
    }

    #[test]
    fn absent_damaged_and_erased_blobs_are_told_apart() {
        let (_directory, store) = store();
        let blob = store.put(b"content").unwrap();
        fs::write(store.path(&blob.blake3), b"c0ntent").unwrap();
        assert!(matches!(store.read(&blob, 100), Err(BlobError::Damaged { .. })));
        assert_eq!(store.read_unchecked(&blob.blake3, 100).unwrap().unwrap(), b"c0ntent");
        store.put(b"content").unwrap();
        assert_eq!(store.read(&blob, 100).unwrap(), b"content");
        fs::write(store.path(&blob.blake3), b"content and more").unwrap();
        assert!(matches!(store.read(&blob, 100), Err(BlobError::Damaged { .. })));
        store.erase(&blob.blake3).unwrap();
        store.erase(&blob.blake3).unwrap();
        store.sync().unwrap();
        assert!(matches!(store.read(&blob, 100), Err(BlobError::Missing { .. })));
        assert_eq!(store.read_unchecked(&blob.blake3, 100).unwrap(), None);
        assert!(!store.contains(&blob.blake3));
    }

    #[test]
    fn a_stream_is_kept_only_if_it_is_what_was_announced() {
        let (directory, store) = store();
        let bytes: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let declared = BlobRef::of(&bytes);
        store.put_stream(&declared, declared.size, &mut &bytes[..]).unwrap();
        assert_eq!(store.read(&declared, u64::MAX).unwrap(), bytes);
        store.put_stream(&declared, declared.size, &mut &bytes[..]).unwrap();

        let mut changed = bytes.clone();
        changed[100_000] ^= 1;
        let other = BlobRef::of(&changed);
        let wrong_sha256 = BlobRef { sha256: declared.sha256, ..other };
        let refuse = |declared: &BlobRef, bytes_max, stream: &[u8]| {
            store.put_stream(declared, bytes_max, &mut &stream[..]).unwrap_err()
        };
        assert!(matches!(refuse(&other, u64::MAX, &bytes), BlobError::Digest { .. }));
        assert!(matches!(refuse(&wrong_sha256, u64::MAX, &changed), BlobError::Digest { .. }));
        assert!(matches!(refuse(&other, other.size - 1, &changed), BlobError::TooLarge { .. }));
        assert!(matches!(refuse(&other, u64::MAX, &changed[1..]), BlobError::Size { .. }));
        let longer = [&changed[..], b"x"].concat();
        assert!(matches!(refuse(&other, u64::MAX, &longer), BlobError::Size { .. }));
        assert!(!store.contains(&other.blake3));
        assert_eq!(files(&directory.path().join("ledger")), 1);
    }

    #[test]
    fn what_interrupted_uploads_left_is_cleared() {
        let (directory, store) = store();
        store.clear_temporaries().unwrap();
        fs::create_dir_all(store.temporary_directory()).unwrap();
        fs::write(store.temporary_directory().join("1-0"), b"half").unwrap();
        let blob = store.put(b"whole").unwrap();
        store.clear_temporaries().unwrap();
        assert_eq!(files(&directory.path().join("ledger")), 1);
        assert_eq!(store.read(&blob, 5).unwrap(), b"whole");
        store.put(b"after").unwrap();
    }

    #[test]
    fn a_blob_that_an_earlier_process_left_is_synced_once_before_anything_relies_on_it() {
        let (directory, store) = store();
        let blob = store.put(b"content").unwrap();
        // The process dies here: renamed, and its directory never synced.
        drop(store);
        let ledger = directory.path().join("ledger");
        let store = BlobStore::open(&ledger);
        let is_dirty = |store: &BlobStore| !store.durability.lock().unwrap().dirty.is_empty();
        assert!(!is_dirty(&store), "what nobody relies on costs nothing");
        assert!(!store.contains(&Digest([0; 32])) && !is_dirty(&store));
        assert!(store.contains(&blob.blake3) && is_dirty(&store));
        let marked = store.durability.lock().unwrap().settling.clone();
        let shelf = store.path(&blob.blake3).parent().unwrap().to_path_buf();
        assert!(marked.contains(&shelf) && marked.contains(&ledger), "{marked:?}");
        store.sync().unwrap();
        assert!(store.contains(&blob.blake3) && !is_dirty(&store), "once is enough");
        let store = BlobStore::open(&ledger);
        store.put(b"content").unwrap();
        assert!(is_dirty(&store), "putting it again relies on it too");
        store.sync().unwrap();
        store.put(b"other").unwrap();
        assert!(is_dirty(&store), "a new name always waits for its sync");
    }

    #[test]
    fn a_failed_sync_stops_the_store() {
        let (directory, store) = store();
        store.put(b"content").unwrap();
        fs::remove_dir_all(directory.path().join("ledger")).unwrap();
        assert!(matches!(store.sync(), Err(BlobError::Disk(_))));
        assert!(matches!(store.put(b"more"), Err(BlobError::Stopped { .. })));
        assert!(matches!(store.sync(), Err(BlobError::Stopped { .. })));
    }
}
