//! The machine-wide lock as the steps see it: waiting for it can be given up.

use super::context::{Hold, Machine};
use crate::machine_lock::{MachineLock, MachineLockError, unless};
use std::io;

impl Machine for MachineLock {
    fn hold(&self, hold: Hold, give_up: &dyn Fn() -> bool) -> io::Result<Option<Box<dyn Send>>> {
        let lock = self.clone();
        unless(move || acquire(&lock, hold), give_up)
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
