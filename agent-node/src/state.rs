//! The state folder of a node: whose it is, which version wrote it, and what is in it besides the session's files.
//!
//! ```text
//! <state>/version     format of this folder
//! <state>/cache/      compiled artefacts, by level; never leave this machine
//! <state>/job/        one folder per attempt in progress, emptied at start
//! ```
//! Lock, keys, outbox and blobs belong to the session ([`crate::session::NodeFolder`]), which holds the folder's lock.
//! Candidates and compilers see none of it but their own job folder.

use fleet_config::refusal::Refusal;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Contents of `<state>/version`.
const VERSION: &str = "muster-node-state/1\n";

/// Longest version file that is read: a damaged one may be anything.
const VERSION_MAX: u64 = 64;

/// What may lie in a new folder already: whoever starts a node in the background keeps its log and process id there.
const BROUGHT: [&str; 2] = ["node.log", "pid"];

/// A folder that this node may use.
#[derive(Debug, Clone)]
pub struct State {
    folder: PathBuf,
}

impl State {
    /// Makes the folder if it is absent, and checks that it is this user's, private and of this version.
    pub fn admit(folder: &Path) -> Result<Self, Refusal> {
        make_folder(folder)?;
        let place = folder.display().to_string();
        // Paths inside go to children with other working folders.
        let folder = folder.canonicalize().map_err(|error| io(&place, &error))?;
        check_owner(&folder)?;
        check_version(&folder)?;
        check_private(&folder)?;
        let state = Self { folder };
        make_folder(&state.cache())?;
        Ok(state)
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    pub fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }
    pub fn jobs(&self) -> PathBuf {
        self.folder.join("job")
    }

    /// Removes what attempts of an earlier run left behind. Only for the holder of the folder's lock.
    pub fn clear_jobs(&self) -> Result<(), Refusal> {
        let jobs = self.jobs();
        match std::fs::remove_dir_all(&jobs) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io(&jobs.display().to_string(), &error)),
        }
        make_folder(&jobs)
    }
}

/// A folder of another user could be changed under our feet, and its keys are known to that user.
fn check_owner(folder: &Path) -> Result<(), Refusal> {
    let place = folder.display().to_string();
    let metadata = std::fs::metadata(folder).map_err(|error| io(&place, &error))?;
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != own {
        let cause = format!("this folder belongs to user {owner}, the node runs as user {own}");
        let next = "run as its owner, or name another --state folder";
        return Err(Refusal::new("state/owner", place, cause, next));
    }
    Ok(())
}

fn check_private(folder: &Path) -> Result<(), Refusal> {
    let place = folder.display().to_string();
    let metadata = std::fs::metadata(folder).map_err(|error| io(&place, &error))?;
    let mode = metadata.permissions().mode();
    if mode & 0o022 != 0 {
        let cause = format!("others may write to this folder (mode {:03o})", mode & 0o777);
        return Err(Refusal::new("state/writable-by-others", place, cause, "run `chmod 700` on it"));
    }
    Ok(())
}

fn check_version(folder: &Path) -> Result<(), Refusal> {
    let version = folder.join("version");
    let place = version.display().to_string();
    let mut text = Vec::new();
    match File::open(&version).and_then(|file| file.take(VERSION_MAX).read_to_end(&mut text)) {
        Ok(_) if text == VERSION.as_bytes() => Ok(()),
        Ok(_) => Err(Refusal::new(
            "state/version",
            place,
            "this folder was written by another version or program, or is damaged",
            "use the version that wrote it, or another --state folder",
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let shown = folder.display().to_string();
            let names = std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let mut names = names.map_err(|error| io(&shown, &error))?;
            names.retain(|entry| !BROUGHT.iter().any(|name| entry.file_name() == *name));
            if !names.is_empty() {
                return Err(Refusal::new(
                    "state/not-a-state-folder",
                    shown,
                    "the folder is not empty and holds no state of a node",
                    "name an empty or new folder with --state",
                ));
            }
            // Whoever made a new folder may have done so under a generous umask.
            let private = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(folder, private).map_err(|error| io(&shown, &error))?;
            write_version(&version).map_err(|error| io(&place, &error))
        }
        Err(error) => Err(io(&place, &error)),
    }
}

/// Written beside and renamed, so that a crash leaves no half version.
fn write_version(path: &Path) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(VERSION.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

/// Makes a 0700 folder with its parents.
fn make_folder(path: &Path) -> Result<(), Refusal> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(|error| io(&path.display().to_string(), &error))
}

/// The refusal that an I/O error on `place` becomes.
pub fn io(place: &str, error: &std::io::Error) -> Refusal {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Refusal::new(
            "state/not-writable",
            place,
            error.to_string(),
            "name a folder that this user may write with --state, or mount it writable",
        ),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Refusal::new(
            "state/disk-full",
            place,
            error.to_string(),
            "free space on this file system, then start again",
        ),
        _ => Refusal::new("state/io", place, error.to_string(), "check the folder and its file system"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    fn code(folder: &Path) -> String {
        State::admit(folder).unwrap_err().code.into_owned()
    }

    #[test]
    fn a_folder_is_admitted_again_and_forgets_dead_attempts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        let first = State::admit(&path).unwrap();
        std::fs::create_dir_all(first.jobs().join("7/run-candidate")).unwrap();
        let second = State::admit(&path).unwrap();
        assert_eq!(std::fs::read_dir(second.jobs()).unwrap().count(), 1);
        second.clear_jobs().unwrap();
        assert_eq!(std::fs::read_dir(second.jobs()).unwrap().count(), 0);
    }

    #[test]
    fn strangers_other_versions_and_damage_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        State::admit(&path).unwrap();
        for bad in ["muster-node-state/9\n", "muster-state/1\n", "", "\0\0\0"] {
            std::fs::write(path.join("version"), bad).unwrap();
            assert_eq!(code(&path), "state/version", "{bad:?}");
        }
        std::fs::remove_file(path.join("version")).unwrap();
        assert_eq!(code(&path), "state/not-a-state-folder");
    }

    #[test]
    fn a_new_folder_with_the_log_of_its_node_is_made_private() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o775)).unwrap();
        std::fs::write(folder.path().join("node.log"), "").unwrap();
        State::admit(folder.path()).unwrap();
        let mode = std::fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        State::admit(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(code(&path), "state/writable-by-others");
    }

    #[test]
    fn a_file_in_its_place_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        std::fs::write(&path, "x").unwrap();
        assert!(code(&path).starts_with("state/"));
    }
}
