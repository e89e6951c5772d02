//! Tests of the log as a whole: sizes, crashes at every fault point, damage, a stopped writer.

use super::store::StoreError;
use super::tree::{Frontier, leaf_hash};
use super::*;
use crate::fault::{self, FaultPoint};
use ed25519_dalek::SigningKey;
use fleet_config::domain::LeafIndex;
use recovery::RecoveryError;
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub(crate) fn signer() -> LogSigner {
    LogSigner::new("muster.invalid/0123456789abcdef", SigningKey::from_bytes(&[9; 32])).unwrap()
}

pub(crate) fn entries(range: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    range.map(|index| format!("{{\"entry\":{index}}}").into_bytes()).collect()
}

/// Appends `entries(from..to)` in batches and integrates once.
pub(crate) fn grow(writer: &mut LogWriter, to: u64) {
    while writer.size() < to {
        let end = to.min(writer.size() + 4096);
        let batch = entries(writer.size()..end);
        writer.append_batch(&batch).unwrap();
    }
    writer.integrate().unwrap();
}

/// A ledger folder whose checkpoints have exactly these sizes.
pub(crate) fn ledger(sizes: &[u64]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("ledger");
    let mut writer = LogWriter::create(&folder, signer()).unwrap();
    sizes.iter().for_each(|size| grow(&mut writer, *size));
    (directory, folder)
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

pub(crate) fn root(size: u64) -> fleet_config::domain::Sha256 {
    let mut frontier = Frontier::default();
    entries(0..size).iter().for_each(|entry| frontier.push(leaf_hash(entry)));
    frontier.root()
}

fn read_all(folder: &Path) -> Vec<Vec<u8>> {
    let reader = LogReader::open(folder, signer().verifier()).unwrap();
    reader.entries(0..u64::MAX).map(|entry| entry.unwrap().1).collect()
}

#[test]
fn logs_of_every_awkward_size_are_read_back_and_reopened() {
    for size in [0, 1, 2, 255, 256, 257, 513, 65_537] {
        let (_directory, folder) = ledger(&[size]);
        let reader = LogReader::open(&folder, signer().verifier()).unwrap();
        assert_eq!((reader.integrated_size(), reader.size()), (size, size));
        assert_eq!(reader.checkpoint().root, root(size), "size {size}");
        assert_eq!(read_all(&folder), entries(0..size), "size {size}");
        let (mut writer, report) = LogWriter::open(&folder, signer()).unwrap();
        assert_eq!(report, OpenReport { integrated_size: size, size, torn: None });
        grow(&mut writer, size + 3);
        assert_eq!(writer.checkpoint().root, root(size + 3), "size {size} and three more");
    }
}

#[test]
fn partial_tiles_stay_until_the_tile_is_full() {
    let (_directory, folder) = ledger(&[3, 5, 255]);
    for path in ["tile/0/000.p/3", "tile/0/000.p/5", "tile/entries/000.p/255"] {
        assert!(folder.join(path).exists(), "{path}");
    }
    let (mut writer, _) = LogWriter::open(&folder, signer()).unwrap();
    grow(&mut writer, 300);
    for path in
        ["tile/0/000", "tile/entries/000", "tile/0/001.p/44", "tile/entries/001.p/44", "tile/1/000.p/1"]
    {
        assert!(folder.join(path).exists(), "{path}");
    }
    assert!(!folder.join("tile/0/000.p").exists());
    assert!(!folder.join("tile/entries/000.p").exists());
}

#[test]
fn committed_entries_are_read_before_they_are_integrated() {
    let (_directory, folder) = ledger(&[10]);
    let (mut writer, _) = LogWriter::open(&folder, signer()).unwrap();
    let indices = writer.append_batch(&entries(10..13)).unwrap();
    assert_eq!(indices, [LeafIndex(10), LeafIndex(11), LeafIndex(12)]);
    let reader = LogReader::open(&folder, signer().verifier()).unwrap();
    assert_eq!((reader.integrated_size(), reader.size()), (10, 13));
    assert_eq!(read_all(&folder), entries(0..13));
    assert_eq!(reader.entry(LeafIndex(12)).unwrap(), entries(12..13)[0]);
    assert!(matches!(reader.entry(LeafIndex(13)), Err(ReadError::OutOfRange { index: 13, size: 13 })));
    assert!(matches!(reader.entry(LeafIndex(u64::MAX)), Err(ReadError::OutOfRange { .. })));
    assert!(matches!(reader.inclusion(LeafIndex(12), 13), Err(ReadError::NotIntegrated { .. })));
    drop(writer);
    let (writer, report) = LogWriter::open(&folder, signer()).unwrap();
    assert_eq!(report, OpenReport { integrated_size: 10, size: 13, torn: None });
    assert_eq!((writer.size(), writer.integrated_size()), (13, 10));
}

#[test]
fn an_older_reader_outlives_the_removal_of_its_partial_tiles() {
    let (_directory, folder) = ledger(&[250]);
    let reader = LogReader::open(&folder, signer().verifier()).unwrap();
    let (mut writer, _) = LogWriter::open(&folder, signer()).unwrap();
    grow(&mut writer, 600);
    let read: Vec<_> = reader.entries(0..u64::MAX).map(|entry| entry.unwrap().1).collect();
    assert_eq!(read, entries(0..250));
    assert_eq!(reader.inclusion(LeafIndex(249), 250).unwrap().1, root(250));
}

#[test]
fn proofs_from_tiles_hold_against_roots_computed_from_entries() {
    let (_directory, folder) = ledger(&[700]);
    let reader = LogReader::open(&folder, signer().verifier()).unwrap();
    for (index, size) in [(0, 1), (0, 700), (255, 256), (256, 257), (699, 700), (300, 600)] {
        let (path, at) = reader.inclusion(LeafIndex(index), size).unwrap();
        assert_eq!(at, root(size));
        let leaf = leaf_hash(&entries(index..index + 1)[0]);
        proof::check_inclusion(leaf, index, size, &path, at).unwrap();
    }
    for (old, new) in [(0, 700), (1, 700), (256, 700), (255, 257), (512, 513), (700, 700)] {
        let path = reader.consistency(old, new).unwrap();
        proof::check_consistency(old, root(old), new, root(new), &path).unwrap();
    }
    assert!(reader.inclusion(LeafIndex(700), 700).is_err());
    assert!(reader.consistency(5, 4).is_err());
}

#[test]
fn a_proof_from_a_damaged_tile_is_not_given_out() {
    let (_directory, folder) = ledger(&[600]);
    flip(&folder.join("tile/0/001"), 32 * 7);
    let reader = LogReader::open(&folder, signer().verifier()).unwrap();
    assert!(matches!(reader.inclusion(LeafIndex(262), 600), Err(ReadError::Proof(_))));
    assert!(matches!(reader.entry(LeafIndex(263)), Err(ReadError::Entry { index: 263 })));
}

pub(crate) fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// What a crash may leave at a fault point: a copy of the folder, and how many entries were acknowledged by then.
struct Crash {
    point: FaultPoint,
    folder: PathBuf,
    acknowledged: u64,
}

/// Runs `work` on a log and keeps a copy of the folder at every fault point it reaches.
fn crashes(directory: &Path, start: u64, work: &[(u64, u64)]) -> Vec<Crash> {
    let folder = directory.join("ledger");
    let mut writer = LogWriter::create(&folder, signer()).unwrap();
    grow(&mut writer, start);
    let acknowledged = Rc::new(RefCell::new(start));
    let crashes = Rc::new(RefCell::new(Vec::new()));
    {
        let (directory, folder) = (directory.to_path_buf(), folder.clone());
        let (acknowledged, crashes) = (acknowledged.clone(), crashes.clone());
        fault::observer::set(move |point| {
            let copy = directory.join(format!("crash-{}", crashes.borrow().len()));
            copy_folder(&folder, &copy);
            let acknowledged = *acknowledged.borrow();
            crashes.borrow_mut().push(Crash { point, folder: copy, acknowledged });
        });
    }
    for (first_batch, second_batch) in work {
        for count in [first_batch, second_batch] {
            let first = *acknowledged.borrow();
            writer.append_batch(&entries(first..first + count)).unwrap();
            *acknowledged.borrow_mut() += count;
        }
        writer.integrate().unwrap();
    }
    fault::observer::clear();
    crashes.take()
}

#[test]
fn after_a_crash_at_any_fault_point_nothing_acknowledged_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let crashes = crashes(directory.path(), 250, &[(3, 10), (300, 1), (1, 1)]);
    for point in FaultPoint::ALL {
        let elsewhere = ["journal-", "node-"].iter().any(|room| point.name().starts_with(room));
        assert_eq!(crashes.iter().any(|crash| crash.point == *point), !elsewhere, "{point}");
    }
    for Crash { point, folder, acknowledged } in crashes {
        let (mut writer, report) =
            LogWriter::open(&folder, signer()).unwrap_or_else(|error| panic!("{point}: {error}"));
        assert!(report.size >= acknowledged, "{point}: {report:?}, {acknowledged} were acknowledged");
        assert_eq!(report.torn, None, "{point}");
        let size = report.size;
        assert_eq!(read_all(&folder), entries(0..size), "{point}");
        grow(&mut writer, size + 2);
        assert_eq!(writer.checkpoint().root, root(size + 2), "{point}");
        drop(writer);
        let report = crate::verify::verify_log(&folder, signer().verifier(), &mut |_, _| ());
        assert_eq!(report.findings, [], "{point}");
        assert_eq!(report.size, size + 2, "{point}");
    }
}

