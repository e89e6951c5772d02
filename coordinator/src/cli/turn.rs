//! One `muster up` or `muster down` on a state folder at a time: two at once would start a node twice.

use crate::state::io;
use fleet_config::refusal::Refusal;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// How long the other one may take: a coordinator and a node may each start for half a minute.
const WAIT: Duration = Duration::from_secs(90);

const PAUSE: Duration = Duration::from_millis(50);

/// The right to start and stop what runs on a folder; ends when dropped, and with its process.
#[derive(Debug)]
pub(super) struct Turn {
    _lock: File,
}

/// Waits for the turn on the state folder `state`.
pub(super) async fn take(state: &Path) -> Result<Turn, Refusal> {
    let path = state.join("up.lock");
    let place = path.display().to_string();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(|error| io(&place, &error))?;
    let mut waited = Duration::ZERO;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Turn { _lock: file }),
            Err(rustix::io::Errno::WOULDBLOCK) if waited < WAIT => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Refusal::new(
                    "up/busy",
                    place,
                    format!(
                        "another `muster up` or `muster down` has held this folder for {} s",
                        WAIT.as_secs()
                    ),
                    "let it end, or end it, and try again",
                ));
            }
            Err(error) => return Err(io(&place, &error.into())),
        }
        tokio::time::sleep(PAUSE).await;
        waited += PAUSE;
    }
}
