//! Random changes of a whole log: whatever is flipped, deleted, cut, swapped, reordered or played back is found.
//!
//! `$MUSTER_MUTATIONS` and `$MUSTER_MUTATION_ENTRIES` ask for more of them on a larger log, `$MUSTER_MUTATION_SEED` for
//! other ones; a failure names the change.

use super::verify_log;
use crate::log::bundle;
use crate::log::tests::{grow, signer};
use crate::log::tile::{TileCoordinate, TileKind, level_size};
use crate::log::{LogWriter, VerifierKey};
use crate::stats::generator::SplitMix64;
use std::fs;
use std::path::Path;

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("${name} is no number")))
}

fn files(folder: &Path, relative: &str, found: &mut Vec<String>) {
    for child in fs::read_dir(folder.join(relative)).unwrap().map(|child| child.unwrap()) {
        let name = child.file_name().into_string().unwrap();
        let path = if relative.is_empty() { name } else { format!("{relative}/{name}") };
        if child.file_type().unwrap().is_dir() {
            files(folder, &path, found);
        } else if path != ".state/lock" {
            found.push(path);
        }
    }
}

/// Whether the tree of `size` entries needs the file: superseded partial tiles may go at any time.
fn is_needed(path: &str, size: u64) -> bool {
    let Some(tile) = TileCoordinate::parse(path) else { return true };
    let held = match tile.kind {
        TileKind::Entries => size,
        TileKind::Hashes(level) => level_size(level, size),
    };
    tile.is_full() || tile.index * 256 + u64::from(tile.width) == held
}

/// Files and what stood in them.
type Before = Vec<(String, Vec<u8>)>;

struct Mutator {
    files: Vec<String>,
    old_checkpoint: Vec<u8>,
    size: u64,
    random: SplitMix64,
}

impl Mutator {
    fn pick(&mut self) -> String {
        self.files[self.random.below(self.files.len() as u64) as usize].clone()
    }

    /// Changes the folder and answers with what was done and what stood there before; nothing where the draw changes
    /// nothing.
    fn mutate(&mut self, folder: &Path) -> Option<(String, Before)> {
        let path = self.pick();
        let bytes = fs::read(folder.join(&path)).unwrap();
        let at = self.random.below(bytes.len().max(1) as u64) as usize;
        let before = vec![(path.clone(), bytes.clone())];
        let write = |path: &str, bytes: &[u8]| fs::write(folder.join(path), bytes).unwrap();
        let done = match self.random.below(6) {
            0 => {
                let mut changed = bytes;
                changed[at] ^= 1 << self.random.below(8);
                write(&path, &changed);
                format!("flipped a bit of byte {at} of {path}")
            }
            1 if is_needed(&path, self.size) => {
                fs::remove_file(folder.join(&path)).unwrap();
                format!("deleted {path}")
            }
            2 => {
                write(&path, &bytes[..at]);
                format!("cut {path} to {at} bytes")
            }
            3 => {
                let other = self.pick();
                let theirs = fs::read(folder.join(&other)).unwrap();
                if theirs == bytes {
                    return None;
                }
                write(&path, &theirs);
                write(&other, &bytes);
                return Some((
                    format!("swapped {path} and {other}"),
                    [before, vec![(other, theirs)]].concat(),
                ));
            }
            4 => {
                let tile = TileCoordinate::parse(&path).filter(|tile| tile.kind == TileKind::Entries)?;
                let places = bundle::decode(&bytes, usize::from(tile.width)).unwrap();
                let (a, b) = (self.random.below(places.len() as u64), self.random.below(places.len() as u64));
                let mut order: Vec<&[u8]> = places.iter().map(|place| &bytes[place.clone()]).collect();
                order.swap(a as usize, b as usize);
                let mut changed = Vec::new();
                order.iter().for_each(|entry| bundle::push(&mut changed, entry));
                if changed == bytes {
                    return None;
                }
                write(&path, &changed);
                format!("reordered entries {a} and {b} of {path}")
            }
            5 => {
                let now = fs::read(folder.join("checkpoint")).unwrap();
                write("checkpoint", &self.old_checkpoint);
                return Some((
                    "played an old checkpoint back".to_owned(),
                    vec![("checkpoint".to_owned(), now)],
                ));
            }
            _ => return None,
        };
        Some((done, before))
    }
}

fn is_found(folder: &Path, verifier: &VerifierKey) -> bool {
    !verify_log(folder, verifier, &mut |_, _| ()).findings.is_empty()
}

#[test]
fn random_changes_are_all_found() {
    let (count, size) = (setting("MUSTER_MUTATIONS", 200), setting("MUSTER_MUTATION_ENTRIES", 900));
    let seed = setting("MUSTER_MUTATION_SEED", 1);
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("ledger");
    let signer = signer();
    let mut writer = LogWriter::create(&folder, signer.clone()).unwrap();
    grow(&mut writer, size / 2);
    let old_checkpoint = fs::read(folder.join("checkpoint")).unwrap();
    grow(&mut writer, size);
    drop(writer);
    let mut all = Vec::new();
    files(&folder, "", &mut all);
    all.sort();
    let mut mutator = Mutator { files: all, old_checkpoint, size, random: SplitMix64::new(seed) };
    assert!(!is_found(&folder, signer.verifier()), "a sound log has findings");
    let mut done = 0;
    while done < count {
        let Some((what, before)) = mutator.mutate(&folder) else { continue };
        assert!(is_found(&folder, signer.verifier()), "seed {seed}, change {done} was not found: {what}");
        for (path, bytes) in before {
            fs::write(folder.join(path), bytes).unwrap();
        }
        done += 1;
    }
    assert!(!is_found(&folder, signer.verifier()), "the log is as it was");
    println!("{done} changes of a log of {size} entries from seed {seed}, all found");
}
