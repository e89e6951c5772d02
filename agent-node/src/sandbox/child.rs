//! A running child, and how it ended.

use super::cgroup::Group;
use super::family::Family;
use super::request::Level;
use crate::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{SeekFrom, seek};
use rustix::io::pread;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How often a kernel without process descriptors (before 5.3) is asked whether a child has ended.
const POLL_WITHOUT_DESCRIPTOR: Duration = Duration::from_millis(10);

/// How often a waiting caller asks whether it was interrupted: a cancelled compiler ends within this.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How long a killed child may take until its threads are looked at for some that wait to be taken.
const LOOK_FOR_TRACED_EVERY: Duration = Duration::from_millis(10);

/// A child that runs. Dropping it kills its group and reaps it.
#[derive(Debug)]
pub struct Child {
    id: Pid,
    /// At level `full`, the process whose end is that of all others.
    first: Option<Pid>,
    group: Option<Group>,
    /// Becomes readable when the child has ended; absent on kernels before 5.3.
    descriptor: Option<OwnedFd>,
    output: OwnedFd,
    output_max: usize,
    level: Level,
    exit: Option<Exit>,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitHow {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It was killed because its time was over.
    Deadline,
    /// It was killed because all of it together used more memory than it may. Told only where there are control groups.
    MemoryLimit,
}

/// Standard output and errors in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    pub bytes: Vec<u8>,
    /// The child wrote more than was kept.
    pub truncated: bool,
}

impl Captured {
    /// The bytes as text; what is no UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// The end of a child and what it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    pub how: ExitHow,
    pub output: Captured,
    /// CPU time of the child and of its own children that it waited for.
    pub cpu: Duration,
    /// Largest resident memory of any of them, in bytes. Never below the node's own at the start, since the kernel
    /// carries that over through exec.
    pub peak_memory: u64,
}

impl Exit {
    /// Whether it returned code 0.
    pub fn success(&self) -> bool {
        self.how == ExitHow::Code(0)
    }
}

/// The kernel did not let us wait.
#[derive(Debug, thiserror::Error)]
#[error("cannot wait for child {id}: {source}")]
pub struct WaitError {
    id: u32,
    source: io::Error,
}

impl Child {
    pub(super) fn new(
        id: u32,
        output: OwnedFd,
        output_max: usize,
        level: Level,
        group: Option<Group>,
    ) -> Self {
        let id =
            i32::try_from(id).ok().and_then(Pid::from_raw).expect("invariant: the kernel gives positive ids");
        let descriptor = pidfd_open(id, PidfdFlags::empty()).ok();
        Self { id, first: None, group, descriptor, output, output_max, level, exit: None }
    }

    /// Goes on as the processes that the launcher made, which are this process's own children, and takes the launcher's
    /// end, which comes by itself.
    pub(super) fn succeed(&mut self, family: Family) -> Result<(), WaitError> {
        let (first, program) = (Pid::from_raw(family.first), Pid::from_raw(family.program));
        let (Some(first), Some(program)) = (first, program) else {
            return Err(self.failed(io::Error::other("the launcher told ids that no process has")));
        };
        self.collect(self.id)?;
        self.first = Some(first);
        self.id = program;
        self.descriptor = pidfd_open(program, PidfdFlags::empty()).ok();
        Ok(())
    }

    /// The process id, which is also the id of its group and session.
    pub fn id(&self) -> u32 {
        self.id.as_raw_nonzero().get().unsigned_abs()
    }

    /// The level at which it runs.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Becomes readable when the child has ended, for those who poll several things; absent on kernels before 5.3.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Whether it has ended, without waiting.
    pub fn has_exited(&self) -> Result<bool, WaitError> {
        if self.exit.is_some() {
            return Ok(true);
        }
        self.has_ended()
    }

    /// Its end, if it has ended.
    pub fn try_exit(&mut self) -> Result<Option<Exit>, WaitError> {
        if self.has_exited()? { self.reap(None).map(Some) } else { Ok(None) }
    }

    /// Waits for its end; kills the whole group when `deadline` has passed first. What is left of the group after the
    /// child's own end is killed too.
    pub fn wait(&mut self, deadline: Duration) -> Result<Exit, WaitError> {
        let end = clock::monotonic().saturating_add(deadline);
        while !self.has_exited()? {
            let left = end.saturating_sub(clock::monotonic());
            if left.is_zero() {
                return self.reap(Some(ExitHow::Deadline));
            }
            self.pause(left)?;
        }
        self.reap(None)
    }

    /// The same; `None` if `interrupted` said first that nobody waits, and then the group is dead.
    pub fn wait_unless(
        &mut self,
        deadline: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<Exit>, WaitError> {
        let end = clock::monotonic().saturating_add(deadline);
        while !self.has_exited()? {
            let left = end.saturating_sub(clock::monotonic());
            if left.is_zero() {
                return self.reap(Some(ExitHow::Deadline)).map(Some);
            }
            if interrupted() {
                return self.reap(None).map(|_| None);
            }
            self.pause(left.min(ASK_EVERY))?;
        }
        self.reap(None).map(Some)
    }

    /// Kills the group and takes the end.
    pub fn kill(mut self) -> Result<Exit, WaitError> {
        self.reap(None)
    }

    /// Sleeps until the child may have ended, at most `left`.
    fn pause(&self, left: Duration) -> Result<(), WaitError> {
        let (mut watched, longest) = match &self.descriptor {
            Some(descriptor) => (vec![PollFd::new(descriptor, PollFlags::IN)], left),
            None => (Vec::new(), left.min(POLL_WITHOUT_DESCRIPTOR)),
        };
        // A deadline beyond what the kernel can express is waited for in pieces.
        let timeout = Timespec::try_from(longest.min(Duration::from_secs(3600))).ok();
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(self.failed(error.into())),
        }
    }

