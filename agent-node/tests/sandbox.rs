//! The sandbox from outside: real compilers and workers that try what they must not.
#![expect(clippy::unwrap_used, reason = "a test's helper fails the test by panicking")]

use agent_node::sandbox::{
    Confinement, Exit, ExitHow, Level, Profile, Request, ResourceLimits, SpawnError, lock_cuda_worker,
    lock_worker, probe, set_launcher, spawn, system_toolchain,
};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const SECRET: &str = "planted-secret-7c1f";
/// Far beyond what any of these children needs, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names another copy of the launcher, for a user who may not reach the build folder.
const LAUNCHER_VARIABLE: &str = "MUSTER_TEST_LAUNCHER";

/// A state folder with a secret beside a job's folder.
struct Place {
    state: TempDir,
    job: PathBuf,
}

impl Place {
    fn new() -> Self {
        let launcher = std::env::var_os(LAUNCHER_VARIABLE).map(PathBuf::from);
        set_launcher(launcher.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_muster-node"))));
        let state = tempfile::tempdir().unwrap();
        let job = state.path().join("job/1");
        fs::create_dir_all(&job).unwrap();
        fs::write(state.path().join("secret"), format!("\"{SECRET}\"\n")).unwrap();
        Self { state, job }
    }
    fn secret(&self) -> PathBuf {
        self.state.path().join("secret")
    }
    fn request(&self, program: &str, arguments: &[&str]) -> Request {
        let toolchain = system_toolchain();
        Request {
            program: PathBuf::from(program),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: Vec::new(),
            folder: self.job.clone(),
            readable: toolchain.readable,
            executable: toolchain.executable,
            devices: Vec::new(),
            passed: Vec::new(),
            profile: Profile::Compiler,
            limits: limits(),
        }
    }
    fn compile(&self, source: &str, arguments: &[&str]) -> Exit {
        fs::write(self.job.join("hello.cpp"), source).unwrap();
        let mut all = vec!["hello.cpp", "-o", "hello"];
        all.extend(arguments);
        run(self.request("/usr/bin/g++", &all))
    }
    /// Runs a program that a compiler made: the request allows executing that one file of the job's folder.
    fn run_built(&self, name: &str) -> Exit {
        let path = self.job.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let mut request = self.request(path.to_str().unwrap(), &[]);
        request.executable.push(path);
        run(request)
    }
    /// Runs this test binary as a worker that does `trial` after it has locked itself.
    fn worker(&self, trial: &str, profile: Profile) -> Request {
        let own = std::env::current_exe().unwrap();
        let arguments = ["--exact", "worker_trial", "--ignored", "--nocapture", "--test-threads=1"];
        let mut request = self.request(own.to_str().unwrap(), &arguments);
        request.environment = vec![
            ("TRIAL".into(), trial.into()),
            ("SECRET_PATH".into(), self.secret().into_os_string()),
            ("JOB_PATH".into(), self.job.clone().into_os_string()),
        ];
        if profile == Profile::CudaWorker {
            request.environment.push(("GPU".into(), "1".into()));
        }
        request.readable = Vec::new();
        request.executable = Vec::new();
        request.profile = profile;
        request
    }
    fn trial(&self, trial: &str, profile: Profile) -> String {
        let exit = run(self.worker(trial, profile));
        let text = exit.output.text();
        assert!(exit.success(), "{trial}: {:?} {text}", exit.how);
        let answer =
            text.lines().find_map(|line| line.split_once("TRIAL=")).map(|(_, answer)| answer.to_owned());
        answer.unwrap_or_else(|| panic!("{trial} gave no answer: {text}"))
    }
}

fn limits() -> ResourceLimits {
    ResourceLimits {
        cpu_seconds: 30,
        memory: Some(4 << 30),
        file_size: 64 << 20,
        open_files: 64,
        processes: 32,
        output_max: 64 << 10,
    }
}

fn run(request: Request) -> Exit {
    let mut child = spawn(request, Confinement::Required).unwrap();
    assert_eq!(child.level(), Level::Kernel);
    child.wait(PATIENCE).unwrap()
}

const HELLO: &str = "#include <cstdio>\n#include <cmath>\nint main() { std::puts(\"hello\"); return 3; }\n";

#[test]
fn this_kernel_gives_both_layers() {
    let report = probe();
    assert_eq!(report.level(), Level::Kernel, "{:?}", report.missing());
    assert_eq!(report.missing(), None);
}

#[test]
fn a_compiler_compiles_links_and_its_program_runs() {
    let place = Place::new();
    let exit = place.compile(HELLO, &["-O2"]);
    assert!(exit.success(), "{:?} {}", exit.how, exit.output.text());
    assert_eq!(exit.output.text(), "");
    assert!(exit.cpu > Duration::ZERO && exit.peak_memory > 1 << 20);
    let exit = place.run_built("hello");
    assert_eq!(exit.how, ExitHow::Code(3));
    assert_eq!(exit.output.text(), "hello\n");
}

#[test]
fn diagnostics_of_a_compiler_are_captured() {
    let place = Place::new();
    let exit = place.compile("int main() { return nothing; }\n", &[]);
    assert_eq!(exit.how, ExitHow::Code(1));
    assert!(exit.output.text().contains("hello.cpp:1:"), "{}", exit.output.text());
    assert!(!exit.output.truncated);
}

#[test]
fn clang_works_too_where_it_is_installed() {
    if !Path::new("/usr/bin/clang++").exists() {
        return;
    }
    let place = Place::new();
    fs::write(place.job.join("hello.cpp"), HELLO).unwrap();
    let exit = run(place.request("/usr/bin/clang++", &["-O2", "hello.cpp", "-o", "hello"]));
    assert!(exit.success(), "{:?} {}", exit.how, exit.output.text());
    assert_eq!(place.run_built("hello").how, ExitHow::Code(3));
}

#[test]
fn a_source_cannot_include_a_planted_secret() {
    let place = Place::new();
    let secret = place.secret();
    let secret = secret.to_str().unwrap();
    let attempts = [
        format!("#include \"{secret}\"\n"),
        format!("%:include \"{secret}\"\n"),
        format!("??=include \"{secret}\"\n"),
        "#include \"../../secret\"\n".to_owned(),
        format!("#define PATH <{secret}>\n#include PATH\n"),
        "#include \"/etc/passwd\"\n".to_owned(),
        "#include \"/proc/self/environ\"\n".to_owned(),
        format!("asm(\".section .rodata\\n.incbin \\\"{secret}\\\"\\n\");\nint main() {{}}\n"),
        "asm(\".incbin \\\"/etc/passwd\\\"\\n\");\nint main() {}\n".to_owned(),
        format!("asm(\".include \\\"{secret}\\\"\\n\");\nint main() {{}}\n"),
    ];
    for source in attempts {
        let exit = place.compile(&source, &["-std=c++14", "-trigraphs"]);
        let text = exit.output.text();
        assert_eq!(exit.how, ExitHow::Code(1), "{source}: {text}");
        let reasons = ["Permission denied", "can't open", "file not found"];
        assert!(reasons.iter().any(|reason| text.contains(reason)), "{source}: {text}");
        assert!(!text.contains(SECRET) && !text.contains("root:"), "{source}: {text}");
        assert!(!place.job.join("hello").exists(), "{source}");
    }
}

#[test]
fn a_compiler_writes_nowhere_else_and_knows_no_environment() {
    let place = Place::new();
    let outside = place.state.path().join("outside.o");
    fs::write(place.job.join("other.cpp"), HELLO).unwrap();
    let exit = run(place.request("/usr/bin/g++", &["-c", "other.cpp", "-o", outside.to_str().unwrap()]));
    assert!(!exit.success());
    assert!(!outside.exists());
    let exit = run(place.request("/usr/bin/env", &[]));
    let text = exit.output.text();
    let mut names: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["LC_ALL", "PATH", "TMPDIR"]);
}

