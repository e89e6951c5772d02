//! Tests of mirrors: they grow with their source, survive interruption, and refuse forks, set-backs and damage.

use super::*;
use crate::entry::fixture::{World, series};
use crate::log::tests::{copy_folder, entries, flip, grow, ledger, signer};
use crate::log::{LogReader, LogSigner, LogWriter};
use crate::verify::verify_log;
use fleet_config::domain::Outcome;
use std::fs;
use std::path::Path;

fn run(from: &Path, to: &Path) -> Result<MirrorReport, MirrorError> {
    mirror(&mut FolderSource::at(from), to, signer().verifier(), &mut |_| ())
}

fn sound(folder: &Path, size: u64) {
    let report = verify_log(folder, signer().verifier(), &mut |_, _| ());
    assert_eq!((report.findings.as_slice(), report.size), (&[][..], size));
}

#[test]
fn a_mirror_of_every_awkward_size_is_the_log_and_grows_with_it() {
    for sizes in [vec![0, 1, 255, 256, 257], vec![3, 600, 601, 1030], vec![256, 512, 513], vec![65_537]] {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("ledger"), directory.path().join("mirror"));
        let mut writer = LogWriter::create(&from, signer()).unwrap();
        let mut before = 0;
        for size in sizes {
            grow(&mut writer, size);
            let report = run(&from, &to).unwrap();
            assert_eq!((report.from, report.to), (before, size));
            sound(&to, size);
            let reader = LogReader::open(&to, signer().verifier()).unwrap();
            let mirrored: Vec<_> = reader.entries(0..size).map(|entry| entry.unwrap().1).collect();
            assert_eq!(mirrored, entries(0..size), "{size}");
            assert_eq!(run(&from, &to).unwrap().bundles, 0, "nothing new comes over");
            before = size;
        }
        // A mirror is a source too.
        let second = directory.path().join("second");
        run(&to, &second).unwrap();
        sound(&second, before);
    }
}

#[test]
fn blobs_come_along_and_what_the_source_lacks_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("ledger"), directory.path().join("mirror"));
    let mut world = World::new();
    let mut sealed = world.opening();
    let fast = world.candidate("fast");
    let grant = world.grant(&fast, 1);
    sealed.push(world.granted(std::slice::from_ref(&grant)));
    let timed = [series("small", 2_000_000, 1_000_000, 20), series("large", 8_000_000, 4_000_000, 20)];
    let record = world.result(&grant, Outcome::ok(), &timed);
    let (lost, damaged) = (record.volatile.blake3, record.timings[0].samples.blake3);
    sealed.push(world.sealed_result(&fast, record));
    let mut writer = LogWriter::create(&from, signer()).unwrap();
    writer.append_batch(&sealed.iter().map(|entry| entry.bytes.clone()).collect::<Vec<_>>()).unwrap();
    writer.integrate().unwrap();
    let store = crate::blob::BlobStore::open(&from);
    for bytes in world.blobs.values() {
        store.put(bytes).unwrap();
    }
    let whole = directory.path().join("whole");
    let report = run(&from, &whole).unwrap();
    assert_eq!(report.blobs, world.blobs.len() as u64, "{report:?}");
    let (missing, wrong) = (&report.blobs_missing, &report.blobs_damaged);
    assert!(missing.is_empty() && wrong.is_empty());
    let (found, _) = crate::verify::verify_ledger(&whole, &signer().verifier().to_string()).unwrap();
    assert!(found.passes(), "{:?}", found.findings);

    fs::remove_file(store.path(&lost)).unwrap();
    flip(&store.path(&damaged), 3);
    let report = run(&from, &to).unwrap();
    assert_eq!(
        (report.blobs_missing, report.blobs_damaged),
        (vec![lost.to_string()], vec![damaged.to_string()])
    );
    assert!(!crate::blob::BlobStore::open(&to).path(&damaged).exists(), "what is damaged is not copied");
    sound(&to, sealed.len() as u64);
}

/// A source that ends after some answers, as a network does.
struct Breaking(FolderSource, u32);