#[test]
fn a_wal_cut_at_every_byte_of_its_last_frame_loses_that_entry_alone() {
    let (directory, folder) = ledger(&[4]);
    let (mut writer, _) = LogWriter::open(&folder, signer()).unwrap();
    writer.append_batch(&entries(4..6)).unwrap();
    let before = fs::metadata(folder.join(".state/wal")).unwrap().len();
    writer.append_batch(&entries(6..7)).unwrap();
    drop(writer);
    let wal = fs::read(folder.join(".state/wal")).unwrap();
    for end in before as usize..wal.len() {
        let copy = directory.path().join("copy");
        copy_folder(&folder, &copy);
        fs::write(copy.join(".state/wal"), &wal[..end]).unwrap();
        let (mut writer, report) = LogWriter::open(&copy, signer()).unwrap();
        assert_eq!(report.size, 6);
        let cut = end as u64 - before;
        assert_eq!(report.torn.map(|torn| (torn.offset, torn.bytes)), (cut > 0).then_some((before, cut)));
        grow(&mut writer, 8);
        assert_eq!(read_all(&copy), entries(0..8));
        drop(writer);
        fs::remove_dir_all(&copy).unwrap();
    }
}

type Damage<'a> = &'a dyn Fn(&Path);

#[test]
fn opening_refuses_what_is_damaged() {
    let cases: [(&str, Damage); 8] = [
        ("a flipped checkpoint", &|folder| flip(&folder.join("checkpoint"), 40)),
        ("a flipped tile on the right edge", &|folder| flip(&folder.join("tile/0/001.p/44"), 5)),
        ("a flipped upper tile", &|folder| flip(&folder.join("tile/1/000.p/1"), 5)),
        ("a missing tile", &|folder| fs::remove_file(folder.join("tile/0/001.p/44")).unwrap()),
        ("a flipped bundle on the right edge", &|folder| flip(&folder.join("tile/entries/001.p/44"), 9)),
        ("a flipped byte in the WAL", &|folder| flip(&folder.join(".state/wal"), 70)),
        ("a missing WAL", &|folder| fs::remove_file(folder.join(".state/wal")).unwrap()),
        ("another version", &|folder| fs::write(folder.join(".state/version"), "muster-ledger 2\n").unwrap()),
    ];
    for (name, damage) in cases {
        let (_directory, folder) = ledger(&[300]);
        let (mut writer, _) = LogWriter::open(&folder, signer()).unwrap();
        writer.append_batch(&entries(300..303)).unwrap();
        drop(writer);
        damage(&folder);
        assert!(LogWriter::open(&folder, signer()).is_err(), "{name}");
    }
}