#[test]
fn a_compiler_cannot_execute_what_it_wrote() {
    let place = Place::new();
    assert!(place.compile(HELLO, &[]).success());
    let path = place.job.join("hello");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = spawn(place.request(path.to_str().unwrap(), &[]), Confinement::Required);
    let Err(SpawnError::Setup { stage, cause }) = refused else { panic!("{refused:?}") };
    assert_eq!(stage, "exec");
    assert!(cause.contains("ermission denied"), "{cause}");
}

/// Each line of its output is one thing that was tried.
const TRIES: &str = r#"
#include <cstdio>
#include <string>
#include <unistd.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/ptrace.h>
static void say(const char* what, long got) { std::printf("%s %s\n", what, got < 0 ? "refused" : "allowed"); }
int main() {
  say("inet", socket(AF_INET, SOCK_STREAM, 0));
  say("unix", socket(AF_UNIX, SOCK_STREAM, 0));
  say("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
  say("x32 socket", syscall(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0));
  say("secret", open(STATE "/secret", O_RDONLY));
  say("passwd", open("/etc/passwd", O_RDONLY));
  std::string parent = "/proc/" + std::to_string(getppid());
  say("parent's environment", open((parent + "/environ").c_str(), O_RDONLY));
  say("parent's memory", open((parent + "/mem").c_str(), O_RDWR));
  say("own environment", open("/proc/self/environ", O_RDONLY));
  say("ptrace", ptrace(PTRACE_TRACEME, 0, 0, 0));
  say("signal", kill(getppid(), 0));
  say("session", setsid());
  say("mode", chmod(STATE "/secret", 0777));
  say("unlink", unlink(STATE "/secret"));
  say("rename", rename(STATE "/secret", "stolen"));
  say("link", link(STATE "/secret", "stolen"));
  say("symlink", symlink(STATE "/secret", "stolen"));
  say("new file", open(STATE "/new", O_WRONLY | O_CREAT, 0600));
  say("memory file", syscall(SYS_memfd_create, "x", 0));
  say("user namespace", syscall(SYS_unshare, 0x10000000));
}
"#;

#[test]
fn a_program_under_the_compilers_fence_reaches_nothing_outside() {
    let place = Place::new();
    let state = format!("-DSTATE=\"{}\"", place.state.path().display());
    let exit = place.compile(TRIES, &[&state]);
    assert!(exit.success(), "{}", exit.output.text());
    let exit = place.run_built("hello");
    let text = exit.output.text();
    assert_eq!(exit.how, ExitHow::Code(0), "{text}");
    assert_eq!(text.lines().filter(|line| line.ends_with(" refused")).count(), 20, "{text}");
    assert_eq!(text.lines().count(), 20, "{text}");
    assert!(place.secret().exists());
}

#[test]
fn a_locked_worker_keeps_what_a_kernel_needs() {
    let place = Place::new();
    assert_eq!(place.trial("compute", Profile::Worker), "ok");
    assert_eq!(place.trial("write-own-folder", Profile::Worker), "ok");
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
    let mut child = spawn(request, Confinement::Required).unwrap();
    ours.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    ours.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"pong");
    let exit = child.wait(PATIENCE).unwrap();
    assert!(exit.success(), "{}", exit.output.text());
    assert!(exit.output.text().contains("TRIAL=0,1,2,7\n"), "{}", exit.output.text());
}

