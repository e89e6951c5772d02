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
use fleet_config::state::{Age, Format, at, check_owner, check_private, make_folder};
use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Whoever starts a node in the background keeps its log and process id in the folder.
const FORMAT: Format =
    Format { version: "muster-node-state/1\n", holds: "state of a node", brought: &["node.log", "pid"] };

/// A folder that this node may use.
#[derive(Debug, Clone)]
pub struct State {
    folder: PathBuf,
}

impl State {
    /// Makes the folder if it is absent, and checks that it is this user's, private and of this version.
    pub fn admit(folder: &Path) -> Result<Self, Refusal> {
        make_folder(folder).map_err(at(folder))?;
        // Paths inside go to children with other working folders.
        let folder = folder.canonicalize().map_err(at(folder))?;
        check_owner(&folder, "node")?;
        if FORMAT.age(&folder)? == Age::New {
            // Whoever made a new folder may have done so under a generous umask.
            std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).map_err(at(&folder))?;
            FORMAT.found(&folder)?;
        }
        check_private(&folder)?;
        let state = Self { folder };
        make_folder(&state.cache()).map_err(at(&state.cache()))?;
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
            Err(error) => return Err(at(&jobs)(error)),
        }
        make_folder(&jobs).map_err(at(&jobs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