impl Source for Breaking {
    fn fetch(&mut self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, SourceError> {
        self.1 = self
            .1
            .checked_sub(1)
            .ok_or_else(|| SourceError::Unreachable { place: path.to_owned(), cause: "gone".to_owned() })?;
        self.0.fetch(path, bytes_max)
    }
}

#[test]
fn an_interrupted_copy_goes_on_where_it_ended_and_is_whole_at_every_moment() {
    let (directory, from) = ledger(&[300, 1300]);
    let to = directory.path().join("mirror");
    let (_other, early) = ledger(&[300]);
    run(&early, &to).unwrap();
    for answers in 0.. {
        let mut source = Breaking(FolderSource::at(&from), answers);
        match mirror(&mut source, &to, signer().verifier(), &mut |_| ()) {
            Err(MirrorError::Source(_) | MirrorError::Tile(_)) => {
                let reader = LogReader::open(&to, signer().verifier()).unwrap();
                assert_eq!(reader.integrated_size(), 300, "after {answers} answers");
                sound(&to, 300);
            }
            Ok(report) => {
                assert_eq!((report.to, report.bundles + report.bundles_resumed), (1300, 5));
                assert!(report.bundles_resumed >= 3, "{report:?}");
                break;
            }
            Err(error) => panic!("after {answers} answers: {error}"),
        }
    }
    sound(&to, 1300);
}

#[test]
fn forks_and_set_backs_are_refused_and_change_nothing() {
    let (directory, from) = ledger(&[300, 700]);
    let to = directory.path().join("mirror");
    run(&from, &to).unwrap();
    let other = |name: &str, size: u64, changed: u64| {
        let folder = directory.path().join(name);
        let mut writer = LogWriter::create(&folder, signer()).unwrap();
        let mut all = entries(0..size);
        all[changed as usize] = b"rewritten".to_vec();
        writer.append_batch(&all).unwrap();
        writer.integrate().unwrap();
        folder
    };
    for (name, size, changed) in [("longer", 900, 5), ("edge", 900, 699), ("equal", 700, 650)] {
        let error = run(&other(name, size, changed), &to).unwrap_err();
        assert!(matches!(error, MirrorError::Forked { size: 700, .. }), "{name}: {error}");
        sound(&to, 700);
    }
    let (_early, early) = ledger(&[300]);
    let error = run(&early, &to).unwrap_err();
    assert!(matches!(error, MirrorError::SetBack { mirrored: 700, found: 300 }), "{error}");
    // What was rewritten after the mirrored part is no fork.
    run(&other("later", 900, 700), &to).unwrap();
    sound(&to, 900);
}

#[test]
fn a_damaged_source_is_named_and_nothing_of_it_stays() {
    let (directory, from) = ledger(&[300, 700]);
    for (name, path, at) in [
        ("bundle", "tile/entries/001", 40),
        ("last-bundle", "tile/entries/002.p/188", 40),
        ("leaf-tile", "tile/0/001", 40),
        ("upper-tile", "tile/1/000.p/2", 3),
        ("checkpoint", "checkpoint", 45),
    ] {
        let copy = directory.path().join(name);
        copy_folder(&from, &copy);
        flip(&copy.join(path), at);
        let to = directory.path().join(format!("{name}-mirror"));
        let (_early, early) = ledger(&[300]);
        run(&early, &to).unwrap();
        let error = run(&copy, &to).unwrap_err();
        sound(&to, 300);
        println!("{name}: {error}");
        run(&from, &to).unwrap();
        sound(&to, 700);
    }
    // Bundle and tile changed alike: only the root can tell, and what came is thrown away.
    let copy = directory.path().join("alike");
    copy_folder(&from, &copy);
    let bundle = copy.join("tile/entries/001");
    flip(&bundle, 12);
    let bytes = fs::read(&bundle).unwrap();
    let places = crate::log::bundle::decode(&bytes, 256).unwrap();
    let leaves: Vec<_> = places.into_iter().map(|place| crate::log::tree::leaf_hash(&bytes[place])).collect();
    fs::write(copy.join("tile/0/001"), crate::log::tile::encode(&leaves)).unwrap();
    let to = directory.path().join("alike-mirror");
    let error = run(&copy, &to).unwrap_err();
    assert!(matches!(error, MirrorError::Root { .. }), "{error}");
    run(&from, &to).unwrap();
    sound(&to, 700);
}

#[test]
fn other_folders_are_left_alone() {
    let (directory, from) = ledger(&[3]);
    assert!(matches!(run(&from, &from), Err(MirrorError::Target(_))), "a coordinator's own");
    let full = directory.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("letter"), b"dear").unwrap();
    assert!(matches!(run(&from, &full), Err(MirrorError::Target(_))));
    assert!(matches!(run(&full, &directory.path().join("new")), Err(MirrorError::NoCheckpoint)));
    let stranger =
        LogSigner::new("example.com/other", ed25519_dalek::SigningKey::from_bytes(&[3; 32])).unwrap();
    let to = directory.path().join("to");
    let mut source = FolderSource::at(&from);
    let error = mirror(&mut source, &to, stranger.verifier(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, MirrorError::Checkpoint(_)) && !to.exists(), "{error}");
}