#[test]
fn a_flood_of_output_is_cut_and_does_not_stop_the_child() {
    let place = Place::new();
    let script = "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done 2>/dev/null; exit 4";
    let exit = run(place.request("/bin/sh", &["-c", script]));
    assert_eq!(exit.how, ExitHow::Code(4));
    assert_eq!(exit.output.bytes.len(), limits().output_max);
    assert!(exit.output.truncated);
    assert!(exit.output.text().starts_with("0123456789\n0123456789\n"));
}

#[test]
fn the_deadline_kills_grandchildren_too() {
    let place = Place::new();
    let script = "sleep 1000 & echo $!; sleep 1000 & echo $!; wait";
    let mut child = spawn(place.request("/bin/sh", &["-c", script]), Confinement::Required).unwrap();
    let exit = child.wait(Duration::from_secs(2)).unwrap();
    assert_eq!(exit.how, ExitHow::Deadline);
    let ids: Vec<String> = exit.output.text().lines().map(str::to_owned).collect();
    assert_eq!(ids.len(), 2, "the shell had no time to start both: {ids:?}");
    assert!(ids.iter().all(|id| gone(id)), "{ids:?}");
    // Asked again, it tells the same.
    assert_eq!(child.try_exit().unwrap(), Some(exit));
}

#[test]
fn what_a_child_leaves_behind_ends_with_it() {
    let place = Place::new();
    let exit = run(place.request("/bin/sh", &["-c", "sleep 1000 & echo $!; exit 0"]));
    assert!(exit.success());
    assert!(gone(exit.output.text().trim()));
}

