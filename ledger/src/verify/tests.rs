//! Tests of log verification: a sound folder passes, and each damaged file is named.

use super::{Fault, Finding, LogReport, verify_log};
use crate::log::LogWriter;
use crate::log::tests::{entries, flip, ledger, signer};
use proptest::prelude::*;
use std::fs;
use std::path::Path;

fn verify(folder: &Path) -> LogReport {
    verify_log(folder, signer().verifier(), &mut |_, _| ())
}

/// Checkpoints at 3, 200, 255, 600 and 603, five more entries in the WAL.
fn sample() -> (tempfile::TempDir, std::path::PathBuf) {
    let (directory, folder) = ledger(&[3, 200, 255, 600, 601, 603]);
    let (mut writer, _) = LogWriter::open(&folder, signer()).unwrap();
    writer.append_batch(&entries(603..608)).unwrap();
    (directory, folder)
}

/// Every file of the folder that verification must vouch for.
fn files(folder: &Path, relative: &str) -> Vec<String> {
    let mut found = Vec::new();
    for child in fs::read_dir(folder.join(relative)).unwrap() {
        let child = child.unwrap();
        let name = child.file_name().into_string().unwrap();
        let path = if relative.is_empty() { name } else { format!("{relative}/{name}") };
        if child.file_type().unwrap().is_dir() {
            found.extend(files(folder, &path));
        } else if path != ".state/lock" {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn sound_logs_of_every_awkward_size_pass_and_hand_out_their_entries() {
    for size in [0, 1, 2, 255, 256, 257, 513, 65_537] {
        let (_directory, folder) = ledger(&[size]);
        let mut handed_out = Vec::new();
        let report = verify_log(&folder, signer().verifier(), &mut |index, entry| {
            assert_eq!(index.0, handed_out.len() as u64);
            handed_out.push(entry.to_vec());
        });
        assert_eq!(report.findings, [], "size {size}");
        assert_eq!((report.size, handed_out), (size, entries(0..size)), "size {size}");
    }
}

#[test]
fn the_wal_tail_is_part_of_the_log() {
    let (_directory, folder) = sample();
    let mut last = None;
    let report = verify_log(&folder, signer().verifier(), &mut |index, _| last = Some(index.0));
    assert_eq!(report.findings, []);
    assert_eq!((report.size, last), (608, Some(607)));
    assert_eq!(report.checkpoint.unwrap().size, 603);
    assert_eq!(report.files, files(&folder, "tile").len() as u64);
}

#[test]
fn one_flipped_byte_in_any_file_is_named_and_nothing_else_is() {
    let (_directory, folder) = sample();
    let files = files(&folder, "");
    for kind in [
        "tile/0/000",
        "tile/0/002.p/88",
        "tile/0/002.p/91",
        "tile/1/000.p/2",
        "tile/entries/001",
        "tile/entries/002.p/88",
        "tile/entries/002.p/91",
        "checkpoint",
        ".state/wal",
        ".state/version",
    ] {
        assert!(files.iter().any(|file| file == kind), "{kind} is among {files:?}");
    }
    for file in files {
        let length = fs::metadata(folder.join(&file)).unwrap().len() as usize;
        for at in [0, 1, 17, length / 2, length - 1] {
            let at = at.min(length - 1);
            flip(&folder.join(&file), at);
            let findings = verify(&folder).findings;
            assert!(!findings.is_empty(), "{file} byte {at}");
            assert!(findings.iter().all(|finding| finding.path == file), "{file} byte {at}: {findings:?}");
            flip(&folder.join(&file), at);
        }
    }
    assert_eq!(verify(&folder).findings, []);
}

#[test]
fn findings_say_where() {
    let (_directory, folder) = sample();
    flip(&folder.join("tile/0/001"), 32 * 7 + 4);
    flip(&folder.join("tile/entries/000"), 20);
    assert_eq!(
        verify(&folder).findings,
        [
            Finding::at("tile/entries/000", 15, Fault::Entry { index: 1 }),
            Finding::at("tile/0/001", 228, Fault::TileHash { position: 7 }),
        ]
    );
}

#[test]
fn missing_cut_stray_and_excess_files_are_named() {
    let check = |damage: &dyn Fn(&Path), expected: &[&str]| {
        let (_directory, folder) = sample();
        damage(&folder);
        let findings = verify(&folder).findings;
        let paths: Vec<_> = findings.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(paths, expected, "{findings:?}");
    };
    check(&|folder| fs::remove_file(folder.join("tile/0/001")).unwrap(), &["tile/0/001"]);
    check(&|folder| fs::remove_file(folder.join("tile/entries/001")).unwrap(), &["tile/entries/001"]);
    check(&|folder| fs::remove_file(folder.join("tile/1/000.p/2")).unwrap(), &["tile/1/000.p/2"]);
    check(
        &|folder| fs::remove_file(folder.join("tile/entries/002.p/91")).unwrap(),
        &["tile/entries/002.p/91"],
    );
    check(&|folder| fs::remove_file(folder.join("checkpoint")).unwrap(), &["checkpoint"]);
    check(&|folder| fs::remove_file(folder.join(".state/wal")).unwrap(), &[".state/wal"]);
    check(&|folder| fs::write(folder.join("tile/0/001"), [0; 31]).unwrap(), &["tile/0/001"]);
    check(&|folder| fs::write(folder.join("tile/entries/002.p/89"), "").unwrap(), &["tile/entries/002.p/89"]);
    check(&|folder| fs::write(folder.join("tile/0/1"), "").unwrap(), &["tile/0/1"]);
    check(&|folder| fs::write(folder.join("tile/0/003"), [0; 8192]).unwrap(), &["tile/0/003"]);
    check(&|folder| fs::write(folder.join("tile/0/002.p/99"), [0; 99 * 32]).unwrap(), &["tile/0/002.p/99"]);
    let both = ["tile/0/001", "tile/entries/001"];
    check(
        &|folder| both.iter().for_each(|path| fs::remove_file(folder.join(path)).unwrap()),
        &["tile/entries/001", "tile/0/001"],
    );
}

#[test]
fn a_rewritten_history_is_found_by_its_root() {
    let (_directory, folder) = ledger(&[20]);
    let (other, other_folder) = (tempfile::tempdir().unwrap(), "ledger");
    let mut writer = LogWriter::create(&other.path().join(other_folder), signer()).unwrap();
    writer.append_batch(&entries(100..120)).unwrap();
    writer.integrate().unwrap();
    fs::remove_dir_all(folder.join("tile")).unwrap();
    crate::log::tests::copy_folder(&other.path().join(other_folder).join("tile"), &folder.join("tile"));
    let findings = verify(&folder).findings;
    assert!(
        matches!(&findings[..], [Finding { path, fault: Fault::Root { size: 20, .. }, .. }] if path == "checkpoint")
    );
}

#[test]
fn a_torn_wal_and_a_foreign_wal_are_named() {
    let (_directory, folder) = sample();
    let wal = fs::read(folder.join(".state/wal")).unwrap();
    fs::write(folder.join(".state/wal"), &wal[..wal.len() - 1]).unwrap();
    let report = verify(&folder);
    assert_eq!(report.size, 607);
    assert!(matches!(&report.findings[..], [Finding { fault: Fault::Torn { .. }, .. }]));

    let (_other, other) = ledger(&[700]);
    fs::write(other.join(".state/wal"), &wal).unwrap();
    let findings = verify(&other).findings;
    assert_eq!(findings, [Finding::file(".state/wal", Fault::WalRange { first: 603, end: 608, size: 700 })]);
}

#[test]
fn another_key_vouches_for_nothing() {
    let (_directory, folder) = ledger(&[3]);
    let stranger = ed25519_dalek::SigningKey::from_bytes(&[77; 32]);
    let stranger = crate::log::LogSigner::new("muster.invalid/0123456789abcdef", stranger).unwrap();
    let report = verify_log(&folder, stranger.verifier(), &mut |_, _| ());
    assert_eq!(report.checkpoint, None);
    assert!(report.findings.iter().any(|finding| finding.path == "checkpoint"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_flipped_bit_of_any_file_is_found_and_no_sound_file_is_blamed(
        file in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(), bit in 0_u32..8
    ) {
        let (_directory, folder) = ledger(&[3, 255, 260]);
        let files = files(&folder, "");
        let file = &files[file.index(files.len())];
        let mut bytes = fs::read(folder.join(file)).unwrap();
        let at = place.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fs::write(folder.join(file), bytes).unwrap();
        let findings = verify(&folder).findings;
        prop_assert!(!findings.is_empty(), "{} byte {}", file, at);
        prop_assert!(findings.iter().all(|finding| finding.path == *file), "{} byte {}: {:?}", file, at, findings);
    }
}

#[test]
fn a_copy_of_the_published_files_alone_verifies_up_to_its_checkpoint_and_no_further() {
    let (directory, folder) = sample();
    let copy = directory.path().join("copy");
    crate::log::tests::copy_folder(&folder, &copy);
    fs::remove_dir_all(copy.join(".state")).unwrap();
    let report = verify(&copy);
    assert_eq!((report.findings.as_slice(), report.size), (&[][..], 603));
    let reader = crate::log::LogReader::open(&copy, signer().verifier()).unwrap();
    assert_eq!((reader.size(), reader.integrated_size()), (603, 603));
    for file in files(&copy, "") {
        let length = fs::metadata(copy.join(&file)).unwrap().len() as usize;
        flip(&copy.join(&file), length / 2);
        assert!(verify(&copy).findings.iter().all(|finding| finding.path == file), "{file}");
        assert!(!verify(&copy).findings.is_empty(), "{file}");
        flip(&copy.join(&file), length / 2);
    }
    assert!(LogWriter::open(&copy, signer()).is_err(), "nobody writes to a copy");
}
