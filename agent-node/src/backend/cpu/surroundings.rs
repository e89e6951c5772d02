//! What a compiler reads beside a candidate's own files: system headers, and what every library is linked with.
//!
//! A candidate may include any system header, so not only those of the shim count. Headers are named by path, size and time of
//! change: artefacts of this device never leave the machine, and reading a hundred megabytes at each start would take
//! longer than a hundred compilations. Taken once, when the node starts; a node is restarted after an upgrade of its
//! compiler.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Headers that are looked at; a developer's machine has some ten thousand.
const FILES_MAX: usize = 500_000;
/// Folders of folders; the deepest header trees have a dozen.
const DEPTH_MAX: usize = 32;
/// What the compiler adds to each library that it links, by the names of both compilers.
const LINKED: [&str; 12] = [
    "crti.o",
    "crtbeginS.o",
    "crtendS.o",
    "crtn.o",
    "libgcc.a",
    "libgcc_eh.a",
    "libstdc++.a",
    "libm.so",
    "libm.so.6",
    "libc.so",
    "libc.so.6",
    "libc_nonshared.a",
];

/// The folders of `#include <…>` in a compiler's answer to `-v -E`.
pub(super) fn include_folders(answer: &str) -> Vec<PathBuf> {
    let listed = answer.lines().skip_while(|line| !line.starts_with("#include <...>")).skip(1);
    listed.take_while(|line| line.starts_with(' ')).map(|line| PathBuf::from(line.trim())).collect()
}

/// The folders of libraries in a compiler's answer to `-print-search-dirs`.
pub(super) fn library_folders(answer: &str) -> Vec<PathBuf> {
    let line = answer.lines().find_map(|line| line.strip_prefix("libraries: ="));
    line.map_or_else(Vec::new, |line| line.split(':').map(PathBuf::from).collect())
}

/// Adds names, sizes and times of all files below `folders` to `hasher`.
pub(super) fn add_headers(hasher: &mut blake3::Hasher, folders: &[PathBuf]) -> io::Result<()> {
    let mut seen = BTreeSet::new();
    for folder in folders {
        hasher.update(folder.as_os_str().as_encoded_bytes()).update(b"\n");
        // Absent folders are searched too, in vain.
        if let Ok(folder) = folder.canonicalize() {
            walk(&folder, 0, &mut seen)?;
        }
    }
    for (path, size, seconds, nanoseconds) in seen {
        hasher.update(path.as_os_str().as_encoded_bytes()).update(&[0]);
        hasher.update(&size.to_le_bytes()).update(&seconds.to_le_bytes()).update(&nanoseconds.to_le_bytes());
    }
    Ok(())
}

type Named = (PathBuf, u64, i64, i64);

fn walk(folder: &Path, depth: usize, seen: &mut BTreeSet<Named>) -> io::Result<()> {
    if depth > DEPTH_MAX || seen.len() > FILES_MAX {
        return Err(io::Error::other(format!("{}: too many headers, or too deep", folder.display())));
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // Through links: what they lead to is what a compiler reads. A link that leads nowhere is no header.
        let Ok(found) = fs::metadata(&path) else { continue };
        if found.is_dir() {
            // Not through links to folders: they may lead in circles, and what they lead to changes rarely.
            if fs::symlink_metadata(&path).is_ok_and(|own| own.is_dir()) {
                walk(&path, depth + 1, seen)?;
            }
        } else {
            seen.insert((path, found.len(), found.mtime(), found.mtime_nsec()));
        }
    }
    Ok(())
}

/// The files that every link reads, the first of each name.
pub(super) fn linked(folders: &[PathBuf]) -> Vec<PathBuf> {
    let first = |name: &&str| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    LINKED.iter().filter_map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_compilers_are_understood() {
        let answer = "ignoring x\n#include \"...\" search starts here:\n#include <...> search starts here:\n /usr/include/c++/12\n /usr/include\nEnd of search list.\n /not/this\n";
        assert_eq!(include_folders(answer), [Path::new("/usr/include/c++/12"), Path::new("/usr/include")]);
        assert!(include_folders("nothing").is_empty());
        let answer = "install: /a\nprograms: =/b:/c\nlibraries: =/d/:/e\n";
        assert_eq!(library_folders(answer), [Path::new("/d/"), Path::new("/e")]);
    }

    #[test]
    fn a_header_that_comes_goes_or_grows_changes_the_digest() {
        let folder = tempfile::tempdir().unwrap();
        let digest = || {
            let mut hasher = blake3::Hasher::new();
            add_headers(&mut hasher, &[folder.path().to_owned(), "/nonexistent".into()]).unwrap();
            hasher.finalize()
        };
        let mut digests = vec![digest()];
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/a.h"), "int a;").unwrap();
        digests.push(digest());
        assert_eq!(digest(), digests[1]);
        fs::write(folder.path().join("sub/a.h"), "int a, b;").unwrap();
        digests.push(digest());
        std::os::unix::fs::symlink("..", folder.path().join("sub/circle")).unwrap();
        std::os::unix::fs::symlink("a.h", folder.path().join("sub/b.h")).unwrap();
        digests.push(digest());
        let count = digests.iter().map(|digest| digest.to_hex().to_string()).collect::<BTreeSet<_>>().len();
        assert_eq!(count, 4, "{digests:?}");
    }
}
