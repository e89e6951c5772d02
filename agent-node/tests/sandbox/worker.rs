//! What a worker can do once it has locked itself.

use super::{PATIENCE, Place, confinement};
use agent_node::sandbox::{Profile, lock_cuda_worker, lock_worker, spawn};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;

#[test]
fn a_locked_worker_keeps_what_a_kernel_needs() {
    let place = Place::new();
    assert_eq!(place.trial("compute", Profile::Worker), "ok");
    assert_eq!(place.trial("compute", Profile::CpuWorker), "ok");
    // Host code of a candidate has nothing to write.
    assert_eq!(place.trial("write-own-folder", Profile::Worker), "allowed");
    assert_eq!(place.trial("write-own-folder", Profile::CpuWorker), "refused");
}

#[test]
fn a_locked_worker_is_refused_everything_else() {
    let place = Place::new();
    let trials = [
        "socket",
        "exec",
        "exec-shell",
        "ptrace",
        "fork",
        "thread",
        "secret",
        "parent-environ",
        "passwd",
        "write-outside",
        "signal-parent",
        "process-read",
        "new-namespace",
        "ioctl",
        "raise-limit",
        "own-death-signal",
    ];
    for trial in trials {
        assert_eq!(place.trial(trial, Profile::Worker), "refused", "{trial}");
        assert_eq!(place.trial(trial, Profile::CpuWorker), "refused", "{trial}");
    }
}

#[test]
fn a_candidates_own_program_is_confined_from_its_start() {
    let place = Place::new();
    assert_eq!(place.trial("compute", Profile::Screen), "ok");
    assert_eq!(place.trial("thread", Profile::Screen), "allowed");
    let trials = [
        "socket",
        "exec-shell",
        "ptrace",
        "fork",
        "secret",
        "parent-environ",
        "passwd",
        "write-own-folder",
        "write-outside",
        "signal-parent",
        "process-read",
        "new-namespace",
    ];
    for trial in trials {
        assert_eq!(place.trial(trial, Profile::Screen), "refused", "{trial}");
    }
}

#[test]
fn a_locked_gpu_worker_keeps_threads_but_starts_no_program() {
    let place = Place::new();
    assert_eq!(place.trial("thread", Profile::CudaWorker), "allowed");
    for trial in ["socket", "exec", "exec-shell", "ptrace", "fork", "secret", "parent-environ"] {
        assert_eq!(place.trial(trial, Profile::CudaWorker), "refused", "{trial}");
    }
}

#[test]
fn a_worker_gets_the_descriptors_it_was_passed_and_no_other() {
    let place = Place::new();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = place.worker("echo", Profile::Worker);
    request.passed = vec![(theirs.into(), 7)];
    let mut child = spawn(request, confinement()).unwrap();
    ours.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    ours.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"pong");
    let exit = child.wait(PATIENCE).unwrap();
    assert!(exit.success(), "{}", exit.output.text());
    assert!(exit.output.text().contains("TRIAL=0,1,2,7\n"), "{}", exit.output.text());
}

/// Not a test of its own: what the tests above run inside the sandbox.
#[test]
#[ignore = "started by the other tests inside the sandbox"]
fn worker_trial() {
    let trial = std::env::var("TRIAL").unwrap();
    let secret = std::env::var("SECRET_PATH").unwrap();
    let job = std::env::var("JOB_PATH").unwrap();
    if std::env::var_os("GPU").is_some() {
        lock_cuda_worker().unwrap()
    } else if std::env::var_os("OWN_PROGRAM").is_none() {
        lock_worker().unwrap()
    }
    println!("\nTRIAL={}", attempt(&trial, Path::new(&secret), Path::new(&job)));
}

fn attempt(trial: &str, secret: &Path, job: &Path) -> String {
    let parent: i32 = std::env::var("NODE").unwrap().parse().unwrap();
    let failed = match trial {
        "compute" => return compute(),
        "write-own-folder" => fs::write(job.join("made"), b"x").is_err(),
        "echo" => return echo(),
        "attacks" => return super::escapes::attack_as_a_candidate(job),
        "socket" => TcpListener::bind("127.0.0.1:0").is_err() && UnixStream::pair().is_err(),
        "thread" => std::thread::Builder::new().spawn(|| ()).is_err(),
        "secret" => fs::read(secret).is_err(),
        "parent-environ" => fs::read(format!("/proc/{parent}/environ")).is_err(),
        "passwd" => fs::read("/etc/passwd").is_err(),
        "write-outside" => fs::write(secret, b"x").is_err(),
        "exec" => execute("/proc/self/exe") < 0,
        "exec-shell" => execute("/bin/sh") < 0,
        other => raw_call(other, parent) < 0,
    };
    if failed { "refused".to_owned() } else { "allowed".to_owned() }
}

fn raw_call(trial: &str, parent: i32) -> i64 {
    let mut byte = 0u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
    // SAFETY: every pointer is to a live local; whether the call is refused is the question.
    unsafe {
        match trial {
            "ptrace" => libc::ptrace(libc::PTRACE_ATTACH, parent, 0, 0),
            "fork" => i64::from(libc::fork()),
            "signal-parent" => i64::from(libc::kill(parent, 0)),
            "process-read" => libc::process_vm_readv(parent, &raw const local, 1, &raw const local, 1, 0)
                .try_into()
                .unwrap(),
            "new-namespace" => i64::from(libc::unshare(libc::CLONE_NEWUSER)),
            "ioctl" => i64::from(libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr())),
            "raise-limit" => i64::from(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)),
            "own-death-signal" => i64::from(libc::prctl(libc::PR_SET_PDEATHSIG, 0)),
            other => panic!("no trial {other}"),
        }
    }
}

/// Allocation, time, files that it may read, and a caught panic still work.
fn compute() -> String {
    let sum: u64 = (0..1_000_000u64).collect::<Vec<_>>().iter().sum();
    assert_eq!(sum, 499_999_500_000);
    assert!(fs::read_to_string("/proc/self/maps").unwrap().contains("libc"));
    assert!(std::time::UNIX_EPOCH.elapsed().is_ok());
    assert!(std::panic::catch_unwind(|| panic!("caught")).is_err());
    "ok".to_owned()
}

fn execute(path: &str) -> i32 {
    let path = std::ffi::CString::new(path).unwrap();
    let arguments = [path.as_ptr(), std::ptr::null()];
    // SAFETY: both lists end with a null pointer and live through the call.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), [std::ptr::null()].as_ptr()) }
}

/// Answers on descriptor 7, then lists the open descriptors.
fn echo() -> String {
    use std::os::fd::FromRawFd;
    // SAFETY: the test passed a socket under this number, and nothing else here owns it.
    let mut socket = unsafe { UnixStream::from_raw_fd(7) };
    let mut question = [0; 4];
    socket.read_exact(&mut question).unwrap();
    assert_eq!(&question, b"ping");
    socket.write_all(b"pong").unwrap();
    // SAFETY: asking for a flag of a number, open or not, touches no memory.
    let open = |number: &i32| unsafe { libc::fcntl(*number, libc::F_GETFD) } >= 0;
    (0..1024).filter(open).map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}
