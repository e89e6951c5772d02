//! One evaluation in a worker that the tool watches.
//!
//! The worker is not killed when a launch fails: the tool has more to say, and says it when the worker has ended.

use super::super::probe;
use super::super::protocol::{Answer, CacheOrder, Edges, Order, Seat, Trouble, UntilEnd, receive, send};
use super::super::standby::OPEN_LIMIT;
use super::super::supervisor::{WORK_LIMIT, copy_limit, step};
use super::super::worker::SOCKET;
use super::{Check, FOUND, Subject, Tool};
use crate::backend::screen::ScreenRequest;
use crate::backend::{BufferUse, Interrupt};
use crate::clock;
use crate::sandbox::{self, Child, Confinement, ExitHow, Profile, Request};
use fleet_config::domain::{Milliseconds, Role};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The number under which the tool finds our binary, which it starts as the worker.
const BINARY: i32 = 4;
/// The tool's report in its folder.
const REPORT: &str = "report.log";
/// Bytes of it that are read.
const REPORT_MAX: u64 = 1 << 20;
/// What a launch may take more than an ordinary one, and the most of all.
const SLOWER: u32 = 50;
const LAUNCH_MAX: Duration = Duration::from_secs(120);
/// Until everything has ended once the worker was told to go.
const END_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of what tool and worker print.
const OUTPUT_MAX: usize = 64 << 10;

/// What the tool is asked, and how it is confined.
pub(super) struct Setting<'a> {
    pub tool: &'a Tool,
    pub check: Check,
    pub confinement: Confinement,
}

/// What came of it.
pub(super) struct Watched {
    pub addresses: Vec<u64>,
    /// Why the launch did not end well.
    pub trouble: Option<String>,
    pub exit: ExitHow,
    pub report: Vec<u8>,
}

/// Why nothing was seen.
#[derive(Debug)]
pub(super) struct Unwatched(pub String);

fn failed(what: &str, error: impl std::fmt::Display) -> Unwatched {
    Unwatched(format!("cannot {what}: {error}"))
}

/// Runs the evaluation once under the tool, and waits until all of it has ended.
pub(super) fn watch(
    setting: &Setting<'_>,
    subject: &Subject<'_>,
    request: &ScreenRequest<'_>,
) -> Result<Watched, Unwatched> {
    // Not below the node's state, of which the user that the tool runs as may reach nothing.
    let folder = tempfile::Builder::new().prefix("muster-screen-").tempdir();
    let folder = folder.map_err(|error| failed("make a folder", error))?;
    let (socket, child) = start(setting, subject, folder.path())?;
    let mut line = Line { socket, interrupt: &request.worker.interrupt };
    let conversed = converse(&mut line, setting.check, subject, request);
    drop(line);
    let (exit, output) = end(child, &conversed)?;
    let (addresses, trouble) = conversed.map_err(|Unwatched(cause)| {
        let said = String::from_utf8_lossy(&output);
        tracing::warn!(cause, said = %said.trim(), "compute-sanitizer gave no answer");
        Unwatched(cause)
    })?;
    let report = read(&folder.path().join(REPORT)).map_err(|error| failed("read its report", error))?;
    Ok(Watched { addresses, trouble, exit, report })
}

fn start(
    setting: &Setting<'_>,
    subject: &Subject<'_>,
    folder: &Path,
) -> Result<(UnixStream, Child), Unwatched> {
    let Setting { tool, check, confinement } = setting;
    let (ours, theirs) = UnixStream::pair().map_err(|error| failed("make a socket", error))?;
    let binary = sandbox::open_own_binary().map_err(|error| failed("open our own binary", error))?;
    let path = std::fs::read_link(format!("/proc/self/fd/{}", binary.as_raw_fd()));
    let path = path.map_err(|error| failed("find our own binary", error))?;
    let mut environment = probe::environment(Some(subject.device));
    environment.push(("TMPDIR".into(), folder.into()));
    let request = Request {
        program: tool.program.clone(),
        arguments: arguments(*check, folder),
        environment,
        folder: folder.to_owned(),
        readable: probe::readable(),
        executable: vec![tool.folder.clone(), path],
        devices: probe::device_nodes(),
        passed: vec![(theirs.into(), SOCKET), (binary, BINARY)],
        profile: Profile::CudaScreen,
        limits: probe::limits(OUTPUT_MAX),
    };
    let child = sandbox::spawn(request, *confinement).map_err(|error| failed("start it", error))?;
    Ok((ours, child))
}

fn arguments(check: Check, folder: &Path) -> Vec<OsString> {
    let found = FOUND.to_string();
    let fixed = [
        "--tool",
        check.name(),
        "--error-exitcode",
        &found,
        "--check-exit-code",
        "no",
        "--show-backtrace",
        "no",
        // Names as they are in the code: nothing of a template's arguments.
        "--demangle",
        "no",
        "--print-limit",
        "16",
        "--target-processes",
        "application-only",
    ];
    let mut all: Vec<OsString> = fixed.iter().map(Into::into).collect();
    all.extend(check.options().iter().map(Into::into));
    all.push("--log-file".into());
    all.push(folder.join(REPORT).into());
    all.push(format!("/proc/self/fd/{BINARY}").into());
    all.push("worker-cuda".into());
    all
}

