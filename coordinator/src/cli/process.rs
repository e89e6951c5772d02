//! Processes of this machine by id and start time. An id alone may belong to a stranger by now: after a reboot, or
//! once ids have wrapped around.

use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

/// A process as it was when it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    id: Pid,
    /// Clock ticks from boot to its start: field 22 of `/proc/<id>/stat`, proc(5).
    start: u64,
}

impl Process {
    /// The process that has this id now.
    pub(super) fn of(id: u32) -> Option<Self> {
        let id = pid(i32::try_from(id).ok()?)?;
        let (start, _) = stat(id)?;
        Some(Self { id, start })
    }

    /// Its id, for people.
    pub(super) fn id(&self) -> u32 {
        self.id.as_raw_nonzero().get().unsigned_abs()
    }

    /// What [`Self::write`] left in a file.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let (id, start) = text.trim().split_once(' ')?;
        Some(Self { id: pid(id.parse().ok()?)?, start: start.parse().ok()? })
    }

    /// Writes id and start time.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, format!("{} {}\n", self.id.as_raw_nonzero(), self.start))
    }

    /// Whether this very process runs; one that has ended and waits to be collected does not.
    pub(super) fn is_alive(&self) -> bool {
        stat(self.id).is_some_and(|(start, state)| start == self.start && state != 'Z')
    }

    /// Asks it to end. A stranger with its id is left alone.
    pub(super) fn terminate(&self) -> bool {
        self.is_alive() && kill_process(self.id, Signal::TERM).is_ok()
    }
}

/// The id, if it is one: no process has 0 or less.
fn pid(raw: i32) -> Option<Pid> {
    if raw > 0 { Pid::from_raw(raw) } else { None }
}

/// Start time and state of the process that has this id now.
fn stat(id: Pid) -> Option<(u64, char)> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).ok()?;
    // The name in brackets may hold anything, brackets and spaces too; field 3 follows the last one.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some((start, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_and_a_stranger_with_its_id_is_not_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let own = Process::of(std::process::id()).unwrap();
        own.write(&path).unwrap();
        let read = Process::read(&path).unwrap();
        assert_eq!(read, own);
        assert!(read.is_alive());
        let stranger = Process { start: own.start + 1, ..own };
        assert!(!stranger.is_alive() && !stranger.terminate(), "this test would be ended otherwise");
        for text in ["", "12", "x y", "12 ", "-1 5", "0 5"] {
            std::fs::write(&path, text).unwrap();
            assert!(Process::read(&path).is_none_or(|process| !process.is_alive()), "{text}");
        }
    }
}
