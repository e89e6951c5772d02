//! Starts children, through the launcher.

use super::cgroup::Group;
use super::child::Child;
use super::handover::{Errand, Order, PASSED_MAX, receive_told, send_order};
use super::launcher::PASSED_NUMBERS;
use super::report::probe;
use super::request::{Confinement, Level, Profile, Request, ResourceLimits};
use super::toolchain::system_toolchain;
use super::view::may_use_tmp;
use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, ftruncate, memfd_create};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Says in a worker's environment which level it runs at.
pub(super) const LEVEL_VARIABLE: &str = "MUSTER_SANDBOX_LEVEL";
/// The running binary, even after its file was replaced by an update.
const OWN_BINARY: &str = "/proc/self/exe";
/// How long a launcher may take; milliseconds are usual, a machine that swaps takes longer.
const LAUNCH_MAX: Duration = Duration::from_secs(30);
/// Requests that wait for the starting thread: one is made per blocking caller, and each takes about a millisecond.
const STARTS_QUEUED: usize = 16;
/// Bytes of output that may be asked for: diagnostics of a compiler, not data.
const OUTPUT_MAX: usize = 64 << 20;

static LAUNCHER: OnceLock<PathBuf> = OnceLock::new();
static STARTER: OnceLock<Result<SyncSender<Start>, String>> = OnceLock::new();