#[test]
fn a_wal_that_does_not_belong_to_the_checkpoint_is_refused() {
    let (_old, old) = ledger(&[5]);
    let (_new, new) = ledger(&[9]);
    let (mut writer, _) = LogWriter::open(&old, signer()).unwrap();
    writer.append_batch(&entries(5..7)).unwrap();
    fs::copy(old.join(".state/wal"), new.join(".state/wal")).unwrap();
    let behind = LogWriter::open(&new, signer());
    assert!(matches!(behind, Err(OpenError::Recovery(RecoveryError::Behind { end: 7, size: 9 }))));

    writer.append_batch(&[b"other".to_vec(), b"more".to_vec(), b"yet more".to_vec()]).unwrap();
    fs::copy(old.join(".state/wal"), new.join(".state/wal")).unwrap();
    let differs = LogWriter::open(&new, signer());
    assert!(matches!(differs, Err(OpenError::Recovery(RecoveryError::WalEntry { index: 7 }))));

    writer.integrate().unwrap();
    writer.append_batch(&entries(10..11)).unwrap();
    fs::copy(old.join(".state/wal"), new.join(".state/wal")).unwrap();
    let gap = LogWriter::open(&new, signer());
    assert!(matches!(gap, Err(OpenError::Recovery(RecoveryError::Gap { first: 10, size: 9 }))));
}

