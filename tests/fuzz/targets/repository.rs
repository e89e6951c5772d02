//! Files of this checkout that seeds are made of.

use std::path::{Path, PathBuf};

/// The root of the checkout.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = here.ancestors().find(|folder| folder.join("tests/vectors").is_dir());
    found.expect("the package lies in the checkout").to_owned()
}

/// The file at `path`, relative to the root.
pub(crate) fn file(path: &str) -> Vec<u8> {
    std::fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file below `folder` whose name ends in `ending`, in order of paths.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    fn walk(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder of the checkout is readable") {
            let path = entry.expect("a folder entry is readable").path();
            if path.is_dir() {
                walk(&path, ending, found);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), ending, &mut found);
    found.sort();
    found.iter().map(|path| std::fs::read(path).expect("a file of the checkout is readable")).collect()
}

/// `bytes` after a first byte that chooses among readers.
pub(crate) fn tagged(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag], bytes].concat()
}
