//! The state folder of a coordinator: layout, single owner, keys.
//!
//! ```text
//! <state>/version        format of this folder
//! <state>/lock           held by the coordinator that runs on it
//! <state>/keys/          operator, log, tls.key.der (0600), log.vkey
//! <state>/port           UDP port of the last start, taken again when --listen names port 0
//! <state>/journal        durable facts
//! <state>/ledger/        the ledger
//! <state>/sealed/        holdout sections (0600), never blobs
//! <state>/api.sock       the HTTP API (0600)
//! <state>/coordinator.json   address and process of the running coordinator
//! ```

use fleet_config::identity::SecretKey;
use fleet_config::refusal::Refusal;
use fleet_config::state::{
    self, Age, Format, Lock, at, check_owner, check_private, signing_key, surroundings,
};
pub use fleet_config::state::{io, make_folder, read_private, write_private};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

const FORMAT: Format = Format { version: "muster-state/1\n", holds: "Muster state", brought: &[] };

/// A state folder that this process owns.
#[derive(Debug)]
pub struct State {
    folder: PathBuf,
    _lock: File,
}

/// Where the parts of a state folder lie.
#[derive(Debug, Clone)]
pub struct Layout {
    folder: PathBuf,
}

impl Layout {
    /// The layout below `folder`.
    pub fn of(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    pub fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }
    pub fn ledger(&self) -> PathBuf {
        self.folder.join("ledger")
    }
    pub fn keys(&self) -> PathBuf {
        self.folder.join("keys")
    }
    pub fn sealed(&self) -> PathBuf {
        self.folder.join("sealed")
    }
    pub fn socket(&self) -> PathBuf {
        self.folder.join("api.sock")
    }
    pub fn running(&self) -> PathBuf {
        self.folder.join("coordinator.json")
    }
    pub fn port(&self) -> PathBuf {
        self.folder.join("port")
    }
    pub fn log(&self) -> PathBuf {
        self.folder.join("coordinator.log")
    }
}

/// Makes sure that `folder` is a state folder of this version: makes it if it is absent or empty.
pub fn prepare(folder: &Path) -> Result<(), Refusal> {
    make_folder(folder).map_err(at(folder))?;
    // Whoever may write here may replace the keys and the socket that people speak to.
    check_owner(folder, "coordinator")?;
    check_private(folder)?;
    match FORMAT.age(folder)? {
        Age::Used => Ok(()),
        Age::New => FORMAT.found(folder),
    }
}

impl State {
    /// Opens the folder, makes it if it is absent or empty, and takes its lock.
    pub fn open(folder: &Path) -> Result<Self, Refusal> {
        prepare(folder)?;
        let lock = lock(folder)?;
        let layout = Layout::of(folder);
        for part in [layout.keys(), layout.sealed()] {
            make_folder(&part).map_err(at(&part))?;
        }
        Ok(Self { folder: folder.to_owned(), _lock: lock })
    }

    /// Where its parts lie.
    pub fn layout(&self) -> Layout {
        Layout::of(&self.folder)
    }

    /// The key named `name`, made on first use.
    pub fn key(&self, name: &str) -> Result<SecretKey, Refusal> {
        signing_key(&self.layout().keys().join(name), "restore it from a backup")
    }
}

/// Takes `<folder>/lock`, or says who holds it.
fn lock(folder: &Path) -> Result<File, Refusal> {
    let path = folder.join("lock");
    match state::lock(&path)? {
        Lock::Taken(mut file) => {
            file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(at(&path))?;
            Ok(file)
        }
        Lock::Busy(mut file) => {
            let mut holder = String::new();
            // The process id inside is for people only; an unreadable one changes nothing.
            let _unreadable = file.read_to_string(&mut holder);
            Err(Refusal::new(
                "state/in-use",
                path.display().to_string(),
                format!("another coordinator runs on this folder (process {})", holder.trim()),
                "use it through its API, stop it with `muster down`, or name another --state folder",
            ))
        }
    }
}

