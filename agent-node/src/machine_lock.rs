//! Timing runs alone on its machine: one lock for all nodes of all users.
//!
//! Compiling and validating hold it shared, timing holds it exclusively. Two files make it fair: whoever wants the lock
//! first passes the *gate*, and timing keeps the gate shut behind itself while it waits for others to finish, so that
//! a stream of compilations cannot starve it. The kernel drops both locks when their holder dies.
//!
//! The files are for everybody to open, so any local user can stop timing by holding the lock: nodes trust the other
//! users of their machine that far.

use crate::clock;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fchmod, flock, fstat, open, stat};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

const GATE: &str = "muster-gate.lock";
const TIMING: &str = "muster-timing.lock";
/// How often a lock file may vanish between being opened and locked before that is taken for a fault. Cleaners of
/// temporary folders remove a file once in days.
const REPLACED_MAX: u32 = 100;

/// The lock cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum MachineLockError {
    #[error("cannot open lock file {path}: {source}")]
    Open { path: PathBuf, source: Errno },
    #[error("lock file {path} is no regular file; remove it")]
    NotRegular { path: PathBuf },
    #[error("cannot lock {path}: {source}")]
    Lock { path: PathBuf, source: Errno },
    #[error("lock file {path} keeps being replaced")]
    Replaced { path: PathBuf },
}

/// Where the lock files are.
#[derive(Debug, Clone)]
pub struct MachineLock {
    folder: PathBuf,
}

/// Held while compiling or validating; others may too.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct SharedGuard {
    _timing: OwnedFd,
    waited: Duration,
}

/// Held while timing; nobody else compiles, validates or times on this machine.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct ExclusiveGuard {
    _timing: OwnedFd,
    waited: Duration,
}

impl SharedGuard {
    /// How long it was waited for.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl ExclusiveGuard {
    /// How long it was waited for.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl MachineLock {
    /// The lock of this machine. `/run/lock` is taken only where everybody may write to it: nodes of different users must
    /// come to the same choice.
    pub fn of_this_machine() -> Self {
        Self::at(lock_folder())
    }

    /// A lock in another folder.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Waits until no timing runs or waits, then keeps timing away.
    pub fn shared(&self) -> Result<SharedGuard, MachineLockError> {
        let (timing, waited) = self.pass(FlockOperation::LockShared)?;
        Ok(SharedGuard { _timing: timing, waited })
    }