/// Whether a process has been killed; one that nobody has reaped yet is a zombie.
fn gone(id: &str) -> bool {
    assert!(id.parse::<u32>().is_ok(), "{id:?}");
    (0..1_000_000).any(|_| {
        let Ok(status) = fs::read_to_string(format!("/proc/{id}/stat")) else { return true };
        status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z') || rest.starts_with('X'))
    })
}

#[test]
fn limits_hold_for_files_memory_cpu_and_descriptors() {
    let place = Place::new();
    let mut request = place.request("/usr/bin/dd", &["if=/usr/bin/g++", "of=big", "bs=4k", "count=100"]);
    request.limits.output_max = 4096;
    request.limits.file_size = 65536;
    let exit = run(request);
    assert!(!exit.success());
    assert_eq!(fs::metadata(place.job.join("big")).unwrap().len(), 65536);
    let mut request = place.request("/bin/sh", &["-c", "while :; do :; done"]);
    request.limits.cpu_seconds = 1;
    assert_eq!(run(request).how, ExitHow::Signal(libc::SIGXCPU));
    let mut request = place.request("/bin/sh", &["-c", "ulimit -n; ulimit -v; ulimit -c"]);
    request.limits.open_files = 17;
    request.limits.memory = Some(1 << 30);
    assert_eq!(run(request).output.text(), "17\n1048576\n0\n");
}

#[test]
fn impossible_requests_are_refused_before_anything_starts() {
    let place = Place::new();
    let mut relative = place.request("g++", &[]);
    relative.folder = PathBuf::from("job");
    assert!(matches!(spawn(relative, Confinement::Required), Err(SpawnError::Request(_))));
    let mut number = place.request("/usr/bin/true", &[]);
    number.passed = vec![(fs::File::open("/dev/null").unwrap().into(), 2)];
    assert!(matches!(spawn(number, Confinement::Required), Err(SpawnError::Request(_))));
    let mut missing = place.request("/usr/bin/true", &[]);
    missing.folder = place.state.path().join("absent");
    let refused = spawn(missing, Confinement::Required);
    assert!(matches!(&refused, Err(SpawnError::Setup { stage, .. }) if stage == "folder"), "{refused:?}");
    let absent = spawn(place.request("/usr/bin/no-such-compiler", &[]), Confinement::Required);
    assert!(matches!(&absent, Err(SpawnError::Setup { stage, .. }) if stage == "exec"), "{absent:?}");
}

#[test]
fn without_a_sandbox_the_level_says_so_and_limits_still_hold() {
    let place = Place::new();
    let script = "ulimit -n; read line < /etc/passwd && echo read";
    let mut child = spawn(place.request("/bin/sh", &["-c", script]), Confinement::UnsafeNone).unwrap();
    assert_eq!(child.level(), Level::None);
    assert_eq!(child.wait(PATIENCE).unwrap().output.text(), "64\nread\n");
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
    } else {
        lock_worker().unwrap()
    }
    println!("\nTRIAL={}", attempt(&trial, Path::new(&secret), Path::new(&job)));
}

fn attempt(trial: &str, secret: &Path, job: &Path) -> String {
    // SAFETY: asks for this process's parent.
    let parent = unsafe { libc::getppid() };
    let failed = match trial {
        "compute" => return compute(),
        "write-own-folder" => {
            fs::write(job.join("made"), b"x").unwrap();
            return "ok".to_owned();
        }
        "echo" => return echo(),
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

/// Where the tests run as root, as in a container, they all run once more as a user without powers.
#[test]
#[expect(clippy::disallowed_methods, reason = "the outer process is the test's own and not the node's child")]
fn all_of_it_holds_for_an_ordinary_user() {
    // SAFETY: asks for this process's user.
    if unsafe { libc::getuid() } != 0 || !Path::new("/usr/bin/setpriv").exists() {
        return;
    }
    let place = Place::new();
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    open(place.state.path());
    let copy = |from: &Path, name: &str| {
        let to = place.state.path().join(name);
        fs::copy(from, &to).unwrap();
        open(&to);
        to
    };
    let launcher = copy(Path::new(env!("CARGO_BIN_EXE_muster-node")), "muster-node");
    let tests = copy(&std::env::current_exe().unwrap(), "tests");
    let output = std::process::Command::new("/usr/bin/setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(tests)
        .env_clear()
        .env(LAUNCHER_VARIABLE, launcher)
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test result: ok. 19 passed"), "{text}");
}
