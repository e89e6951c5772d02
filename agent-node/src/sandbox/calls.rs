//! System call filters: what the kernel refuses to do for a child.
//!
//! Two kinds. The *fence* is a list of refused calls, put on by the launcher: compilers differ too much between systems
//! for a list of allowed ones. The *worker's list* names the allowed calls and refuses the rest; a worker puts it on
//! before it loads a candidate. In front of both stands a ceiling: calls newer than those reviewed here, and the x32
//! numbering of x86-64, do not exist for a child (`ENOSYS`, for which C libraries have a fallback).

use super::report::landlock_abi;
use super::request::Profile;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The newest call that was reviewed for these lists: `mseal`, Linux 6.10.
const NEWEST_REVIEWED: i64 = libc::SYS_mseal;

/// The filter that the launcher puts on before exec.
pub(super) fn fence(profile: Profile) -> Result<BpfProgram, Error> {
    if profile == Profile::Screen {
        return screen();
    }
    let mut rules = listed(FENCE);
    rules.extend(listed(FENCE_LEGACY));
    refuse_new_namespaces(&mut rules)?;
    rules.insert(libc::SYS_prlimit64, vec![rule(&[(0, Ne, 0)])?]); // limits of others
    match profile {
        Profile::Compiler | Profile::Harness | Profile::CpuWorker | Profile::Worker | Profile::Screen => {
            rules.extend(listed(FENCE_BUT_GPU));
            rules.extend(listed(FENCE_BUT_GPU_LEGACY));
            rules.insert(libc::SYS_fcntl, of_descriptors()?);
        }
        Profile::CudaWorker => allow_local_listening(&mut rules)?,
        Profile::CudaScreen => {
            allow_local_listening(&mut rules)?;
            BETWEEN_TOOLS.iter().chain(BETWEEN_TOOLS_LEGACY).for_each(|call| drop(rules.remove(call)));
        }
    }
    // From ABI 6 on Landlock keeps signals inside; before, a child may not send any.
    if landlock_abi().unwrap_or(0) < 6 {
        rules.extend(listed(SIGNALS));
    }
    build(rules, SeccompAction::Allow, SeccompAction::Errno(EPERM))
}

/// The list of a CPU worker that is about to load a candidate.
pub(super) fn worker() -> Result<BpfProgram, Error> {
    build(worker_rules()?, SeccompAction::Errno(EPERM), SeccompAction::Allow)
}

/// The list of a program with a sanitizer: that of a worker, and what starting a program, its threads and the sanitizer
/// take. Landlock bounds what it may execute to itself.
fn screen() -> Result<BpfProgram, Error> {
    let mut rules = worker_rules()?;
    rules.extend(listed(SCREEN_ALLOWED));
    rules.extend(listed(SCREEN_ALLOWED_LEGACY));
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    rules.insert(libc::SYS_clone, vec![rule(&[(0, MaskedEq(thread), thread)])?]);
    rules.insert(libc::SYS_personality, vec![rule(&[(0, Eq, 0xffff_ffff)])?]); // asking, not changing
    rules.insert(libc::SYS_prlimit64, vec![rule(&[(0, Eq, 0)])?]); // its own limits, which only get smaller
    build(rules, SeccompAction::Errno(EPERM), SeccompAction::Allow)
}

