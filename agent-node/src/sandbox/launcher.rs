//! The launcher: a fresh process of our own binary that confines itself and becomes the program it was told to run.

use super::calls;
use super::family::{Member, found};
use super::filesystem;
use super::handover::{Errand, Failure, Order, receive_order, send_confined, send_failure, send_family};
use super::limits;
use super::mounts;
use super::namespaces::{self, Isolation};
use super::request::{Level, Profile};
use super::user;
use rustix::fs::Mode;
use rustix::io::fcntl_dupfd_cloexec;
use std::fmt::Display;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Exit code of a launcher that started nothing; the node learns the reason over the socket.
const NOT_STARTED: u8 = 125;
/// Descriptors that the launcher holds are moved to here and above, clear of the numbers that a child asks for.
const OWN_DESCRIPTORS: RawFd = 200;
/// The numbers under which a child may receive descriptors.
pub(super) const PASSED_NUMBERS: std::ops::RangeInclusive<i32> = 3..=99;

/// The hidden subcommand `sandbox-launch`. Its standard input is the socket on which the node sends the order.
pub fn launcher_main() -> ExitCode {
    let socket = fcntl_dupfd_cloexec(std::io::stdin(), OWN_DESCRIPTORS);
    let Ok(socket) = socket else { return ExitCode::from(NOT_STARTED) };
    let mut socket = UnixStream::from(socket);
    let failure = match receive_order(&mut socket) {
        Ok((order, passed)) => start(order, passed, &mut socket),
        Err(error) => failed("order", error),
    };
    // When the node is gone there is nobody left to tell.
    let _ = send_failure(&mut socket, &failure);
    ExitCode::from(NOT_STARTED)
}

fn failed(stage: &str, cause: impl Display) -> Failure {
    Failure { stage: stage.to_owned(), cause: cause.to_string() }
}

/// Confines this process and executes the program; returns only if that fails.
fn start(order: Order, passed: Vec<OwnedFd>, socket: &mut UnixStream) -> Failure {
    if let Err(failure) = prepare(&order, socket).and_then(|()| confine(&order, passed)) {
        return failure;
    }
    match (send_confined(socket), order.errand) {
        (Ok(()), Errand::Program) => {
            failed("exec", format!("{}: {}", Path::new(&order.program).display(), execute(&order)))
        }
        (Ok(()), Errand::Trial) => std::process::exit(0),
        (Err(error), _) => failed("answer", error),
    }
}

/// Ties this process to the node's life and, at level `full`, goes on as the program's process in new namespaces. The
/// launcher itself ends here then.
fn prepare(order: &Order, socket: &mut UnixStream) -> Result<(), Failure> {
    die_with_parent(order.parent)?;
    // When memory runs out the kernel should take the child and not the node; a kernel without the file loses nothing.
    let _ = fs::write("/proc/self/oom_score_adj", "900");
    if order.level < Level::Full {
        return Ok(());
    }
    namespaces::enter().map_err(|e| failed(e.layer.as_str(), e))?;
    match found().map_err(|e| failed(Isolation::Process.as_str(), e))? {
        Member::Program => Ok(()),
        Member::Launcher(family, waiting) => {
            let told = send_family(socket, family).and_then(|()| waiting.release());
            // Nobody may be left to hear of a failure: the two that wait end by themselves.
            std::process::exit(if told.is_ok() { 0 } else { i32::from(NOT_STARTED) })
        }
    }
}