/// Our end of the worker's socket.
struct Line<'a> {
    socket: UnixStream,
    interrupt: &'a Interrupt,
}

impl Line<'_> {
    fn ask(&mut self, order: &Order, raw: &[u8], limit: Duration) -> Result<Answer, Unwatched> {
        let end = clock::monotonic().saturating_add(limit);
        let mut line =
            UntilEnd { socket: &self.socket, end, now: clock::monotonic, interrupt: self.interrupt };
        let answered = send(&mut line, order, raw).and_then(|()| receive::<Answer>(&mut line, 0));
        answered.map(|(answer, _)| answer).map_err(|error| failed("hear from the worker", error))
    }

    fn done(&mut self, order: &Order, raw: &[u8], limit: Duration) -> Result<(), Unwatched> {
        match self.ask(order, raw, limit)? {
            Answer::Done => Ok(()),
            answer => Err(Unwatched(format!("the worker answered {answer:?}"))),
        }
    }
}

/// Addresses of the buffers, and what went wrong with the launch.
type Conversed = (Vec<u64>, Option<String>);

fn converse(
    line: &mut Line<'_>,
    check: Check,
    subject: &Subject<'_>,
    request: &ScreenRequest<'_>,
) -> Result<Conversed, Unwatched> {
    let seat = Seat::First;
    let device = subject.device.to_owned();
    line.done(&Order::Start { device: device.clone() }, &[], OPEN_LIMIT)?;
    line.done(&Order::Enter, &[], OPEN_LIMIT)?;
    let open = Order::Open { device, cache: CacheOrder::AsLeft };
    let Answer::Opened { .. } = line.ask(&open, &[], OPEN_LIMIT)? else {
        return Err(Unwatched("the worker did not open the device".to_owned()));
    };
    let symbols = subject.kernels.iter().map(|kernel| kernel.symbol.clone()).collect();
    line.done(&Order::Load { seat, symbols }, subject.cubin, OPEN_LIMIT)?;
    let evaluation = request.evaluation;
    let prepare = Order::Prepare {
        seat,
        edges: Edges::Exact,
        buffers: evaluation.buffers.iter().map(|buffer| buffer.bytes).collect(),
        steps: evaluation.steps.iter().map(step).collect(),
        seed: 0,
    };
    line.done(&prepare, &[], WORK_LIMIT)?;
    for (index, (buffer, bytes)) in evaluation.buffers.iter().zip(request.contents).enumerate() {
        // What nobody has written stays so where that is what is looked at.
        let is_given = matches!(buffer.use_, BufferUse::Parameter(Role::In | Role::Inout));
        if is_given || check != Check::Initialisation {
            line.done(&Order::Write { seat, buffer: index }, bytes, copy_limit(bytes.len() as u64))?;
        }
    }
    let Answer::Addresses(addresses) = line.ask(&Order::Addresses { seat }, &[], WORK_LIMIT)? else {
        return Err(Unwatched("the worker did not tell addresses".to_owned()));
    };
    let trouble = match line.ask(&Order::Launch { seat }, &[], launch_limit(request.worker.launch_limit))? {
        Answer::Launched { .. } => None,
        Answer::Failed(Trouble { call, name, .. }) => Some(format!("{call}: {name}")),
        answer => return Err(Unwatched(format!("the worker answered {answer:?}"))),
    };
    Ok((addresses, trouble))
}

fn launch_limit(usual: Milliseconds) -> Duration {
    usual.duration().saturating_mul(SLOWER).min(LAUNCH_MAX)
}

/// Waits for the end of the tool, which follows that of the worker, and hands on what both printed. Where nothing is to be
/// learnt any more both are killed: the device is wanted back.
fn end(mut child: Child, conversed: &Result<Conversed, Unwatched>) -> Result<(ExitHow, Vec<u8>), Unwatched> {
    let exit = if conversed.is_ok() { child.wait(END_LIMIT) } else { child.kill() };
    let exit = exit.map_err(|error| failed("wait for its end", error))?;
    Ok((exit.how, exit.output.bytes))
}

/// A report as a regular file, and no more of it than that: whoever wrote there may have put something else in its place.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(REPORT_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_regular_file_or_none_and_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("plain"), vec![b'x'; REPORT_MAX as usize + 5]).unwrap();
        assert_eq!(read(&path("plain")).unwrap().len() as u64, REPORT_MAX);
        std::os::unix::fs::symlink(path("plain"), path("link")).unwrap();
        let pipe = rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), Mode::from_raw_mode(0o600));
        pipe.unwrap();
        for wrong in ["link", "pipe", "absent"] {
            assert!(read(&path(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_launch_under_the_tool_has_longer_and_not_for_ever() {
        assert_eq!(launch_limit(Milliseconds(100)), Duration::from_secs(5));
        assert_eq!(launch_limit(Milliseconds(60_000)), LAUNCH_MAX);
    }

    #[test]
    fn what_the_tool_is_asked_ends_with_our_worker() {
        for check in Check::ALL {
            let all = arguments(check, Path::new("/f"));
            assert_eq!(all[..2], ["--tool", check.name()]);
            assert_eq!(all[all.len() - 2..], ["/proc/self/fd/4", "worker-cuda"]);
            assert!(all.contains(&"/f/report.log".into()));
        }
    }
}