fn worker_rules() -> Result<Rules, Error> {
    let mut rules = listed(WORKER_ALLOWED);
    rules.extend(listed(WORKER_ALLOWED_LEGACY));
    let own = u64::from(std::process::id());
    let mut when = |call: i64, rule: SeccompRule| rules.entry(call).or_default().push(rule);
    // abort() and raise(). What kills without a trace is to come from outside alone.
    let (kill, stop) = (u64::from(libc::SIGKILL.unsigned_abs()), u64::from(libc::SIGSTOP.unsigned_abs()));
    for (call, at) in [(libc::SYS_kill, 1), (libc::SYS_tgkill, 2), (libc::SYS_rt_tgsigqueueinfo, 2)] {
        when(call, rule(&[(0, Eq, own), (at, Ne, kill), (at, Ne, stop)])?);
    }
    when(libc::SYS_prlimit64, rule(&[(0, Eq, 0), (2, Eq, 0), (2, HighEq, 0)])?); // reading its own limits
    for option in [libc::PR_SET_NAME, libc::PR_GET_NAME, PR_SET_VMA, libc::PR_GET_DUMPABLE] {
        when(libc::SYS_prctl, rule(&[(0, Eq, u64::from(option.unsigned_abs()))])?);
    }
    for command in
        [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD, libc::F_DUPFD_CLOEXEC]
    {
        when(libc::SYS_fcntl, rule(&[(1, Eq, u64::from(command.unsigned_abs()))])?); // no F_SETOWN: it sends signals
    }
    // Memory of no file that is shared is bounded by no limit of this process.
    let (shared, nameless) = (libc::MAP_SHARED.unsigned_abs(), libc::MAP_ANONYMOUS.unsigned_abs());
    let grows = u64::from(libc::MAP_GROWSDOWN.unsigned_abs()); // a stack, which counts as no data
    for flag in [u64::from(shared), u64::from(nameless)] {
        when(libc::SYS_mmap, rule(&[(3, MaskedEq(flag | grows), 0)])?);
    }
    when(libc::SYS_ioctl, rule(&[(1, Eq, libc::TCGETS)])?); // isatty()
    when(libc::SYS_sendto, rule(&[(4, Eq, 0), (4, HighEq, 0)])?); // on a passed socket, to no other address
    Ok(rules)
}

/// The further fence of a GPU worker whose candidate is device code only: no exec and no new process.
pub(super) fn cuda_worker() -> Result<BpfProgram, Error> {
    let mut rules = listed(NEW_PROGRAMS);
    rules.extend(listed(SOCKETS));
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    rules.insert(libc::SYS_clone, vec![rule(&[(0, MaskedEq(thread), 0)])?]);
    build(rules, SeccompAction::Allow, SeccompAction::Errno(EPERM))
}

/// Puts the filter on this thread; `no_new_privs` is set with it.
pub(super) fn install(program: &BpfProgram) -> Result<(), Error> {
    seccompiler::apply_filter(program)
}

const EPERM: u32 = libc::EPERM.unsigned_abs();
/// One number on all architectures since Linux 6.6; the libc crate lacks it on aarch64.
const FCHMODAT2: i64 = 452;
const F_SETSIG: i32 = 10; // include/uapi/asm-generic/fcntl.h
const F_SETOWN_EX: i32 = 15;
/// One number on all architectures since Linux 6.5.
const CACHESTAT: i64 = 451;
const PR_SET_VMA: i32 = 0x5356_4d41; // include/uapi/linux/prctl.h; C libraries name their mappings with it

/// Comparisons of one argument. `HighEq` looks at its upper half, which a pointer has.
enum Compare {
    Eq,
    Ne,
    HighEq,
    MaskedEq(u64),
}
use Compare::{Eq, HighEq, MaskedEq, Ne};

/// One rule; all of its conditions must hold.
fn rule(conditions: &[(u8, Compare, u64)]) -> Result<SeccompRule, Error> {
    let mut all = Vec::with_capacity(conditions.len());
    for (argument, compare, value) in conditions {
        let (width, operator) = match compare {
            Eq => (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq),
            Ne => (SeccompCmpArgLen::Dword, SeccompCmpOp::Ne),
            HighEq => (SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(0xffff_ffff_0000_0000)),
            MaskedEq(mask) => (SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(*mask)),
        };
        all.push(SeccompCondition::new(*argument, width, operator, *value).map_err(Error::Backend)?);
    }
    SeccompRule::new(all).map_err(Error::Backend)
}

