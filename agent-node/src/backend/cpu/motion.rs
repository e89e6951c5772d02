//! Stopping a worker and letting it go on. Outside of a command no thread of it runs.
//!
//! A worker may claim to be done, and go on computing: for the next launch, or while the other side is being timed. So the
//! supervisor stops it as soon as it has answered, and lets it go on when the next clock has started. The kernel says
//! when every thread has stopped; nothing in the worker can forge that, delay it, or run without it.

use crate::sandbox::Child;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;

/// Stops the worker and waits until all its threads have stopped, or it has ended: either way it computes nothing more.
pub(super) fn stop(child: &Child) -> io::Result<()> {
    let id = id(child)?;
    // The group too: without a sandbox a candidate may have made processes.
    match kill_process_group(id, Signal::STOP) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(error.into()),
    }
    let either = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(id), either) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Lets all threads go on.
pub(super) fn go_on(child: &Child) -> io::Result<()> {
    match kill_process_group(id(child)?, Signal::CONT) {
        // An end that nobody announced is noticed while waiting for the answer.
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn id(child: &Child) -> io::Result<Pid> {
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::ErrorKind::NotFound.into())
}
