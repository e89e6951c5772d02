//! The machine-wide lock as the steps see it: waiting for it can be given up.

use super::context::{Hold, Machine};
use crate::machine_lock::{MachineLock, MachineLockError};
use std::io;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How often a waiting step asks whether to give up.
const ASK_EVERY: Duration = Duration::from_millis(20);

impl Machine for MachineLock {
    fn hold(&self, hold: Hold, give_up: &dyn Fn() -> bool) -> io::Result<Option<Box<dyn Send>>> {
        // The wait is a blocking call that nothing interrupts, so a thread does it. When the attempt gives up
        // the thread stays in the queue, takes the lock when its turn comes, finds nobody and lets go.
        let (give, take) = sync_channel(0);
        let lock = self.clone();
        let waiter = std::thread::Builder::new().name("machine-lock".to_owned());
        waiter.spawn(move || {
            let _nobody_waits = give.send(acquire(&lock, hold));
        })?;
        loop {
            match take.recv_timeout(ASK_EVERY) {
                Ok(held) => return held.map(Some).map_err(io::Error::other),
                Err(RecvTimeoutError::Timeout) if give_up() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the thread that waits for the lock died"));
                }
            }
        }
    }
}

fn acquire(lock: &MachineLock, hold: Hold) -> Result<Box<dyn Send>, MachineLockError> {
    Ok(match hold {
        Hold::Shared => Box::new(lock.shared()?),
        Hold::Alone => Box::new(lock.exclusive()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_wait_ends_and_leaves_the_lock_free() {
        let folder = tempfile::tempdir().unwrap();
        let lock = MachineLock::at(folder.path().to_owned());
        let held = lock.hold(Hold::Alone, &|| false).unwrap().unwrap();
        assert!(lock.hold(Hold::Shared, &|| true).unwrap().is_none());
        drop(held);
        assert!(lock.hold(Hold::Alone, &|| false).unwrap().is_some());
    }

    #[test]
    fn a_folder_without_lock_files_is_an_error() {
        let lock = MachineLock::at("/proc/no-such-folder".into());
        assert!(lock.hold(Hold::Shared, &|| false).is_err());
    }
}
