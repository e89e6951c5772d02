//! A GPU has one node at a time: an advisory lock by its UUID, for all nodes of all users of the machine.
//!
//! Two nodes may offer the same GPU. Each takes the lock while its workers may be on the device (validating a group of
//! cases, timing a case) and lets go in between, so that the other gets its turn. It is taken after the machine-wide lock
//! and let go before it, so that nobody waits for one while holding what the other needs. The kernel drops the lock when
//! its holder dies. As with the machine-wide lock, nodes trust the other users of their machine not to hold it for ever.

use crate::machine_lock::{MachineLockError, lock_folder, locked, unless};
use rustix::fs::{FlockOperation, stat};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Bytes of a device's name in a file name: those of a UUID with its kind.
const NAME_MAX: usize = 64;

/// Why the device is not ours.
#[derive(Debug, thiserror::Error)]
pub enum DeviceLockError {
    #[error("`{0}` is no name that a lock file can have")]
    Name(String),
    #[error("cannot wait for the lock of {uuid}: {source}")]
    Wait { uuid: String, source: io::Error },
    #[error("{uuid} is in use by {holder}")]
    Held { uuid: String, holder: Holder },
}

/// Who has a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    Process(u32),
    /// The kernel does not tell, as across containers.
    Untold,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process(id) => write!(formatter, "another node of this machine, process {id}"),
            Self::Untold => formatter.write_str("another node of this machine"),
        }
    }
}

/// Held while workers may be on the device.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct DeviceGuard(#[expect(dead_code, reason = "closing it lets go of the lock")] OwnedFd);

/// Where the lock files are.
#[derive(Debug, Clone)]
pub struct DeviceLock {
    folder: PathBuf,
}

impl DeviceLock {
    /// The locks of this machine's devices, beside its machine-wide lock.
    pub fn of_this_machine() -> Self {
        Self::at(lock_folder())
    }

    /// Locks in another folder.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Waits until the device is ours, or `give_up` says that it is of no use any more: then the error says whose it is.
    pub fn claim(&self, uuid: &str, give_up: &dyn Fn() -> bool) -> Result<DeviceGuard, DeviceLockError> {
        let path = self.path(uuid)?;
        let file = path.clone();
        let take =
            move || -> Result<OwnedFd, MachineLockError> { locked(&file, FlockOperation::LockExclusive) };
        match unless(take, give_up) {
            Ok(Some(held)) => Ok(DeviceGuard(held)),
            Ok(None) => Err(DeviceLockError::Held { uuid: uuid.to_owned(), holder: holder(&path) }),
            Err(source) => Err(DeviceLockError::Wait { uuid: uuid.to_owned(), source }),
        }
    }

    /// The same without waiting: `None` if somebody has it.
    pub fn try_claim(&self, uuid: &str) -> Result<Option<DeviceGuard>, DeviceLockError> {
        match locked(&self.path(uuid)?, FlockOperation::NonBlockingLockExclusive) {
            Ok(held) => Ok(Some(DeviceGuard(held))),
            Err(MachineLockError::Lock { source: Errno::WOULDBLOCK, .. }) => Ok(None),
            Err(error) => {
                Err(DeviceLockError::Wait { uuid: uuid.to_owned(), source: io::Error::other(error) })
            }
        }
    }

    fn path(&self, uuid: &str) -> Result<PathBuf, DeviceLockError> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if uuid.is_empty() || uuid.len() > NAME_MAX || !uuid.bytes().all(legal) {
            return Err(DeviceLockError::Name(uuid.chars().take(NAME_MAX).collect()));
        }
        Ok(self.folder.join(format!("muster-gpu-{uuid}.lock")))
    }
}

fn holder(path: &Path) -> Holder {
    let told = stat(path).ok().zip(fs::read_to_string("/proc/locks").ok());
    let process = told.and_then(|(file, locks)| listed(&locks, file.st_ino));
    process.map_or(Holder::Untold, Holder::Process)
}