fn confine(order: &Order, passed: Vec<OwnedFd>) -> Result<(), Failure> {
    rustix::process::setsid().map_err(|e| failed("session", e))?;
    place_descriptors(order, passed)?;
    rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::process::chdir(Path::new(&order.folder)).map_err(|e| failed("folder", e))?;
    if order.level == Level::Full {
        mounts::enter(order).map_err(|e| failed(e.layer.as_str(), e))?;
        // The same folder in the new root.
        rustix::process::chdir(Path::new(&order.folder)).map_err(|e| failed("folder", e))?;
    }
    limits::apply(order.profile, &order.limits).map_err(|e| failed("limits", e))?;
    if order.profile == Profile::Screen {
        keep_addresses()?;
    }
    rustix::thread::set_no_new_privs(true).map_err(|e| failed("no_new_privs", e))?;
    match (order.errand, order.level) {
        (Errand::Trial, _) | (Errand::Program, Level::None) => {
            limits::drop_capabilities().map_err(|e| failed("capabilities", e))
        }
        (Errand::Program, Level::Kernel | Level::Full) => {
            let program = calls::fence(order.profile).map_err(|e| failed("seccomp", e))?;
            filesystem::restrict(order).map_err(|e| failed("landlock", e))?;
            if order.profile == Profile::CudaScreen && user::give_up_root().map_err(|e| failed("user", e))? {
                // The kernel forgets the request when a process changes its user.
                die_with_parent(order.parent)?;
            }
            limits::drop_capabilities().map_err(|e| failed("capabilities", e))?;
            calls::install(&program).map_err(|e| failed("seccomp", e))
        }
    }
}

/// Turns the drawing of addresses off for what is executed next. A sanitizer finds no room otherwise where many bits are
/// drawn, and would execute itself again to turn it off, which a child may not.
fn keep_addresses() -> Result<(), Failure> {
    // SAFETY: the call changes a flag of this process; it takes no pointer.
    if unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) } < 0 {
        return Err(failed("personality", std::io::Error::last_os_error()));
    }
    Ok(())
}

/// Asks the kernel to kill this process with the thread that started it, which lives as long as the node.
fn die_with_parent(parent: u32) -> Result<(), Failure> {
    let kill = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(kill).map_err(|e| failed("death signal", e))?;
    let now = rustix::process::getppid().map_or(0, |id| id.as_raw_nonzero().get());
    // The node may have died before the request was in place.
    if u32::try_from(now).ok() == Some(parent) { Ok(()) } else { Err(failed("parent", "the node has gone")) }
}

/// Puts `/dev/null` on standard input and the passed descriptors under their numbers; all others close on exec.
fn place_descriptors(order: &Order, passed: Vec<OwnedFd>) -> Result<(), Failure> {
    let null = File::open("/dev/null").map_err(|e| failed("descriptors", e))?;
    let mut moved = Vec::with_capacity(passed.len());
    for descriptor in &passed {
        let high = fcntl_dupfd_cloexec(descriptor, OWN_DESCRIPTORS);
        moved.push(high.map_err(|e| failed("descriptors", e))?);
    }
    drop(passed);
    limits::close_descriptors_on_exec().map_err(|e| failed("descriptors", e))?;
    rustix::stdio::dup2_stdin(null.as_fd()).map_err(|e| failed("descriptors", e))?;
    for (descriptor, number) in moved.iter().zip(&order.numbers) {
        if !PASSED_NUMBERS.contains(number) {
            return Err(failed("descriptors", format!("number {number} is not in {PASSED_NUMBERS:?}")));
        }
        // SAFETY: the target is none of this process's own descriptors, which all were moved above it or are 0 to 2;
        // `null`, the one below, has been duplicated and is not used again.
        if unsafe { libc::dup2(descriptor.as_raw_fd(), *number) } < 0 {
            return Err(failed("descriptors", std::io::Error::last_os_error()));
        }
    }
    // `null` may now be a passed descriptor's number: forget it rather than close what the child needs.
    if order.numbers.contains(&null.as_raw_fd()) {
        std::mem::forget(null);
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the launcher becomes the child that spawn was asked for")]
fn execute(order: &Order) -> std::io::Error {
    Command::new(&order.program)
        .args(&order.arguments)
        .env_clear()
        .envs(order.environment.iter().map(|(name, value)| (name, value)))
        .exec()
}
