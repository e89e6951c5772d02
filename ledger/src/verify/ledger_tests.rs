//! A whole folder: sound, and with one byte of each file flipped.

use super::{Report, verify_ledger};
use crate::blob::BlobStore;
use crate::entry::fixture::{ORIGIN, World, mismatch, series};
use crate::log::{LogSigner, LogWriter};
use fleet_config::domain::Outcome;
use std::path::{Path, PathBuf};

fn signer() -> LogSigner {
    LogSigner::new(ORIGIN, ed25519_dalek::SigningKey::from_bytes(&[8; 32])).unwrap()
}

/// A ledger with all of its entries under the checkpoint but the last, which is in the WAL.
fn ledger() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("ledger");
    let mut world = World::new();
    let mut entries = world.opening();
    for (fence, name) in [(1, "fast"), (2, "wrong")] {
        let candidate = world.candidate(name);
        let grant = world.grant(&candidate, fence);
        entries.push(world.granted(std::slice::from_ref(&grant)));
        let record = if fence == 1 {
            world.result(&grant, Outcome::ok(), &[series("small", 2000, 1000, 10)])
        } else {
            world.result(&grant, mismatch(), &[])
        };
        entries.push(world.sealed_result(&candidate, record));
    }
    let blobs = BlobStore::open(&folder);
    let mut writer = LogWriter::create(&folder, signer()).unwrap();
    for bytes in world.blobs.values() {
        blobs.put(bytes).unwrap();
    }
    blobs.sync().unwrap();
    let mut bytes: Vec<Vec<u8>> = entries.into_iter().map(|entry| entry.bytes).collect();
    let last = bytes.pop().unwrap();
    writer.append_batch(&bytes).unwrap();
    writer.integrate().unwrap();
    writer.append_batch(&[last]).unwrap();
    (directory, folder)
}

fn verify(folder: &Path) -> Report {
    verify_ledger(folder, &signer().verifier().to_string()).unwrap().0
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for child in std::fs::read_dir(folder).unwrap() {
        let path = child.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with(".state/lock") {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_sound_ledger_passes_and_names_its_signers() {
    let (_directory, folder) = ledger();
    let (report, signers) = verify_ledger(&folder, &signer().verifier().to_string()).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!((report.size, report.checkpoint_size), (8, Some(7)));
    assert_eq!((report.cells_closed, report.cells_open), (2, 0));
    let blobs = files(&folder.join("blob")).len() as u64;
    assert_eq!(report.blobs, blobs);
    assert_eq!(signers.nodes().count(), 1);
}

#[test]
fn one_flipped_byte_in_any_file_is_found_and_the_file_named() {
    let (_directory, folder) = ledger();
    let paths = files(&folder);
    assert!(paths.len() > 10);
    for path in paths {
        let sound = std::fs::read(&path).unwrap();
        let mut bytes = sound.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let report = verify(&folder);
        std::fs::write(&path, &sound).unwrap();
        let relative = path.strip_prefix(&folder).unwrap().to_str().unwrap();
        let is_named = report.findings.iter().any(|finding| finding.place == relative);
        assert!(!report.passes() && is_named, "{relative}: {:#?}", report.findings);
    }
    assert!(verify(&folder).passes());
}

#[test]
fn a_folder_under_another_key_does_not_pass() {
    let (_directory, folder) = ledger();
    let other = LogSigner::new(ORIGIN, ed25519_dalek::SigningKey::from_bytes(&[9; 32])).unwrap();
    let (report, _) = verify_ledger(&folder, &other.verifier().to_string()).unwrap();
    assert!(!report.passes() && report.checkpoint_size.is_none());
    assert!(verify_ledger(&folder, "not a key").is_err());
}