/// Why no child was started. All of them are the node's fault, never the candidate's.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("this kernel gives no sandbox: {0}")]
    NoSandbox(String),
    #[error("the request cannot be carried out: {0}")]
    Request(String),
    #[error("cannot prepare the child's output or socket: {0}")]
    Prepare(#[source] io::Error),
    #[error("cannot make a control group for the child: {0}")]
    Group(#[source] io::Error),
    #[error("cannot start the launcher: {0}")]
    Launcher(#[source] io::Error),
    #[error("the launcher stopped at `{stage}`: {cause}")]
    Setup { stage: String, cause: String },
    #[error("the launcher did not answer: {0}")]
    Answer(#[source] io::Error),
}

/// Names the binary whose `sandbox-launch` is used when the calling program is not `muster-node` itself. The first call
/// counts.
pub fn set_launcher(path: PathBuf) {
    let _ = LAUNCHER.set(path);
}

/// The `program` of a worker: the launcher's own binary, which resolves this path after it was started.
pub fn own_binary() -> PathBuf {
    PathBuf::from(OWN_BINARY)
}

/// The launcher's own binary, open: for a child that starts it as a worker by way of another program, and may reach no
/// path of it.
pub fn open_own_binary() -> io::Result<OwnedFd> {
    let path = LAUNCHER.get().map_or(Path::new(OWN_BINARY), PathBuf::as_path);
    Ok(std::fs::File::open(path)?.into())
}

/// Starts a child and returns once its program runs. Blocks for some milliseconds.
pub fn spawn(request: Request, confinement: Confinement) -> Result<Child, SpawnError> {
    check(&request)?;
    let level = confinement.level_of(request.profile);
    if confinement != Confinement::UnsafeNone {
        let drives_gpu =
            matches!(request.profile, Profile::Worker | Profile::CudaWorker | Profile::CudaScreen);
        let wanted =
            if confinement == Confinement::Full && !drives_gpu { Level::Full } else { Level::Kernel };
        if let Some(missing) = probe().missing(wanted) {
            return Err(SpawnError::NoSandbox(missing));
        }
    }
    start(&request, level, Errand::Program)
}

/// Whether the kernel lets a child have what level `full` adds: a launcher tries it and ends. The failed step and its
/// cause otherwise.
pub(super) fn try_isolation() -> Result<(), (String, String)> {
    let toolchain = system_toolchain();
    let request = Request {
        program: own_binary(),
        arguments: Vec::new(),
        environment: Vec::new(),
        // Any folder that all machines have; in the trial's own view of it alone it may be written.
        folder: PathBuf::from("/usr"),
        readable: toolchain.readable,
        executable: toolchain.executable,
        devices: Vec::new(),
        passed: Vec::new(),
        profile: Profile::Compiler,
        limits: ResourceLimits {
            cpu_seconds: 10,
            memory: None,
            file_size: 1 << 20,
            open_files: 64,
            processes: 8,
            output_max: 1 << 16,
        },
    };
    match start(&request, Level::Full, Errand::Trial) {
        Ok(_) => Ok(()),
        Err(SpawnError::Setup { stage, cause }) => Err((stage, cause)),
        Err(error) => Err(("launcher".to_owned(), error.to_string())),
    }
}

fn start(request: &Request, level: Level, errand: Errand) -> Result<Child, SpawnError> {
    let output = output_file(request.limits.output_max).map_err(SpawnError::Prepare)?;
    let (mut ours, theirs) = UnixStream::pair().map_err(SpawnError::Prepare)?;
    ours.set_read_timeout(Some(LAUNCH_MAX)).map_err(SpawnError::Prepare)?;
    ours.set_write_timeout(Some(LAUNCH_MAX)).map_err(SpawnError::Prepare)?;
    let group =
        Group::of(request.profile, &request.limits, passed_bytes(request)).map_err(SpawnError::Group)?;
    let id = start_launcher(&output, theirs)?;
    // The launcher does nothing before it has its order.
    let admitted = group.as_ref().map_or(Ok(()), |group| group.admit(id));
    // From here on dropping the child kills and reaps it.
    let mut child = Child::new(id, output, request.limits.output_max, level, group);
    admitted.map_err(SpawnError::Group)?;
    let order = order(request, level, errand);
    let passed: Vec<_> = request.passed.iter().map(|(descriptor, _)| descriptor.as_fd()).collect();
    send_order(&mut ours, &order, &passed).map_err(SpawnError::Answer)?;
    let told = receive_told(&mut ours).map_err(SpawnError::Answer)?;
    if let Some(family) = told.family {
        child.succeed(family).map_err(|error| SpawnError::Answer(io::Error::other(error)))?;
    }
    match told.failure {
        None => Ok(child),
        Some(failure) => Err(SpawnError::Setup { stage: failure.stage, cause: failure.cause }),
    }
}

/// Bytes of memory files that are passed on: they count for whoever touches them first.
fn passed_bytes(request: &Request) -> u64 {
    let size = |(descriptor, _): &(OwnedFd, i32)| {
        rustix::fs::fstat(descriptor).map_or(0, |status| u64::try_from(status.st_size).unwrap_or(0))
    };
    request.passed.iter().map(size).fold(0, u64::saturating_add)
}

fn check(request: &Request) -> Result<(), SpawnError> {
    let refuse = |cause: String| Err(SpawnError::Request(cause));
    if !request.program.is_absolute() || !request.folder.is_absolute() {
        return refuse(format!(
            "{} and {} must be absolute",
            request.program.display(),
            request.folder.display()
        ));
    }
    if request.passed.len() > PASSED_MAX {
        return refuse(format!("{} descriptors; at most {PASSED_MAX} can be passed", request.passed.len()));
    }
    let numbers: BTreeSet<i32> = request.passed.iter().map(|(_, number)| *number).collect();
    if numbers.len() != request.passed.len() || numbers.iter().any(|number| !PASSED_NUMBERS.contains(number))
    {
        return refuse(format!("descriptor numbers {numbers:?} must differ and lie in {PASSED_NUMBERS:?}"));
    }
    if request.limits.output_max == 0 || request.limits.output_max > OUTPUT_MAX {
        return refuse(format!(
            "{} bytes of output; 1 to {OUTPUT_MAX} can be kept",
            request.limits.output_max
        ));
    }
    Ok(())
}

/// A file in memory that cannot grow past `size`: a child that floods it gets errors, and the node neither blocks the
/// child nor has to read while it runs.
fn output_file(size: usize) -> io::Result<OwnedFd> {
    let page = rustix::param::page_size();
    let file = memfd_create("output", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, size.next_multiple_of(page) as u64)?;
    // Files in memory are executable when they are made, and Landlock knows no path of theirs.
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

fn order(request: &Request, level: Level, errand: Errand) -> Order {
    let words = |paths: &[PathBuf]| paths.iter().map(|path| path.clone().into_os_string()).collect();
    Order {
        program: request.program.clone().into_os_string(),
        arguments: request.arguments.clone(),
        environment: environment(request, level),
        folder: request.folder.clone().into_os_string(),
        readable: words(&request.readable),
        executable: words(&request.executable),
        devices: words(&request.devices),
        numbers: request.passed.iter().map(|(_, number)| *number).collect(),
        profile: request.profile,
        limits: request.limits,
        level,
        errand,
        parent: std::process::id(),
    }
}

fn environment(request: &Request, level: Level) -> Vec<(OsString, OsString)> {
    let mut environment = request.environment.clone();
    let mut add = |name: &str, value: OsString| {
        if !environment.iter().any(|(present, _)| present == name) {
            environment.push((name.into(), value));
        }
    };
    match request.profile {
        Profile::Compiler | Profile::Harness => {
            add("PATH", "/usr/bin:/bin".into());
            let has_tmp = level == Level::Full && may_use_tmp(request.profile);
            add("TMPDIR", if has_tmp { "/tmp".into() } else { request.folder.clone().into_os_string() });
            add("LC_ALL", "C".into());
        }
        Profile::CpuWorker
        | Profile::Worker
        | Profile::CudaWorker
        | Profile::CudaScreen
        | Profile::Screen => {
            add(LEVEL_VARIABLE, level.as_str().into());
        }
    }
    environment
}

/// One request to the starting thread.
struct Start {
    program: PathBuf,
    input: UnixStream,
    output: OwnedFd,
    errors: OwnedFd,
    answer: SyncSender<io::Result<u32>>,
}

/// Starts the launcher on the thread that starts all children. A child asks to be killed when the *thread* that started
/// it ends, so that thread must live as long as the node; those of a pool come and go.
fn start_launcher(output: &OwnedFd, input: UnixStream) -> Result<u32, SpawnError> {
    let (answer, answered) = sync_channel(1);
    let start = Start {
        program: LAUNCHER.get().map_or(Path::new(OWN_BINARY), PathBuf::as_path).to_owned(),
        input,
        output: output.try_clone().map_err(SpawnError::Prepare)?,
        errors: output.try_clone().map_err(SpawnError::Prepare)?,
        answer,
    };
    let gone = || SpawnError::Launcher(io::Error::other("the starting thread has ended"));
    let starter = STARTER.get_or_init(starting_thread);
    let starter = starter.as_ref().map_err(|cause| SpawnError::Launcher(io::Error::other(cause.clone())))?;
    starter.send(start).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?.map_err(SpawnError::Launcher)
}

fn starting_thread() -> Result<SyncSender<Start>, String> {
    let (sender, requests) = sync_channel::<Start>(STARTS_QUEUED);
    let work = move || {
        for start in requests {
            let answer = start.answer.clone();
            // A caller that no longer waits has no child: it would be reaped by nobody, so callers always wait.
            let _ = answer.send(run(start));
        }
    };
    thread::Builder::new().name("sandbox-start".to_owned()).spawn(work).map_err(|error| error.to_string())?;
    Ok(sender)
}

#[expect(clippy::disallowed_methods, reason = "this is the room that starts children")]
fn run(start: Start) -> io::Result<u32> {
    let child = Command::new(start.program)
        .arg("sandbox-launch")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(start.input)))
        .stdout(Stdio::from(start.output))
        .stderr(Stdio::from(start.errors))
        .spawn()?;
    Ok(child.id())
}
