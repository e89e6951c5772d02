//! A fleet that `muster up` started: its processes are children of nobody here, known by the files it left.

use crate::process::{Signal, run, runs, send};
use crate::wait::until;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use tempfile::TempDir;

/// How long a process may take to end on a busy machine.
const END: Duration = Duration::from_secs(60);

/// A state folder for `muster up`. Dropping it ends what runs there and removes it.
#[derive(Debug)]
pub struct Local {
    folder: TempDir,
}

impl Local {
    /// A folder in which nothing runs yet.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder can be made") }
    }

    /// The coordinator's state folder.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// A path beside it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `muster` on this folder.
    pub fn muster(&self, arguments: &[&str]) -> Output {
        let state = self.state();
        run("muster", &[&["--state", state.to_str().expect("UTF-8")], arguments].concat())
    }

    /// Runs `muster --json`; answers with the exit code and what it printed.
    pub fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.muster(&[&["--json"], arguments].concat());
        let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("muster {arguments:?}: {error}: {}", String::from_utf8_lossy(&output.stderr))
        });
        (output.status.code().expect("it ended by itself"), answer)
    }

    /// The same; it must succeed.
    pub fn done(&self, arguments: &[&str]) -> Value {
        let (code, answer) = self.json(arguments);
        assert_eq!(code, 0, "muster {arguments:?}: {answer:#}\n{}", self.logs());
        answer
    }

    /// The same; it must be refused. Answers with exit code and error code.
    pub fn refused(&self, arguments: &[&str]) -> (i32, String) {
        let (code, answer) = self.json(arguments);
        assert_ne!(code, 0, "muster {arguments:?}: {answer:#}");
        (code, answer["error"]["code"].as_str().unwrap_or_else(|| panic!("{answer:#}")).to_owned())
    }

    /// Kills a process of this fleet at once and waits until it is gone.
    pub fn kill(&self, process: u32) {
        send(process, Signal::Kill);
        until("the process to be gone", END, || (!runs(process)).then_some(()));
    }

    /// What the processes logged last.
    fn logs(&self) -> String {
        let nodes = std::fs::read_dir(self.state().join("nodes")).into_iter().flatten().flatten();
        let logs =
            nodes.map(|entry| entry.path().join("node.log")).chain([self.state().join("coordinator.log")]);
        let tail = |path: PathBuf| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("--- {}\n{}\n", path.display(), lines[lines.len().saturating_sub(20)..].join("\n"))
        };
        logs.filter(|path| path.is_file()).map(tail).collect()
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        // Where nothing runs there is nothing to end.
        let _ended = self.muster(&["down"]);
    }
}

/// The coordinator's process in an answer of `muster up`.
pub fn coordinator_of(up: &Value) -> u32 {
    process(&up["summary"]["process"])
}

/// The process of its own node `index`.
pub fn node_of(up: &Value, index: usize) -> u32 {
    process(&up["own"][index]["process"])
}

fn process(value: &Value) -> u32 {
    value.as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or_else(|| panic!("no process: {value}"))
}

/// When a process was started, in ticks from boot: field 22 of `/proc/<id>/stat`, proc(5).
pub fn start_time(id: u32) -> u64 {
    let text =
        std::fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat")).expect("it runs");
    let (_, fields) = text.rsplit_once(')').expect("a name in brackets");
    fields.split_ascii_whitespace().nth(19).and_then(|field| field.parse().ok()).expect("a number")
}
