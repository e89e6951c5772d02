//! The rules of the house as tests: top level, package arrows, pure rooms, sizes, first lines, document paths.

mod document;
mod manifest;
mod source;

use std::path::{Path, PathBuf};

/// The root of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the root").to_owned()
}

/// Every tracked or new file below the root, as paths relative to it, build outputs left out.
fn files() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let entries = std::fs::read_dir(folder).expect("a folder of the checkout is readable");
        for entry in entries.map(|entry| entry.expect("a folder entry is readable")) {
            let name = entry.file_name();
            if name == "target" || name == ".git" || name == "__pycache__" {
                continue;
            }
            if entry.file_type().expect("a file has a type").is_dir() {
                walk(&entry.path(), found);
            } else {
                found.push(entry.path());
            }
        }
    }
    let root = root();
    let mut found = Vec::new();
    walk(&root, &mut found);
    let mut relative: Vec<PathBuf> =
        found.iter().map(|path| path.strip_prefix(&root).expect("below the root").to_owned()).collect();
    relative.sort();
    relative
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails with every finding, not only the first.
fn none(what: &str, findings: Vec<String>) {
    assert!(findings.is_empty(), "{what}:\n  {}", findings.join("\n  "));
}
