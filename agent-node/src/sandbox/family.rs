//! The processes of a child at level `full`, all of them children of the node.
//!
//! ```text
//! node ─┬─ launcher            makes the other two, tells the node their ids, ends
//!       ├─ first   (1 inside)  reaps orphans; when it ends, the kernel kills every process of the namespace
//!       └─ program (2 inside)  confines itself and becomes what was asked for; signals work as they always do
//! ```
//!
//! `CLONE_PARENT` makes them the node's own: it waits for the program itself and sees how it ended. The program is not
//! the first process, which the kernel shields from signals that it has no handler for.

use super::limits;
use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal};
use std::fs::File;
use std::io::{self, Read, Write};

/// Ids of the two as the node knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) first: i32,
    pub(super) program: i32,
}

/// Which of the three processes returns from [`found`].
pub(super) enum Member {
    /// With the ids of the others, which wait until they are [`released`](Waiting::release).
    Launcher(Family, Waiting),
    /// The process that is to become the program; the node knows it.
    Program,
}

/// Two processes that wait for a word.
pub(super) struct Waiting(File);

impl Waiting {
    /// Lets them go on. Without it they end.
    pub(super) fn release(mut self) -> io::Result<()> {
        self.0.write_all(&[1; 2])
    }
}

/// Makes the first process and the program. The first never returns.
pub(super) fn found() -> io::Result<Member> {
    let (ready, ready_word) = pipe_with(PipeFlags::CLOEXEC)?;
    let (go, go_word) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(first) = fork()? else {
        drop((ready, go_word));
        if await_release(ready_word, go).is_ok() {
            serve();
        }
        end();
    };
    let Some(program) = fork()? else {
        drop((ready, go_word));
        await_release(ready_word, go)?;
        return Ok(Member::Program);
    };
    drop((ready_word, go));
    // Both must be tied to the node's life before anything depends on it; a node that dies earlier kills this process.
    File::from(ready).read_exact(&mut [0; 2])?;
    Ok(Member::Launcher(Family { first, program }, Waiting(File::from(go_word))))
}

/// Ties this process to the node's life, says so, and waits to be let go on. When the launcher ends instead, so does
/// the wait.
fn await_release(ready: OwnedFd, go: OwnedFd) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    File::from(ready).write_all(&[1])?;
    File::from(go).read_exact(&mut [0])
}

/// A child of this process's parent; `None` in the child.
fn fork() -> io::Result<Option<i32>> {
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: like fork: without a stack and without shared memory the child goes on in a copy of this process, which has
    // one thread, so that no lock is held by another.
    let id = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match id {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        id => i32::try_from(id).map(Some).map_err(io::Error::other),
    }
}

/// The life of the first process: it holds nothing, may do nothing, and waits for orphans. It is stopped by SIGKILL
/// from the node, or with the node.
fn serve() {
    let _ = rustix::process::chdir("/");
    // Nobody inside may look into it; it is no part of what runs there.
    let shut = set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok()
        && rustix::thread::set_no_new_privs(true).is_ok()
        && limits::drop_capabilities().is_ok();
    if !shut {
        return;
    }
    // SAFETY: an empty set is made and blocked with one signal in it; all pointers are to live locals or null. The
    // descriptors that are closed belong to values which are never dropped, since this process ends by being killed.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0u32, u32::MAX, 0u32);
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        loop {
            while libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) > 0 {}
            libc::sigwaitinfo(&raw const set, std::ptr::null_mut());
        }
    }
}

fn end() -> ! {
    // SAFETY: ends this process at once, without running what the launcher registered for its own end.
    unsafe { libc::_exit(1) }
}
