//! Resource limits, capabilities and descriptors of a child, applied by the launcher to itself.

use super::request::{Profile, ResourceLimits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities,
};
use std::fs;
use std::io;

/// Stack of the first thread. Compilers raise theirs to 64 MiB, the hard limit.
const STACK_SOFT: u64 = 8 << 20;
const STACK_HARD: u64 = 64 << 20;

/// Applies the limits; each is lowered to the hard limit that already holds.
pub(super) fn apply(profile: Profile, limits: &ResourceLimits) -> io::Result<()> {
    let file_size = limits.file_size.max(limits.output_max as u64);
    lower(Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds.saturating_add(1))?;
    lower(Resource::Fsize, file_size, file_size)?;
    lower(Resource::Nofile, limits.open_files, limits.open_files)?;
    // No file is as small as one byte, and with 0 the kernel would still start a helper that the machine names
    // (core(5)): root's, on memory that a candidate filled.
    lower(Resource::Core, 1, 1)?;
    lower(Resource::Msgqueue, 0, 0)?;
    lower(Resource::Stack, STACK_SOFT, STACK_HARD)?;
    if !rustix::process::getuid().is_root() {
        // The kernel counts every thread of the user, wherever it was started.
        let processes = threads_of_user()?.saturating_add(limits.processes);
        lower(Resource::Nproc, processes, processes)?;
    }
    if let Some(memory) = limits.memory {
        // Guards reserve address space without using memory; what is written privately is counted apart.
        let what = if profile == Profile::CpuWorker { Resource::Data } else { Resource::As };
        lower(what, memory, memory)?;
    }
    Ok(())
}

fn lower(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let ceiling = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let hard = hard.min(ceiling);
    setrlimit(resource, Rlimit { current: Some(soft.min(hard)), maximum: Some(hard) })?;
    Ok(())
}

/// Threads that this user has on the machine now.
fn threads_of_user() -> io::Result<u64> {
    let user = rustix::process::getuid().as_raw();
    let mut threads = 0u64;
    for entry in fs::read_dir("/proc")? {
        // A process may end while it is being read; it then counts nothing.
        let Ok(status) = fs::read_to_string(entry?.path().join("status")) else { continue };
        let number = |name: &str| -> Option<u64> {
            status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
        };
        if number("Uid:") == Some(u64::from(user)) {
            threads = threads.saturating_add(number("Threads:").unwrap_or(1));
        }
    }
    Ok(threads)
}

/// Gives up every capability, so that a node run by root does not hand root's powers to a child. `no_new_privs`, set
/// before, keeps exec from giving them back.
pub(super) fn drop_capabilities() -> io::Result<()> {
    // Shrinking the bounding set needs a capability that an ordinary user lacks; he has nothing to lose by it either.
    for capability in CapabilitySet::all().iter() {
        let _ = remove_capability_from_bounding_set(capability);
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// Marks every descriptor from 3 on to be closed on exec.
pub(super) fn close_descriptors_on_exec() -> io::Result<()> {
    // SAFETY: the call changes flags of descriptors only; it takes no pointer.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 {
        return Ok(());
    }
    // Kernels before 5.11 lack the call: walk the list instead.
    for entry in fs::read_dir("/proc/self/fd")? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if number >= 3 {
            // SAFETY: setting a flag on a descriptor number, valid or not, touches no memory.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}