#[test]
fn there_is_one_writer_and_a_ledger_is_created_once() {
    let (_directory, folder) = ledger(&[1]);
    let writer = LogWriter::open(&folder, signer()).unwrap();
    assert!(matches!(LogWriter::open(&folder, signer()), Err(OpenError::Store(StoreError::Locked { .. }))));
    drop(writer);
    assert!(matches!(
        LogWriter::create(&folder, signer()),
        Err(OpenError::Store(StoreError::AlreadyALedger { .. }))
    ));
    let other = LogSigner::new("muster.invalid/0123456789abcdef", SigningKey::from_bytes(&[8; 32])).unwrap();
    assert!(LogWriter::open(&folder, other).is_err());
    let nowhere = folder.join("nowhere");
    assert!(matches!(
        LogWriter::open(&nowhere, signer()),
        Err(OpenError::Store(StoreError::NotALedger { .. }))
    ));
    assert!(!nowhere.exists());
}

#[test]
fn creation_never_overwrites_entries_even_if_the_version_is_lost() {
    let (_directory, folder) = ledger(&[3]);
    fs::remove_file(folder.join(".state/version")).unwrap();
    let again = LogWriter::create(&folder, signer());
    assert!(matches!(again, Err(OpenError::Store(StoreError::AlreadyALedger { .. }))));

    let (_directory, folder) = ledger(&[]);
    let (mut writer, _) = LogWriter::open(&folder, signer()).unwrap();
    writer.append_batch(&entries(0..1)).unwrap();
    drop(writer);
    fs::remove_file(folder.join(".state/version")).unwrap();
    assert!(LogWriter::create(&folder, signer()).is_err());

    let (_directory, folder) = ledger(&[]);
    fs::remove_file(folder.join(".state/version")).unwrap();
    assert_eq!(LogWriter::create(&folder, signer()).unwrap().size(), 0);
}

#[test]
fn batches_that_are_too_large_are_refused_and_change_nothing() {
    let (_directory, folder) = ledger(&[1]);
    let (mut writer, _) = LogWriter::open(&folder, signer()).unwrap();
    let large = vec![b"small".to_vec(), vec![0; bundle::ENTRY_BYTES_MAX + 1]];
    assert!(matches!(
        writer.append_batch(&large),
        Err(AppendError::EntryTooLarge { position: 1, bytes: 32_769 })
    ));
    let many = vec![Vec::new(); writer::BATCH_ENTRIES_MAX + 1];
    assert!(matches!(writer.append_batch(&many), Err(AppendError::BatchTooLarge { entries: 4097 })));
    assert_eq!(writer.append_batch(&[]).unwrap(), []);
    let largest = vec![vec![7; bundle::ENTRY_BYTES_MAX]];
    assert_eq!(writer.append_batch(&largest).unwrap(), [LeafIndex(1)]);
    writer.integrate().unwrap();
    assert_eq!(read_all(&folder)[1], largest[0]);
}

#[test]
fn a_failed_compare_stops_the_writer_for_good() {
    let (_directory, folder) = ledger(&[1]);
    let (mut writer, _) = LogWriter::open(&folder, signer()).unwrap();
    fs::write(folder.join("tile/entries/000.p/2"), b"something else").unwrap();
    writer.append_batch(&entries(1..2)).unwrap();
    assert!(matches!(writer.integrate(), Err(AppendError::Failed(StoreError::Differs { .. }))));
    assert!(matches!(writer.integrate(), Err(AppendError::Stopped { .. })));
    assert!(matches!(writer.append_batch(&entries(2..3)), Err(AppendError::Stopped { .. })));
}