/// The process that holds the file of this number, as /proc/locks tells (proc_locks(5)):
/// `1: FLOCK  ADVISORY  WRITE 4711 fd:00:1837 0 EOF`. Lines with `->` are of those who wait. Process 0 is one of another
/// namespace.
fn listed(locks: &str, file: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, _, mode) = (words.next()?, words.next()?, words.next()?);
        let (process, place) = (words.next()?.parse().ok()?, words.next()?);
        let is_it = kind == "FLOCK" && mode == "WRITE" && place.rsplit(':').next()?.parse() == Ok(file);
        (is_it && process != 0).then_some(process)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    const UUID: &str = "GPU-3a54de24-0001-0203-0405-060708090aff";

    /// Another process that holds the lock until its input is closed.
    #[expect(
        clippy::disallowed_methods,
        reason = "the lock must hold between processes, so the test has one"
    )]
    fn other(folder: &Path, uuid: &str) -> Child {
        let file = folder.join(format!("muster-gpu-{uuid}.lock"));
        let mut child = Command::new("flock")
            .arg(file)
            .args(["sh", "-c", "echo held; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        child
    }

    #[test]
    fn another_process_keeps_the_device_and_is_named_until_it_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let lock = DeviceLock::at(folder.path().to_owned());
        let mut other = other(folder.path(), UUID);
        match lock.claim(UUID, &|| true) {
            Err(DeviceLockError::Held { holder, .. }) => {
                assert!([Holder::Process(other.id()), Holder::Untold].contains(&holder), "{holder:?}");
            }
            got => panic!("{got:?}"),
        }
        // Another GPU is free all the while.
        assert!(lock.claim("GPU-other", &|| true).is_ok());
        drop(other.stdin.take());
        other.wait().unwrap();
        assert!(lock.claim(UUID, &|| false).is_ok());
    }

    #[test]
    fn a_process_that_dies_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut other = other(folder.path(), UUID);
        drop(other.stdin.take());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(DeviceLock::at(folder.path().to_owned()).claim(UUID, &|| false).is_ok());
    }

    #[test]
    fn two_holders_in_one_process_wait_for_each_other_too() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (DeviceLock::at(folder.path().to_owned()), DeviceLock::at(folder.path().to_owned()));
        let held = one.claim(UUID, &|| false).unwrap();
        let refused = two.claim(UUID, &|| true).unwrap_err().to_string();
        assert!(refused.contains(UUID), "{refused}");
        drop(held);
        assert!(two.claim(UUID, &|| false).is_ok());
    }

    #[test]
    fn somebody_who_only_tries_never_waits() {
        let folder = tempfile::tempdir().unwrap();
        let lock = DeviceLock::at(folder.path().to_owned());
        let held = lock.try_claim(UUID).unwrap().unwrap();
        assert!(lock.try_claim(UUID).unwrap().is_none());
        drop(held);
        assert!(lock.try_claim(UUID).unwrap().is_some());
        assert!(matches!(lock.try_claim("../x"), Err(DeviceLockError::Name(_))));
    }

    #[test]
    fn names_that_are_no_uuid_make_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let lock = DeviceLock::at(folder.path().to_owned());
        for name in ["", "../x", "GPU 0", &"a".repeat(65)] {
            assert!(matches!(lock.claim(name, &|| false), Err(DeviceLockError::Name(_))), "{name}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_kernels_list_names_the_holder_and_no_waiter() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fd:00:77 0 EOF\n\
                     2: FLOCK  ADVISORY  READ  12 fd:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 fd:00:78 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 14 fd:00:77 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 15 00:2a:77 0 EOF\n";
        assert_eq!(listed(locks, 77), Some(15));
        assert_eq!(listed(locks, 78), Some(13));
        assert_eq!(listed(locks, 79), None);
        assert_eq!(listed("4: FLOCK  ADVISORY  WRITE 0 00:2a:77 0 EOF\n", 77), None);
        assert_eq!(listed("nonsense\n\n4:", 77), None);
    }
}