    /// Keeps timing away if none runs or waits at this moment; never waits.
    pub fn try_shared(&self) -> Result<Option<SharedGuard>, MachineLockError> {
        let attempt = |name: &str, operation| match locked(&self.folder.join(name), operation) {
            Ok(held) => Ok(Some(held)),
            Err(MachineLockError::Lock { source: Errno::WOULDBLOCK, .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let Some(gate) = attempt(GATE, FlockOperation::NonBlockingLockExclusive)? else { return Ok(None) };
        let timing = attempt(TIMING, FlockOperation::NonBlockingLockShared)?;
        drop(gate);
        Ok(timing.map(|timing| SharedGuard { _timing: timing, waited: Duration::ZERO }))
    }

    /// Waits until everybody else has finished, then keeps them away.
    pub fn exclusive(&self) -> Result<ExclusiveGuard, MachineLockError> {
        let (timing, waited) = self.pass(FlockOperation::LockExclusive)?;
        Ok(ExclusiveGuard { _timing: timing, waited })
    }

    fn pass(&self, operation: FlockOperation) -> Result<(OwnedFd, Duration), MachineLockError> {
        let start = clock::monotonic();
        let gate = locked(&self.folder.join(GATE), FlockOperation::LockExclusive)?;
        let timing = locked(&self.folder.join(TIMING), operation)?;
        drop(gate);
        Ok((timing, clock::monotonic().saturating_sub(start)))
    }
}

/// The folder of this machine's lock files.
pub(crate) fn lock_folder() -> PathBuf {
    let run = Path::new("/run/lock");
    let for_all = |mode: u32| FileType::from_raw_mode(mode) == FileType::Directory && mode & 0o002 != 0;
    let chosen = if stat(run).is_ok_and(|found| for_all(found.st_mode)) { run } else { Path::new("/tmp") };
    chosen.to_owned()
}

/// How often somebody who waits asks whether to give up.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// What `take` gives, a blocking call for a lock that nothing interrupts; `None` once `give_up` says that it is of no use
/// any more. A thread does the waiting: after it was given up it stays in the queue, takes the lock when its turn comes,
/// finds nobody and lets go.
pub(crate) fn unless<T: Send + 'static>(
    take: impl FnOnce() -> Result<T, MachineLockError> + Send + 'static,
    give_up: &dyn Fn() -> bool,
) -> io::Result<Option<T>> {
    let (give, taken) = sync_channel(0);
    let waiter = std::thread::Builder::new().name("machine-lock".to_owned());
    waiter.spawn(move || {
        let _nobody_waits = give.send(take());
    })?;
    loop {
        match taken.recv_timeout(ASK_EVERY) {
            Ok(held) => return held.map(Some).map_err(io::Error::other),
            Err(RecvTimeoutError::Timeout) if give_up() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the thread that waits for the lock died"));
            }
        }
    }
}

/// Opens the file and locks it, and makes sure that the path still names what was locked.
pub(crate) fn locked(path: &Path, operation: FlockOperation) -> Result<OwnedFd, MachineLockError> {
    let failed = |source| MachineLockError::Lock { path: path.to_owned(), source };
    for _ in 0..REPLACED_MAX {
        let file = lock_file(path)?;
        loop {
            match flock(&file, operation) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let held = fstat(&file).map_err(failed)?;
        if stat(path).is_ok_and(|named| (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)) {
            return Ok(file);
        }
    }
    Err(MachineLockError::Replaced { path: path.to_owned() })
}

/// Opens the lock file and makes it where it is missing. First without creating: in a sticky folder the kernel may forbid
/// to open another user's file with `O_CREAT` (`fs.protected_regular`).
fn lock_file(path: &Path) -> Result<OwnedFd, MachineLockError> {
    let failed = |source| MachineLockError::Open { path: path.to_owned(), source };
    // A pipe in its place must not block the open.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    for _ in 0..REPLACED_MAX {
        match open(path, flags, Mode::empty()) {
            Ok(file) => {
                let found = fstat(&file).map_err(failed)?;
                if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
                    return Err(MachineLockError::NotRegular { path: path.to_owned() });
                }
                return Ok(file);
            }
            Err(Errno::NOENT) => {}
            Err(Errno::LOOP) => return Err(MachineLockError::NotRegular { path: path.to_owned() }),
            Err(error) => return Err(failed(error)),
        }
        let for_all = Mode::from_raw_mode(0o666);
        match open(path, flags | OFlags::CREATE | OFlags::EXCL, for_all) {
            Ok(file) => {
                // The process's umask has taken rights away.
                fchmod(&file, for_all).map_err(failed)?;
                return Ok(file);
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(MachineLockError::Replaced { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::{GATE, MachineLock, MachineLockError, TIMING, lock_file};
    use rustix::fs::{FlockOperation, flock};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::mpsc::channel;
    use std::thread;

    fn free(path: &Path, operation: FlockOperation) -> bool {
        flock(lock_file(path).unwrap(), operation).is_ok()
    }

    #[test]
    fn shared_holders_share_and_keep_timing_away() {
        let folder = tempfile::tempdir().unwrap();
        let lock = MachineLock::at(folder.path().to_owned());
        let timing = folder.path().join(TIMING);
        let first = lock.shared().unwrap();
        let second = lock.shared().unwrap();
        assert!(!free(&timing, FlockOperation::NonBlockingLockExclusive));
        drop(first);
        assert!(!free(&timing, FlockOperation::NonBlockingLockExclusive));
        drop(second);
        assert!(free(&timing, FlockOperation::NonBlockingLockExclusive));
    }

    #[test]
    fn timing_keeps_everybody_away_and_leaves_the_gate_free() {
        let folder = tempfile::tempdir().unwrap();
        let lock = MachineLock::at(folder.path().to_owned());
        let held = lock.exclusive().unwrap();
        assert!(!free(&folder.path().join(TIMING), FlockOperation::NonBlockingLockShared));
        assert!(free(&folder.path().join(GATE), FlockOperation::NonBlockingLockExclusive));
        drop(held);
        assert!(free(&folder.path().join(TIMING), FlockOperation::NonBlockingLockShared));
    }

    #[test]
    fn who_comes_after_a_waiting_timing_gets_the_lock_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let lock = MachineLock::at(folder.path().to_owned());
        let (report, order) = channel();
        let compiling = lock.shared().unwrap();
        thread::scope(|scope| {
            let timing = report.clone();
            let (first, second) = (&lock, &lock);
            scope.spawn(move || {
                let held = first.exclusive().unwrap();
                timing.send("timing").unwrap();
                drop(held);
            });
            // The waiting timing holds the gate.
            while free(&folder.path().join(GATE), FlockOperation::NonBlockingLockExclusive) {
                thread::yield_now();
            }
            scope.spawn(move || {
                let held = second.shared().unwrap();
                report.send("compiling").unwrap();
                drop(held);
            });
            assert!(order.try_recv().is_err(), "nobody may pass while the first compilation runs");
            drop(compiling);
        });
        assert_eq!(order.iter().collect::<Vec<_>>(), ["timing", "compiling"]);
    }

    #[test]
    fn lock_files_are_for_all_users_and_must_be_regular() {
        let folder = tempfile::tempdir().unwrap();
        let lock = MachineLock::at(folder.path().to_owned());
        drop(lock.shared().unwrap());
        let mode = std::fs::metadata(folder.path().join(GATE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
        std::fs::remove_file(folder.path().join(GATE)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join(GATE)).unwrap();
        assert!(matches!(lock.shared(), Err(MachineLockError::NotRegular { .. })));
        std::fs::remove_file(folder.path().join(GATE)).unwrap();
        std::fs::create_dir(folder.path().join(GATE)).unwrap();
        assert!(matches!(lock.exclusive(), Err(MachineLockError::NotRegular { .. })));
    }

    #[test]
    fn a_folder_that_is_missing_is_named() {
        let lock = MachineLock::at("/nonexistent/lock".into());
        let refused = lock.shared().unwrap_err();
        assert!(refused.to_string().contains("/nonexistent/lock/muster-gate.lock"), "{refused}");
    }
}
