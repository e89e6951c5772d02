//! Starts the other binaries of the house for `up`, `task lint` and `doctor`, and the proposer of a campaign; the only room
//! here that starts processes.

use fleet_config::refusal::Refusal;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The binary `name` beside this one, in `$MUSTER_BIN`, or on the path.
pub(super) fn binary(name: &str) -> PathBuf {
    let given = std::env::var_os("MUSTER_BIN").map(|folder| PathBuf::from(folder).join(name));
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join(name)));
    given.into_iter().chain(beside).find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

/// Starts a process that outlives this one: own session, output appended to `log`, `input` on its standard input.
#[expect(clippy::disallowed_methods, reason = "this is the room that starts the house's own binaries")]
pub(super) fn start(
    name: &str,
    arguments: &[String],
    log: &Path,
    input: Option<&str>,
) -> Result<Child, Refusal> {
    let program = binary(name);
    let place = program.display().to_string();
    let refuse = |cause: String| {
        Refusal::new(
            "up/start",
            &place,
            cause,
            "build or install all three binaries into one folder, or set MUSTER_BIN",
        )
    };
    let mut options = OpenOptions::new();
    let file =
        options.create(true).append(true).mode(0o600).open(log).map_err(|error| refuse(error.to_string()))?;
    let copy = file.try_clone().map_err(|error| refuse(error.to_string()))?;
    let mut command = Command::new(&program);
    command.args(arguments).stdout(file).stderr(copy).process_group(0);
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().map_err(|error| refuse(error.to_string()))?;
    if let (Some(text), Some(mut pipe)) = (input, child.stdin.take()) {
        pipe.write_all(text.as_bytes()).map_err(|error| refuse(error.to_string()))?;
    }
    Ok(child)
}

/// Runs a binary of the house to its end, for work that takes long: what it says on standard error is seen at once, and
/// what it prints is collected.
#[expect(clippy::disallowed_methods, reason = "this is the room that starts the house's own binaries")]
pub(super) fn run_seen(name: &str, arguments: &[String]) -> Result<Output, Refusal> {
    let program = binary(name);
    let mut command = Command::new(&program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    command.output().map_err(|error| not_started(&program, &error))
}

/// Runs a binary of the house to its end and collects what it printed.
#[expect(clippy::disallowed_methods, reason = "this is the room that starts the house's own binaries")]
pub(super) fn run(name: &str, arguments: &[String]) -> Result<Output, Refusal> {
    let program = binary(name);
    let output = Command::new(&program).args(arguments).stdin(Stdio::null()).output();
    output.map_err(|error| not_started(&program, &error))
}

/// Starts a command of the user's shell that is spoken to over its standard input and output; what it says on standard error
/// is appended to `log`. It ends with the child that is answered.
pub(super) fn converse(command: &str, log: &Path) -> Result<tokio::process::Child, Refusal> {
    let refuse = |error: std::io::Error| {
        let place: String = command.chars().take(200).collect();
        Refusal::new("proposer/start", place, error.to_string(), "correct --command")
    };
    let mut options = OpenOptions::new();
    let log = options.create(true).append(true).mode(0o600).open(log).map_err(refuse)?;
    let mut process = tokio::process::Command::new("sh");
    process.arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    process.kill_on_drop(true).spawn().map_err(refuse)
}

fn not_started(program: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new(
        "spawn/start",
        program.display().to_string(),
        error.to_string(),
        "build or install all three binaries into one folder, or set MUSTER_BIN",
    )
}