fn listed(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// While it starts, CUDA's driver opens a local socket of its own and listens there for other processes of the same
/// program. It connects to nobody, and before a candidate is loaded all of it is refused again.
fn allow_local_listening(rules: &mut Rules) -> Result<(), Error> {
    for call in [libc::SYS_socketpair, libc::SYS_bind, libc::SYS_listen, libc::SYS_setsockopt] {
        rules.remove(&call);
    }
    rules.insert(libc::SYS_socket, vec![rule(&[(0, Ne, u64::from(libc::AF_UNIX.unsigned_abs()))])?]);
    Ok(())
}

/// Commands of `fcntl` by which a descriptor sends signals to any process of the user, watches a folder, or keeps others
/// from opening a file.
fn of_descriptors() -> Result<Vec<SeccompRule>, Error> {
    let commands = [libc::F_SETOWN, F_SETSIG, F_SETOWN_EX, libc::F_SETLEASE, libc::F_NOTIFY];
    commands.into_iter().map(|command| rule(&[(1, Eq, u64::from(command.unsigned_abs()))])).collect()
}

fn refuse_new_namespaces(rules: &mut Rules) -> Result<(), Error> {
    let kinds = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    let mut any = Vec::new();
    for kind in kinds {
        let bit = u64::from(kind.unsigned_abs());
        any.push(rule(&[(0, MaskedEq(bit), bit)])?);
    }
    rules.insert(libc::SYS_clone, any);
    Ok(())
}

fn build(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> Result<BpfProgram, Error> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(Error::Backend)?;
    let filter = SeccompFilter::new(rules, otherwise, matched, architecture).map_err(Error::Backend)?;
    let mut program = ceiling();
    program.extend(BpfProgram::try_from(filter).map_err(Error::Backend)?);
    Ok(program)
}

/// Instructions in front of a filter: unknown calls and `clone3`, whose flags a filter cannot see, do not exist.
/// Opcodes from include/uapi/linux/bpf_common.h; the call's number is the first word of `struct seccomp_data`.
fn ceiling() -> BpfProgram {
    const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const JUMP_GREATER: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
    const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let word = |number: i64| u32::try_from(number).expect("invariant: call numbers are small and positive");
    let absent = u32::from(SeccompAction::Errno(libc::ENOSYS.unsigned_abs()));
    vec![
        sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_GREATER, jt: 1, jf: 0, k: word(NEWEST_REVIEWED) },
        sock_filter { code: JUMP_EQUAL, jt: 0, jf: 1, k: word(libc::SYS_clone3) },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: absent },
    ]
}

/// Refused to every child: sockets, tracing, namespaces and mounts, kernel administration, metadata changes that
/// Landlock does not cover, memory shared by key, leaving the session, and kernel interfaces with a long record of faults.
#[rustfmt::skip]
const FENCE: &[i64] = &[
    libc::SYS_socket, libc::SYS_socketpair, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4,
    libc::SYS_connect, libc::SYS_setsockopt,
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_process_madvise,
    libc::SYS_process_mrelease, libc::SYS_kcmp, libc::SYS_pidfd_open, libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot, libc::SYS_unshare, libc::SYS_setns,
    libc::SYS_open_tree, libc::SYS_move_mount, libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount,
    libc::SYS_fspick, libc::SYS_mount_setattr, libc::SYS_open_by_handle_at, libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init, libc::SYS_fanotify_mark, libc::SYS_quotactl, libc::SYS_quotactl_fd, libc::SYS_swapon,
    libc::SYS_swapoff, libc::SYS_acct, libc::SYS_reboot, libc::SYS_kexec_load, libc::SYS_kexec_file_load,
    libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_sethostname,
    libc::SYS_setdomainname, libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_clock_adjtime,
    libc::SYS_adjtimex, libc::SYS_syslog, libc::SYS_vhangup, libc::SYS_nfsservctl, libc::SYS_lookup_dcookie,
    libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd, libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_io_setup, libc::SYS_io_submit,
    libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl, libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self,
    libc::SYS_fchmod, libc::SYS_fchmodat, FCHMODAT2, libc::SYS_fchown, libc::SYS_fchownat,
    libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr, libc::SYS_removexattr, libc::SYS_lremovexattr,
    libc::SYS_fremovexattr, libc::SYS_utimensat, libc::SYS_mknodat, libc::SYS_symlinkat, libc::SYS_linkat,
    libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmctl, libc::SYS_shmdt, libc::SYS_semget, libc::SYS_semop,
    libc::SYS_semtimedop, libc::SYS_semctl, libc::SYS_msgget, libc::SYS_msgsnd, libc::SYS_msgrcv, libc::SYS_msgctl,
    libc::SYS_mq_open, libc::SYS_mq_unlink,
    libc::SYS_setsid, libc::SYS_setpgid, libc::SYS_setuid, libc::SYS_setgid, libc::SYS_setreuid,
    libc::SYS_setregid, libc::SYS_setresuid, libc::SYS_setresgid, libc::SYS_setgroups, libc::SYS_setfsuid,
    libc::SYS_setfsgid, libc::SYS_capset, libc::SYS_execveat,
];

