//! Namespaces of a child: entered by the launcher, before it makes the processes that live in them.

use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fmt;
use std::fs;
use std::io;

/// What level `full` adds, in the order in which it is set up; each needs those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Powers over what follows, and over nothing else.
    User,
    /// A table of mounts of its own.
    Mount,
    /// It sees and reaches its own processes only; they end with the first of them.
    Process,
    /// Neither System V objects nor message queues of others.
    Ipc,
    /// No network device but a loopback that is down, no abstract sockets of others.
    Network,
    /// The machine's name is hidden.
    HostName,
    /// A root folder with what the child may see and nothing else, `/tmp` of limited size.
    View,
    /// `/proc` of its own processes.
    Proc,
}

impl Isolation {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::User,
        Self::Mount,
        Self::Process,
        Self::Ipc,
        Self::Network,
        Self::HostName,
        Self::View,
        Self::Proc,
    ];

    /// Its name for people, and in what a launcher reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user namespace",
            Self::Mount => "mount namespace",
            Self::Process => "process namespace",
            Self::Ipc => "ipc namespace",
            Self::Network => "network namespace",
            Self::HostName => "host name namespace",
            Self::View => "private root and /tmp",
            Self::Proc => "own /proc",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The number by which the child knows its user and group. Any but 0: programs must not think that they are root.
const INNER_ID: u32 = 1000;
/// What `uname` says inside.
const HOST_NAME: &[u8] = b"muster";

#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub(super) struct NamespaceError {
    pub(super) layer: Isolation,
    source: io::Error,
}

/// Moves this process into new namespaces; its next children are the first in the new process namespace. One call for
/// each kind, so that a refusal has a name.
pub(super) fn enter() -> Result<(), NamespaceError> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    step(Isolation::User, || {
        unshare(UnshareFlags::NEWUSER)?;
        // user_namespaces(7): without privileges outside, one's own ids can be mapped, once groups can no longer be set.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{INNER_ID} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{INNER_ID} {group} 1"))
    })?;
    step(Isolation::Mount, || unshare(UnshareFlags::NEWNS))?;
    step(Isolation::Process, || unshare(UnshareFlags::NEWPID))?;
    step(Isolation::Ipc, || unshare(UnshareFlags::NEWIPC))?;
    step(Isolation::Network, || unshare(UnshareFlags::NEWNET))?;
    step(Isolation::HostName, || {
        unshare(UnshareFlags::NEWUTS)?;
        Ok(rustix::system::sethostname(HOST_NAME)?)
    })
}

fn step(layer: Isolation, work: impl FnOnce() -> io::Result<()>) -> Result<(), NamespaceError> {
    work().map_err(|source| NamespaceError { layer, source })
}

fn unshare(kind: UnshareFlags) -> io::Result<()> {
    // SAFETY: none of these kinds takes descriptors or memory away from this process, which has one thread.
    unsafe { unshare_unsafe(kind)? };
    Ok(())
}
