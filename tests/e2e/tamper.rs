//! One flipped byte anywhere is named; the index is rebuilt with the same answers.

use fleet_tests::fleet::{Fleet, checkout};
use std::path::{Path, PathBuf};

/// Every file below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() { found.extend(files(&entry)) } else { found.push(entry) }
    }
    found.sort();
    found
}

#[test]
fn one_flipped_byte_in_any_kind_of_file_is_named() {
    let mut fleet = Fleet::new();
    fleet.add_task("scripts/sample");
    fleet.json(&["ledger", "checkpoint"]);
    fleet.kill_coordinator();
    fleet.verify();
    let ledger = fleet.state().join("ledger");
    let kinds = ["checkpoint", "tile/0/", "tile/entries/", ".state/wal", "blob/blake3/"];
    for kind in kinds {
        let of_kind = |path: &&PathBuf| {
            path.strip_prefix(&ledger).is_ok_and(|inner| inner.to_string_lossy().starts_with(kind))
        };
        let all = files(&ledger);
        let file = all.iter().find(of_kind).unwrap_or_else(|| panic!("no file of kind {kind}"));
        let sound = std::fs::read(file).expect("a readable file");
        let mut flipped = sound.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        std::fs::write(file, &flipped).expect("a writable file");
        let output = fleet.muster(&["ledger", "verify"]);
        let text = String::from_utf8_lossy(&output.stdout);
        let inner = file.strip_prefix(&ledger).expect("below").to_string_lossy().into_owned();
        assert_eq!(output.status.code(), Some(4), "{kind}: {text}");
        assert!(text.contains(&inner), "{inner} is not named:\n{text}");
        std::fs::write(file, &sound).expect("a writable file");
    }
    fleet.verify();
}

#[test]
fn a_lost_or_garbled_index_is_rebuilt_with_the_same_answers() {
    let mut fleet = Fleet::new();
    fleet.add_task("scripts/sample");
    let tasks = fleet.json(&["task", "list"]);
    let index = fleet.state().join("ledger/index");
    for damage in ["deleted", "garbled"] {
        fleet.kill_coordinator();
        if damage == "deleted" {
            std::fs::remove_dir_all(&index).expect("the index is there");
        } else {
            for file in files(&index) {
                std::fs::write(file, b"garbage").expect("a writable file");
            }
        }
        fleet.start_coordinator(&[]);
        assert_eq!(fleet.json(&["task", "list"]), tasks, "{damage}");
        assert!(index.is_dir());
    }
    let again = checkout().join("scripts/sample");
    let answer = fleet.json(&["task", "add", again.to_str().expect("UTF-8")]);
    assert_eq!(answer["name"], "matmul-f32");
    fleet.verify();
}
