//! A verifier that was written from other people's documents accepts our logs, and refuses changed ones.

use ed25519_dalek::SigningKey;
use fleet_tests::python;
use ledger::log::{LogSigner, LogWriter};
use std::path::{Path, PathBuf};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn log(folder: &Path, signer: &LogSigner, size: u64) {
    let mut writer = LogWriter::create(folder, signer.clone()).expect("a new folder");
    while writer.size() < size {
        let end = size.min(writer.size() + 4096);
        let batch: Vec<Vec<u8>> =
            (writer.size()..end).map(|entry| format!("entry {entry}").into_bytes()).collect();
        writer.append_batch(&batch).expect("an append");
    }
    writer.integrate().expect("a checkpoint");
}

/// Published files of a log.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() && !entry.ends_with(".state") {
            found.extend(files(&entry));
        } else if entry.is_file() {
            found.push(entry);
        }
    }
    found.sort();
    found
}

#[test]
fn logs_of_every_awkward_size_are_accepted_and_changed_ones_are_not() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let signer = LogSigner::new("example.com/log", SigningKey::from_bytes(&[6; 32])).expect("a name");
    let vkey = signer.verifier().to_string();
    for size in [0, 1, 255, 256, 257, 65_537] {
        let folder = directory.path().join(size.to_string());
        log(&folder, &signer, size);
        let Some(output) = python::run("outside_verifier.py", &[text(&folder), &vkey]) else { return };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains(&format!("{size} entries")), "{size}: {said}");
    }
    let folder = directory.path().join("257");
    for file in files(&folder) {
        let sound = std::fs::read(&file).expect("a readable file");
        for at in [0, sound.len() / 2, sound.len() - 1] {
            let mut changed = sound.clone();
            changed[at] ^= 1;
            std::fs::write(&file, &changed).expect("a writable file");
            let output = python::run("outside_verifier.py", &[text(&folder), &vkey]).expect("it ran before");
            assert!(!output.status.success(), "{} byte {at}", file.display());
        }
        std::fs::write(&file, &sound).expect("a writable file");
    }
    let other = directory.path().join("1").join("checkpoint");
    std::fs::copy(other, folder.join("checkpoint")).expect("a copy");
    let output = python::run("outside_verifier.py", &[text(&folder), &vkey]).expect("it ran before");
    // An older checkpoint is a smaller log; its partial tiles are gone, and the full ones hold the same beginning.
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("refused") || said.starts_with("1 entries"), "{said}");
}