/// Older names of the same calls, which only x86-64 has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const FENCE_LEGACY: &[i64] = &[
    libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat,
    libc::SYS_mknod, libc::SYS_symlink, libc::SYS_link, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt,
    libc::SYS_uselib, libc::SYS_ustat,
];
#[cfg(not(target_arch = "x86_64"))]
const FENCE_LEGACY: &[i64] = &[];

/// Refused to all but GPU workers, whose driver places its threads and memory itself. A file in memory could be executed
/// past Landlock.
const FENCE_BUT_GPU: &[i64] = &[
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_personality,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    // Names of files that are opened by others, and which parts of shared files others have read.
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_mincore,
    CACHESTAT,
];

#[cfg(target_arch = "x86_64")]
const FENCE_BUT_GPU_LEGACY: &[i64] = &[libc::SYS_inotify_init];
#[cfg(not(target_arch = "x86_64"))]
const FENCE_BUT_GPU_LEGACY: &[i64] = &[];

/// How NVIDIA's compute-sanitizer speaks to its parts: named pipes, of which Landlock allows no other node, and local
/// sockets, which lead to nothing outside.
const BETWEEN_TOOLS: &[i64] = &[libc::SYS_connect, libc::SYS_accept, libc::SYS_accept4, libc::SYS_mknodat];
#[cfg(target_arch = "x86_64")]
const BETWEEN_TOOLS_LEGACY: &[i64] = &[libc::SYS_mknod];
#[cfg(not(target_arch = "x86_64"))]
const BETWEEN_TOOLS_LEGACY: &[i64] = &[];

/// What a GPU worker may not do any more once its driver runs.
const SOCKETS: &[i64] =
    &[libc::SYS_socket, libc::SYS_socketpair, libc::SYS_bind, libc::SYS_listen, libc::SYS_setsockopt];

const SIGNALS: &[i64] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
];

#[cfg(target_arch = "x86_64")]
const NEW_PROGRAMS: &[i64] = &[libc::SYS_execve, libc::SYS_execveat, libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const NEW_PROGRAMS: &[i64] = &[libc::SYS_execve, libc::SYS_execveat];

/// All that running a kernel on the CPU takes.
#[rustfmt::skip]
const WORKER_ALLOWED: &[i64] = &[
    // Memory.
    libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_brk,
    libc::SYS_msync, libc::SYS_mlock, libc::SYS_munlock,
    // Threads that exist already.
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_rseq, libc::SYS_membarrier,
    libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_gettid, libc::SYS_getpid, libc::SYS_getcpu,
    libc::SYS_exit, libc::SYS_exit_group, libc::SYS_restart_syscall,
    // Its own signals.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    // Files that Landlock lets it open, and open descriptors.
    libc::SYS_openat, libc::SYS_close, libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev,
    libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_lseek, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx,
    libc::SYS_readlinkat, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_getcwd, libc::SYS_dup,
    libc::SYS_ppoll, libc::SYS_recvfrom,
    // Time, randomness, and what the machine is.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep, libc::SYS_nanosleep,
    libc::SYS_gettimeofday, libc::SYS_getrandom, libc::SYS_getrusage, libc::SYS_uname, libc::SYS_sysinfo,
];

/// Older names of the same calls, which only x86-64 has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const WORKER_ALLOWED_LEGACY: &[i64] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_poll,
    libc::SYS_time, libc::SYS_dup2, libc::SYS_getrlimit,
];
#[cfg(not(target_arch = "x86_64"))]
const WORKER_ALLOWED_LEGACY: &[i64] = &[];

/// What a program of its own takes beyond a worker that is running already. A pipe to itself is how a sanitizer asks
/// whether memory can be read.
const SCREEN_ALLOWED: &[i64] =
    &[libc::SYS_execve, libc::SYS_set_tid_address, libc::SYS_pipe2, libc::SYS_getppid, libc::SYS_getuid];

/// Older names of the same calls, and what only x86-64 has.
#[cfg(target_arch = "x86_64")]
const SCREEN_ALLOWED_LEGACY: &[i64] = &[libc::SYS_arch_prctl, libc::SYS_pipe, libc::SYS_setrlimit];
#[cfg(not(target_arch = "x86_64"))]
const SCREEN_ALLOWED_LEGACY: &[i64] = &[];
