//! A whole ledger folder with damage: verification never panics, and what it passes is what was signed.

use super::entry::fixture::{ORIGIN, World, mismatch, series};
use super::entry::predicate::Consequence;
use super::{Cursor, Target};
use ed25519_dalek::SigningKey;
use fleet_config::domain::Outcome;
use ledger::blob::BlobStore;
use ledger::log::{LogReader, LogSigner, LogWriter, VerifierKey};
use ledger::verify::verify_ledger;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub(crate) const LEDGER_FOLDER: Target =
    Target::new("ledger-folder", run, seeds).length(256).memory(64 << 20);

/// Most changes of one input; one change that verification misses is as bad as ten.
const CHANGES_MAX: usize = 8;

fn signer() -> LogSigner {
    LogSigner::new(ORIGIN, SigningKey::from_bytes(&[8; 32])).expect("the origin is a name")
}

/// A sound folder, its files, and what its log says.
struct Sample {
    folder: PathBuf,
    files: BTreeMap<PathBuf, Vec<u8>>,
    entries: Vec<Vec<u8>>,
    /// Entries under the checkpoint; the others are in the WAL.
    signed: u64,
    verifier: VerifierKey,
    /// Held so that the folder lasts as long as the process.
    _directory: tempfile::TempDir,
}

impl Sample {
    fn make() -> Self {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
            .expect("a folder");
        let folder = directory.path().join("ledger");
        let mut world = World::new();
        let mut sealed = world.opening();
        let first = world.candidate("fast");
        let second = world.candidate("wrong");
        let grants = [world.grant(&first, 1), world.grant(&second, 2), world.grant(&second, 3)];
        sealed.push(world.granted(&grants));
        let good = world.result(&grants[0], Outcome::ok(), &[series("small", 2000, 1000, 10)]);
        sealed.push(world.sealed_result(&first, good));
        sealed.push(world.lost(&second, &grants[1], Consequence::Retried));
        let bad = world.result(&grants[2], mismatch(), &[]);
        sealed.push(world.sealed_result(&second, bad));
        let late = world.result(&grants[1], mismatch(), &[]);
        let late = world.sealed_result(&second, late);
        sealed.push(world.refused(&grants[1], &late));
        let entries: Vec<Vec<u8>> = sealed.into_iter().map(|sealed| sealed.bytes).collect();
        let mut writer = LogWriter::create(&folder, signer()).expect("a new log");
        let blobs = BlobStore::open(&folder);
        for bytes in world.blobs.values() {
            blobs.put(bytes).expect("the store takes a blob");
        }
        blobs.sync().expect("the store syncs");
        let signed = entries.len() - 2;
        writer.append_batch(&entries[..signed]).expect("the log takes entries");
        writer.integrate().expect("the log integrates");
        writer.append_batch(&entries[signed..]).expect("the log takes entries");
        drop(writer);
        let mut files = BTreeMap::new();
        collect(&folder, &mut files);
        files.remove(&folder.join(".state/lock"));
        let verifier = signer().verifier().clone();
        Self { folder, files, entries, signed: signed as u64, verifier, _directory: directory }
    }

    fn shared() -> &'static Self {
        static SAMPLE: OnceLock<Sample> = OnceLock::new();
        SAMPLE.get_or_init(Self::make)
    }

    /// Puts every file back as it was.
    fn restore(&self) {
        let mut now = BTreeMap::new();
        collect(&self.folder, &mut now);
        for path in now.keys().filter(|path| !self.files.contains_key(*path)) {
            std::fs::remove_file(path).expect("a file can be removed");
        }
        for (path, bytes) in self.files.iter().filter(|(path, bytes)| now.get(*path) != Some(bytes)) {
            std::fs::create_dir_all(path.parent().expect("files lie in folders"))
                .expect("a folder can be made");
            std::fs::write(path, bytes).expect("a file can be written");
        }
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("an entry is readable").path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.insert(path.clone(), std::fs::read(&path).expect("a file is readable"));
        }
    }
}

fn run(data: &[u8]) {
    let sample = Sample::shared();
    let paths: Vec<&PathBuf> = sample.files.keys().collect();
    let mut cursor = Cursor::new(data);
    for _ in 0..CHANGES_MAX {
        if cursor.is_empty() {
            break;
        }
        damage(&mut cursor, &paths);
    }
    verify(sample);
    // A writer that opens such a folder refuses it or goes on from entries that were there.
    if let Ok((writer, _)) = LogWriter::open(&sample.folder, signer()) {
        assert!(writer.size() >= sample.signed || writer.size() == 0, "a writer lost signed entries");
        drop(writer);
    }
    sample.restore();
}

/// What passes has the signed checkpoint, and every entry that it hands out is the one that was written there.
fn verify(sample: &Sample) {
    let key = sample.verifier.to_string();
    let (report, _) = verify_ledger(&sample.folder, &key).expect("the key is one");
    if report.passes() {
        assert_eq!(report.checkpoint_size, Some(sample.signed), "another checkpoint passes");
        assert!(report.size >= sample.signed && report.size <= sample.entries.len() as u64);
        let reader = LogReader::open(&sample.folder, &sample.verifier).expect("what passes can be read");
        for index in 0..report.size {
            let entry =
                reader.entry(fleet_config::domain::LeafIndex(index)).expect("a counted entry is there");
            assert_eq!(entry, sample.entries[index as usize], "entry {index} is another and passes");
        }
        // Blobs that entries name must be theirs; the WAL may have lost its tail, and folders that are listed nowhere
        // may be missing.
        for (path, bytes) in &sample.files {
            if path.starts_with(sample.folder.join("tile")) {
                assert_eq!(std::fs::read(path).ok().as_ref(), Some(bytes), "{} passes", path.display());
            }
        }
    }
}

/// One change to one file.
fn damage(cursor: &mut Cursor<'_>, paths: &[&PathBuf]) {
    let path = *cursor.pick(paths);
    let Ok(mut bytes) = std::fs::read(path) else { return };
    let kind = cursor.byte();
    let at = usize::from(cursor.short()) % (bytes.len() + 1);
    match kind % 8 {
        0 => {
            let value = cursor.byte();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= value;
            }
        }
        1 => bytes.truncate(at),
        2 => {
            let more = cursor.bytes(16).to_vec();
            bytes.splice(at..at, more);
        }
        3 => {
            let end = (at + usize::from(cursor.byte())).min(bytes.len());
            bytes.drain(at..end);
        }
        4 => {
            let end = (at + 512).min(bytes.len());
            bytes[at..end].fill(0);
        }
        5 => {
            // The bytes of another file of the same folder.
            let Ok(other) = std::fs::read(*cursor.pick(paths)) else { return };
            bytes = other;
        }
        6 => {
            let _ = std::fs::remove_file(path);
            return;
        }
        _ => {
            let name = format!("stray-{}", cursor.byte() % 4);
            let _ = std::fs::write(path.with_file_name(name), cursor.bytes(32));
            return;
        }
    }
    std::fs::write(path, bytes).expect("a file can be written");
}

fn seeds() -> Vec<Vec<u8>> {
    (0..40).flat_map(|file| (0..8).map(move |kind| vec![file, kind, 40, 0, 1, 2, 3, 4])).collect()
}