/// A part of the state folder that can fail as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Journal,
    Ledger,
    Index,
    /// The running coordinator, after everything was read.
    Loop,
}

impl Part {
    /// The refusal that an error of this part becomes. What the file system says comes first: a full disk is no
    /// damage.
    pub fn failed(self, layout: &Layout, error: &(dyn std::error::Error + 'static)) -> Refusal {
        let chain = || std::iter::successors(Some(error), |error| error.source());
        let mut causes: Vec<String> = Vec::new();
        for cause in chain().map(ToString::to_string) {
            if causes.last().is_none_or(|before| !before.contains(&cause)) {
                causes.push(cause);
            }
        }
        let cause = causes.join(": ");
        let place = match self {
            Self::Journal => layout.journal(),
            Self::Ledger => layout.ledger(),
            Self::Index => layout.ledger().join("index"),
            Self::Loop => layout.folder().to_owned(),
        };
        let place = place.display().to_string();
        let io_error = chain().find_map(|error| error.downcast_ref::<std::io::Error>());
        if let Some(refusal) = io_error.and_then(|error| surroundings(&place, error)) {
            return Refusal { cause, ..refusal };
        }
        let (code, next) = match self {
            Self::Journal => (
                "state/journal",
                "nothing was repaired; restore the state folder from a backup, or find out what wrote to this file",
            ),
            Self::Ledger => (
                "state/ledger",
                "nothing was repaired; run `muster ledger verify` to see what is damaged, then restore it from a backup",
            ),
            Self::Index => {
                ("state/index", "remove this folder; the next start builds it again from the ledger")
            }
            Self::Loop => (
                "coordinator/ended",
                "what was acknowledged is safe; correct the cause and start the coordinator again",
            ),
        };
        Refusal::new(code, place, cause, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let first = State::open(folder.path()).unwrap();
        assert_eq!(State::open(folder.path()).unwrap_err().code, "state/in-use");
        drop(first);
        State::open(folder.path()).unwrap();
    }

    #[test]
    fn strangers_and_other_versions_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("thesis.tex"), "x").unwrap();
        assert_eq!(State::open(folder.path()).unwrap_err().code, "state/not-a-state-folder");
        std::fs::write(folder.path().join("version"), "muster-state/9\n").unwrap();
        assert_eq!(State::open(folder.path()).unwrap_err().code, "state/version");
    }

    #[test]
    fn a_full_disk_is_told_from_damage_wherever_it_shows() {
        let layout = Layout::of("/state");
        let full = || std::io::Error::from(ErrorKind::StorageFull);
        let append = crate::journal::AppendError::Io { path: layout.journal(), source: full() };
        let refusal = Part::Journal.failed(&layout, &append);
        assert_eq!((refusal.code.as_ref(), refusal.place.as_str()), ("state/disk-full", "/state/journal"));
        assert!(refusal.next.contains("free space") && !refusal.cause.is_empty(), "{refusal}");
        let disk = ledger::disk::DiskError::at(ledger::disk::DiskAction::Write, Path::new("x"))(full());
        assert_eq!(Part::Ledger.failed(&layout, &ledger::log::OpenError::from(disk)).code, "state/disk-full");
        let read_only = std::io::Error::from(ErrorKind::ReadOnlyFilesystem);
        assert_eq!(Part::Loop.failed(&layout, &read_only).code, "state/not-writable");
        let damage = std::io::Error::from(ErrorKind::InvalidData);
        for (part, code) in [
            (Part::Journal, "state/journal"),
            (Part::Ledger, "state/ledger"),
            (Part::Index, "state/index"),
            (Part::Loop, "coordinator/ended"),
        ] {
            assert_eq!(part.failed(&layout, &damage).code, code);
        }
    }

    #[test]
    fn keys_last_and_must_be_private() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        let key = state.key("operator").unwrap().public();
        assert_eq!(state.key("operator").unwrap().public(), key);
        let path = state.layout().keys().join("operator");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(state.key("operator").unwrap_err().code, "state/secret-readable");
    }
}
