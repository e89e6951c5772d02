//! Stopping a worker and letting it go on. Outside of a command no thread of it runs.
//!
//! A worker may claim to be done, and go on computing: for the next launch, or while the other side is being timed. So the
//! supervisor stops it as soon as it has answered, and lets it go on when the next clock has started. The kernel says
//! when every thread has stopped; nothing in the worker can forge that or run without it. Nor can it delay it for long: a
//! thread that asked to be traced, which only an unconfined one can, never counts as stopped, and is told apart from a
//! machine that is too busy to stop anything.

use crate::clock;
use crate::sandbox::{Child, threads_of};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::thread;
use std::time::Duration;

/// Nearly every worker stops within this, which is waited for without sleeping: sleeping is coarser than most launches.
const AT_ONCE: Duration = Duration::from_micros(500);
/// How often a slower one is looked at.
const LOOK_EVERY: Duration = Duration::from_micros(200);
/// After this the threads are looked at one by one.
const SLOW: Duration = Duration::from_millis(200);
/// What stops later than this has a machine that is not fit for work.
const LIMIT: Duration = Duration::from_secs(30);

/// Whether a worker that was told to stop does nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a worker that did not stop must be ended"]
pub(super) enum Stop {
    /// All its threads have stopped, or it has ended.
    Still,
    /// A thread of it asked to be traced: the kernel holds it for its tracer and never calls the worker stopped.
    Traced,
}

/// Stops the worker and waits until all its threads have stopped, or it has ended: either way it computes nothing more.
pub(super) fn stop(child: &Child) -> io::Result<Stop> {
    let id = id(child)?;
    // The group too: without a sandbox a candidate may have made processes.
    match kill_process_group(id, Signal::STOP) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(error.into()),
    }
    let asked = clock::monotonic();
    let either =
        WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    loop {
        match waitid(WaitId::Pid(id), either) {
            // Its first thread waits for this process to trace it; the others were not told to stop.
            Ok(Some(status)) if status.trapped() => return Ok(Stop::Traced),
            Ok(Some(_)) => return Ok(Stop::Still),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match clock::monotonic().saturating_sub(asked) {
            waited if waited < AT_ONCE => thread::yield_now(),
            waited if waited < SLOW => pause(),
            _ if threads_of(id).any(|thread| is_traced(id, thread)) => return Ok(Stop::Traced),
            waited if waited < LIMIT => pause(),
            waited => {
                let message = format!("it has not stopped after {} s", waited.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the kernel tells of a stop to who waits without end, or to who asks"
)]
fn pause() {
    thread::sleep(LOOK_EVERY);
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

fn is_traced(process: Pid, thread: Pid) -> bool {
    let path = format!("/proc/{}/task/{}/status", process.as_raw_nonzero(), thread.as_raw_nonzero());
    std::fs::read_to_string(path).is_ok_and(|status| has_tracer(&status))
}

fn has_tracer(status: &str) -> bool {
    status.lines().filter_map(|line| line.strip_prefix("TracerPid:")).any(|tracer| tracer.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::has_tracer;

    #[test]
    fn a_thread_is_traced_when_the_kernel_names_its_tracer() {
        assert!(!has_tracer("Name:\tworker\nState:\tT (stopped)\nTracerPid:\t0\nUid:\t0\t0\t0\t0\n"));
        assert!(has_tracer("Name:\tworker\nState:\tt (tracing stop)\nTracerPid:\t4711\nUid:\t0\t0\t0\t0\n"));
        assert!(!has_tracer("Name:\tTracerPid:\t1\n"));
        assert!(!has_tracer(""));
    }
}
