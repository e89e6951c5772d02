//! One `muster up` or `muster down` on a state folder at a time: two at once would start a node twice.

use fleet_config::refusal::Refusal;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// How long the other one may take: a coordinator and a node may each start for half a minute.
const WAIT: Duration = Duration::from_secs(90);

const PAUSE: Duration = Duration::from_millis(50);

/// The right to start and stop what runs on a folder; ends when dropped, and with its process.
#[derive(Debug)]
pub(super) struct Turn {
    _folder: Option<File>,
}

/// Waits for the turn on the state folder `state`. The lock is on the folder itself, so that it holds before there is
/// anything in it; where there is no folder, there is nothing to take turns at.
pub(super) async fn take(state: &Path) -> Result<Turn, Refusal> {
    let Ok(folder) = File::open(state) else { return Ok(Turn { _folder: None }) };
    let mut waited = Duration::ZERO;
    while flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
        if waited >= WAIT {
            return Err(Refusal::new(
                "up/busy",
                state.display().to_string(),
                format!("another `muster up` or `muster down` has held this folder for {} s", WAIT.as_secs()),
                "let it end, or end it, and try again",
            ));
        }
        tokio::time::sleep(PAUSE).await;
        waited += PAUSE;
    }
    // Some network file systems lock no folders: nobody takes turns there, as if each were alone.
    Ok(Turn { _folder: Some(folder) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = take(folder.path()).await.unwrap();
        let mut second = Box::pin(take(folder.path()));
        let early = tokio::time::timeout(PAUSE * 3, &mut second).await;
        assert!(early.is_err(), "it waits");
        drop(first);
        second.await.unwrap();
        assert!(take(&folder.path().join("none")).await.is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }
}