    /// Takes the ends of threads of it that made this process their tracer, which only an unconfined child can do: the
    /// kernel keeps each for its tracer, and lets the process end after them.
    fn take_traced_threads(&self) {
        for thread in threads_of(self.id).filter(|thread| *thread != self.id) {
            let mut status = 0;
            let flags = libc::__WALL | libc::WNOHANG;
            // SAFETY: `status` is writable memory of the right type for the whole call. A thread that is nobody's ward is
            // refused, which is the answer for nearly all.
            let _ = unsafe { libc::waitpid(thread.as_raw_nonzero().get(), &raw mut status, flags) };
        }
    }

    /// Whether the child has ended. Leaves it to be reaped.
    fn has_ended(&self) -> Result<bool, WaitError> {
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            let flags = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
            // SAFETY: `info` is writable memory of the right type for the whole call.
            let done = unsafe { libc::waitid(libc::P_PID, self.id(), info.as_mut_ptr(), flags) };
            if done == 0 {
                // SAFETY: zeroed before and filled by the kernel; `si_pid` stays 0 when nothing has ended.
                return Ok(unsafe { info.assume_init().si_pid() } != 0);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(self.failed(error));
            }
        }
    }

    /// Kills what is left of the group and takes the child's end from the kernel. The group is killed before the child
    /// is reaped: until then its number cannot belong to anybody else. At level `full` the first process is waited for
    /// last; the kernel lets it end only when all others of its namespace are gone.
    fn reap(&mut self, how: Option<ExitHow>) -> Result<Exit, WaitError> {
        if let Some(exit) = &self.exit {
            return Ok(exit.clone());
        }
        // A launcher that has no session yet is no group leader; it is killed by its own number.
        let _ = kill_process(self.id, Signal::KILL);
        let _ = kill_process_group(self.id, Signal::KILL);
        self.group.iter().for_each(Group::kill);
        while !self.has_ended()? {
            self.pause(LOOK_FOR_TRACED_EVERY)?;
            self.take_traced_threads();
        }
        // Its children may have made more between the two kills and now.
        let _ = kill_process_group(self.id, Signal::KILL);
        if let Some(first) = self.first {
            let _ = kill_process(first, Signal::KILL);
        }
        let (status, usage) = self.collect(self.id)?;
        if let Some(first) = self.first.take() {
            self.collect(first)?;
        }
        let ran_out = self.group.as_ref().is_some_and(Group::ran_out_of_memory);
        let ended = if ran_out && libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL {
            ExitHow::MemoryLimit
        } else if libc::WIFSIGNALED(status) {
            ExitHow::Signal(libc::WTERMSIG(status))
        } else {
            ExitHow::Code(libc::WEXITSTATUS(status))
        };
        let exit = Exit {
            how: how.unwrap_or(ended),
            output: self.captured().map_err(|error| self.failed(error))?,
            cpu: span(usage.ru_utime) + span(usage.ru_stime),
            peak_memory: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
        };
        self.exit = Some(exit.clone());
        Ok(exit)
    }

    /// Takes the end of one process of the child.
    fn collect(&self, of: Pid) -> Result<(i32, libc::rusage), WaitError> {
        loop {
            let mut status = 0;
            let mut usage = MaybeUninit::<libc::rusage>::zeroed();
            // SAFETY: both point to writable memory of the right types for the whole call.
            let id =
                unsafe { libc::wait4(of.as_raw_nonzero().get(), &raw mut status, 0, usage.as_mut_ptr()) };
            if id > 0 {
                // SAFETY: zeroed before, and zero is a valid value of every field.
                return Ok((status, unsafe { usage.assume_init() }));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(self.failed(error));
            }
        }
    }

    /// What it has written up to now.
    pub fn written(&self) -> Result<Captured, WaitError> {
        self.captured().map_err(|error| self.failed(error))
    }

    /// What was written: the file's position, which the child shares, says how much.
    fn captured(&self) -> io::Result<Captured> {
        let written = usize::try_from(seek(&self.output, SeekFrom::Current(0))?).unwrap_or(usize::MAX);
        let mut bytes = vec![0u8; written.min(self.output_max)];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match pread(&self.output, rest, filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        Ok(Captured { bytes, truncated: written >= self.output_max })
    }

    fn failed(&self, source: io::Error) -> WaitError {
        WaitError { id: self.id(), source }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Nobody is left to tell; the kernel refuses only if the child was reaped behind our back.
        let _ = self.reap(None);
    }
}

/// The threads that a process has now; none if nobody can say.
pub(crate) fn threads_of(process: Pid) -> impl Iterator<Item = Pid> {
    let listed = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).ok();
    let entries = listed.into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

fn span(time: libc::timeval) -> Duration {
    let micros = u32::try_from(time.tv_usec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), micros.saturating_mul(1000))
}
