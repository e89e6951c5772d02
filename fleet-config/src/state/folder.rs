//! A state folder: its owner, its mode, the version that wrote it, and the lock of the process that runs on it.

use super::file::{at, write_private};
use crate::refusal::Refusal;
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Longest version file that is read: a damaged one may be anything.
const VERSION_MAX: u64 = 64;

/// Makes a 0700 folder with its parents.
pub fn make_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Refuses a folder of another user, for `runner` to run on: it could be changed under our feet, and its keys are
/// known to that user.
pub fn check_owner(folder: &Path, runner: &str) -> Result<(), Refusal> {
    let (owner, own) =
        (std::fs::metadata(folder).map_err(at(folder))?.uid(), rustix::process::geteuid().as_raw());
    if owner != own {
        let cause = format!("this folder belongs to user {owner}, the {runner} runs as user {own}");
        let next = "run as its owner, or name another --state folder";
        return Err(Refusal::new("state/owner", folder.display().to_string(), cause, next));
    }
    Ok(())
}

/// Refuses a folder that others may write to.
pub fn check_private(folder: &Path) -> Result<(), Refusal> {
    let mode = std::fs::metadata(folder).map_err(at(folder))?.permissions().mode();
    if mode & 0o022 != 0 {
        let cause = format!("others may write to this folder (mode {:03o})", mode & 0o777);
        let place = folder.display().to_string();
        return Err(Refusal::new("state/writable-by-others", place, cause, "run `chmod 700` on it"));
    }
    Ok(())
}

/// One kind of state folder in one version.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Contents of `<state>/version`.
    pub version: &'static str,
    /// What such a folder holds, for people: `state of a node`.
    pub holds: &'static str,
    /// Names that may lie in a new folder already.
    pub brought: &'static [&'static str],
}

/// Whether a state folder was in use before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// This version wrote it.
    Used,
    /// Empty, and without a version until [`Format::found`].
    New,
}

impl Format {
    /// Refuses a folder of another format, and one that holds other things.
    pub fn age(&self, folder: &Path) -> Result<Age, Refusal> {
        let version = folder.join("version");
        let mut text = Vec::new();
        match File::open(&version).and_then(|file| file.take(VERSION_MAX).read_to_end(&mut text)) {
            Ok(_) if text == self.version.as_bytes() => Ok(Age::Used),
            Ok(_) => Err(Refusal::new(
                "state/version",
                version.display().to_string(),
                "this folder was written by another version or program, or is damaged",
                "use the version that wrote it, or another --state folder",
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => self.check_new(folder),
            Err(error) => Err(at(&version)(error)),
        }
    }

    fn check_new(&self, folder: &Path) -> Result<Age, Refusal> {
        let names = std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut names = names.map_err(at(folder))?;
        names.retain(|entry| !self.brought.iter().any(|name| entry.file_name() == *name));
        if names.is_empty() {
            return Ok(Age::New);
        }
        Err(Refusal::new(
            "state/not-a-state-folder",
            folder.display().to_string(),
            format!("the folder is not empty and holds no {}", self.holds),
            "name an empty or new folder with --state",
        ))
    }

    /// Writes the version into a new folder.
    pub fn found(&self, folder: &Path) -> Result<(), Refusal> {
        let version = folder.join("version");
        write_private(&version, self.version.as_bytes()).map_err(at(&version))
    }
}

/// The lock of a state folder.
#[derive(Debug)]
pub enum Lock {
    /// Ours as long as the file is open.
    Taken(File),
    /// Another process runs on the folder; the file may say which.
    Busy(File),
}

/// Tries to take the lock at `path`.
pub fn lock(path: &Path) -> Result<Lock, Refusal> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).map_err(at(path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock::Taken(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Lock::Busy(file)),
        Err(error) => Err(at(path)(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { version: "test/1\n", holds: "state of a test", brought: &["log"] };

    #[test]
    fn a_folder_is_new_until_it_is_founded_and_of_one_version_after() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("log"), "brought").unwrap();
        assert_eq!(FORMAT.age(folder.path()).unwrap(), Age::New);
        FORMAT.found(folder.path()).unwrap();
        assert_eq!(FORMAT.age(folder.path()).unwrap(), Age::Used);
        for bad in [&b"test/2\n"[..], b"", b"test/1", b"\xff\0", &[b'x'; 1000]] {
            std::fs::write(folder.path().join("version"), bad).unwrap();
            assert_eq!(FORMAT.age(folder.path()).unwrap_err().code, "state/version", "{bad:?}");
        }
        std::fs::remove_file(folder.path().join("version")).unwrap();
        std::fs::write(folder.path().join("thesis.tex"), "x").unwrap();
        let refusal = FORMAT.age(folder.path()).unwrap_err();
        assert_eq!(refusal.code, "state/not-a-state-folder");
        assert!(refusal.cause.ends_with("holds no state of a test"), "{refusal}");
    }

    #[test]
    fn a_lock_is_taken_once_and_free_again_after_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = lock(&path).unwrap();
        assert!(matches!(first, Lock::Taken(_)));
        assert!(matches!(lock(&path).unwrap(), Lock::Busy(_)));
        drop(first);
        assert!(matches!(lock(&path).unwrap(), Lock::Taken(_)));
        assert!(lock(&folder.path().join("none/lock")).is_err());
    }

    #[test]
    fn folders_are_made_private_and_are_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        make_folder(&path).unwrap();
        make_folder(&path).unwrap();
        check_owner(&path, "test").unwrap();
        check_private(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o770)).unwrap();
        assert_eq!(check_private(&path).unwrap_err().code, "state/writable-by-others");
        assert_eq!(check_owner(&path.join("none"), "test").unwrap_err().code, "state/io");
    }
}
