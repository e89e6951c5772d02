//! Processes of a test: started from the built binaries, killed when dropped, signalled by id.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

/// The folder of the built binaries: `$MUSTER_BIN`, else the profile folder that this test was built into.
pub fn binaries() -> PathBuf {
    if let Some(folder) = std::env::var_os("MUSTER_BIN") {
        return folder.into();
    }
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.parent().and_then(Path::parent).expect("tests lie in <profile>/deps").to_owned();
    assert!(folder.join("muster").is_file(), "build the binaries first: cargo build --workspace --bins");
    folder
}

/// A running process with its log; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

/// Signals that tests send.
#[derive(Debug, Clone, Copy)]
pub enum Signal {
    Kill,
    Stop,
    Continue,
    Terminate,
}

impl Process {
    /// Starts the binary `name`, output going to `log`, with further environment variables.
    #[expect(clippy::disallowed_methods, reason = "the harness starts real processes")]
    pub fn start(name: &str, arguments: &[&str], log: &Path, environment: &[(&str, &str)]) -> Self {
        let file = File::options().create(true).append(true).open(log).expect("the log can be opened");
        let copy = file.try_clone().expect("the log can be shared");
        let child = Command::new(binaries().join(name))
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(copy)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self { child, log: log.to_owned() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a child can be waited for")
    }

    /// Everything that it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal to this very process.
    pub fn signal(&self, signal: Signal) {
        send(self.id(), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, which is fine.
        let _ended = self.child.kill();
        let _collected = self.child.wait();
    }
}

/// Sends a signal to the process of this id, which must run.
pub fn send(id: u32, signal: Signal) {
    let number = match signal {
        Signal::Kill => rustix::process::Signal::KILL,
        Signal::Stop => rustix::process::Signal::STOP,
        Signal::Continue => rustix::process::Signal::CONT,
        Signal::Terminate => rustix::process::Signal::TERM,
    };
    let process = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
    let process = process.expect("a process has an id above zero");
    rustix::process::kill_process(process, number).unwrap_or_else(|error| panic!("{signal:?}: {error}"));
}

/// Whether a process of this id runs; one that has ended and waits to be collected does not.
pub fn runs(id: u32) -> bool {
    state_letter(id).is_some_and(|letter| letter != 'Z')
}

/// Which outputs of a command nobody reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    Output,
    Both,
}

/// Runs the binary `name` with pipes that were closed at their other end; answers with how it ended and with what
/// it said on standard error where that is read.
#[expect(clippy::disallowed_methods, reason = "the harness starts real processes")]
pub fn run_unread(name: &str, arguments: &[&str], closed: Closed) -> (ExitStatus, String) {
    let unread = || {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        writer
    };
    let mut command = Command::new(binaries().join(name));
    command.args(arguments).stdin(Stdio::null()).stdout(unread());
    match closed {
        Closed::Output => command.stderr(Stdio::piped()),
        Closed::Both => command.stderr(unread()),
    };
    let child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
    let output = child.wait_with_output().expect("a child can be waited for");
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs the binary `name` to its end.
#[expect(clippy::disallowed_methods, reason = "the harness starts real processes")]
pub fn run(name: &str, arguments: &[&str]) -> Output {
    let output = Command::new(binaries().join(name)).args(arguments).stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{name} does not start: {error}"))
}

/// Whether the binaries honour `MUSTER_FAULT`; released ones do not.
pub fn honour_faults() -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (state, log) = (folder.path().join("state"), folder.path().join("log"));
    let arguments = ["--state", state.to_str().expect("UTF-8"), "--listen", "127.0.0.1:0"];
    // A name of no point ends every process that looks at it.
    let mut process = Process::start("muster-coordinator", &arguments, &log, &[("MUSTER_FAULT", "none")]);
    crate::wait::until("the coordinator to end or to listen", std::time::Duration::from_secs(60), || {
        if process.ended().is_some() {
            return Some(true);
        }
        state.join("coordinator.json").exists().then_some(false)
    })
}

/// The state letter of a process, from proc(5): `T` is stopped. Nothing when there is none of this id.
pub fn state_letter(id: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}
