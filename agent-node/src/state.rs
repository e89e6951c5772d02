//! The state folder of a node: layout, single owner, keys.
//!
//! ```text
//! <state>/version     format of this folder
//! <state>/lock        held by the node that runs on it
//! <state>/keys/       signing (0600), and what the session keeps for TLS
//! <state>/blob/       cache of blobs, by digest
//! <state>/outbox/     signed results that are not yet acknowledged
//! <state>/cache/      compiled artefacts; never leave this machine
//! <state>/job/        one folder per attempt in progress, emptied at start
//! ```
//! Candidates and compilers see none of it but their own job folder.

use fleet_config::identity::SecretKey;
use fleet_config::refusal::Refusal;
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Contents of `<state>/version`.
const VERSION: &str = "muster-node-state/1\n";

/// Longest version file that is read: a damaged one may be anything.
const VERSION_MAX: u64 = 64;

/// Bytes of a signing key's seed.
const SEED: usize = 32;

/// A state folder that this process owns.
#[derive(Debug)]
pub struct State {
    folder: PathBuf,
    _lock: File,
}

impl State {
    /// Opens the folder, makes it if it is absent or empty, takes its lock, and clears what dead attempts left.
    pub fn open(folder: &Path) -> Result<Self, Refusal> {
        let place = folder.display().to_string();
        make_folder(folder)?;
        // Paths inside go to children with other working folders.
        let folder = folder.canonicalize().map_err(|error| io(&place, &error))?;
        check_owner(&folder)?;
        check_version(&folder)?;
        let lock = lock(&folder)?;
        let state = Self { folder, _lock: lock };
        for part in [state.keys(), state.blobs(), state.outbox(), state.cache()] {
            make_folder(&part)?;
        }
        state.clear_jobs()?;
        Ok(state)
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    pub fn keys(&self) -> PathBuf {
        self.folder.join("keys")
    }
    pub fn blobs(&self) -> PathBuf {
        self.folder.join("blob")
    }
    pub fn outbox(&self) -> PathBuf {
        self.folder.join("outbox")
    }
    pub fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }
    pub fn jobs(&self) -> PathBuf {
        self.folder.join("job")
    }

    /// The key that signs results, made on first use.
    pub fn signing_key(&self) -> Result<SecretKey, Refusal> {
        let path = self.keys().join("signing");
        let place = path.display().to_string();
        if let Some(bytes) = read_private(&path)? {
            let seed: [u8; SEED] = bytes.as_slice().try_into().map_err(|_| {
                let cause = format!("this key file has {} bytes, {SEED} are needed", bytes.len());
                Refusal::new(
                    "state/key",
                    &place,
                    cause,
                    "restore it from a backup, or remove it and join anew",
                )
            })?;
            return Ok(SecretKey::from_seed(&Zeroizing::new(seed)));
        }
        let mut seed = Zeroizing::new([0_u8; SEED]);
        getrandom::fill(seed.as_mut()).map_err(|error| {
            Refusal::new("state/randomness", &place, error.to_string(), "check the machine's random source")
        })?;
        write_private(&path, seed.as_ref()).map_err(|error| io(&place, &error))?;
        Ok(SecretKey::from_seed(&seed))
    }

    fn clear_jobs(&self) -> Result<(), Refusal> {
        let jobs = self.jobs();
        let place = jobs.display().to_string();
        match std::fs::remove_dir_all(&jobs) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io(&place, &error)),
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
        return Err(Refusal::new(
            "state/owner",
            place,
            cause,
            "run as its owner, or name another --state folder",
        ));
    }
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
            let place = folder.display().to_string();
            let mut strangers = std::fs::read_dir(folder).map_err(|error| io(&place, &error))?;
            if strangers.next().is_some() {
                return Err(Refusal::new(
                    "state/not-a-state-folder",
                    place,
                    "the folder is not empty and holds no state of a node",
                    "name an empty or new folder with --state",
                ));
            }
            write_private(&version, VERSION.as_bytes()).map_err(|error| io(&place, &error))
        }
        Err(error) => Err(io(&place, &error)),
    }
}

/// Takes `<folder>/lock`, or says who holds it.
fn lock(folder: &Path) -> Result<File, Refusal> {
    let path = folder.join("lock");
    let place = path.display().to_string();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(&path).map_err(|error| io(&place, &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            // The process id inside is for people only; an unreadable one changes nothing.
            let _unreadable = file.read_to_string(&mut holder);
            return Err(Refusal::new(
                "state/in-use",
                place,
                format!("another node runs on this folder (process {})", holder.trim()),
                "stop it, or name another --state folder: two nodes of one machine need two",
            ));
        }
        Err(error) => return Err(io(&place, &error.into())),
    }
    file.set_len(0)
        .and_then(|()| write!(file, "{}", std::process::id()))
        .map_err(|error| io(&place, &error))?;
    Ok(file)
}

/// Reads a file that must be private to its owner; `None` if it does not exist.
pub fn read_private(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, Refusal> {
    let place = path.display().to_string();
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(&place, &error)),
    };
    let mode = file.metadata().map_err(|error| io(&place, &error))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Refusal::new(
            "state/secret-readable",
            &place,
            format!("this secret can be read by others (mode {:03o})", mode & 0o777),
            "run `chmod 600` on it and consider the key known to others",
        ));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.read_to_end(&mut bytes).map_err(|error| io(&place, &error))?;
    Ok(Some(bytes))
}

/// Writes a 0600 file so that a crash leaves the old one or the new one.
pub fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
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
        State::open(folder).unwrap_err().code.into_owned()
    }

    #[test]
    fn a_folder_has_one_owner_and_forgets_dead_attempts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        let first = State::open(&path).unwrap();
        std::fs::create_dir_all(first.jobs().join("7/run-candidate")).unwrap();
        assert_eq!(code(&path), "state/in-use");
        drop(first);
        let second = State::open(&path).unwrap();
        assert_eq!(std::fs::read_dir(second.jobs()).unwrap().count(), 0);
    }

    #[test]
    fn strangers_other_versions_and_damage_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        State::open(&path).unwrap();
        for bad in ["muster-node-state/9\n", "muster-state/1\n", "", "\0\0\0"] {
            std::fs::write(path.join("version"), bad).unwrap();
            assert_eq!(code(&path), "state/version", "{bad:?}");
        }
        std::fs::remove_file(path.join("version")).unwrap();
        assert_eq!(code(&path), "state/not-a-state-folder");
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        State::open(&path).unwrap();
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

    #[test]
    fn the_signing_key_lasts_and_must_be_private_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(&folder.path().join("node")).unwrap();
        let key = state.signing_key().unwrap().public();
        assert_eq!(state.signing_key().unwrap().public(), key);
        let path = state.keys().join("signing");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(state.signing_key().unwrap_err().code, "state/secret-readable");
        write_private(&path, b"short").unwrap();
        assert_eq!(state.signing_key().unwrap_err().code, "state/key");
    }
}
