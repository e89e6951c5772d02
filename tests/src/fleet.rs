//! A coordinator and its nodes in a folder of their own.

use crate::process::{Process, Signal, run};
use crate::wait::until;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use tempfile::TempDir;

/// How long processes may take to start on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A fleet under test. Dropping it kills its processes and removes its folder.
#[derive(Debug)]
pub struct Fleet {
    folder: TempDir,
    pub coordinator: Option<Process>,
    pub nodes: Vec<Process>,
}

/// The root of the checkout.
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the root").to_owned()
}

impl Fleet {
    /// A running coordinator without nodes.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut fleet = Self { folder, coordinator: None, nodes: Vec::new() };
        fleet.start_coordinator(&[]);
        fleet
    }

    /// A coordinator with one node for each level.
    pub fn with_nodes(levels: &[&str]) -> Self {
        let mut fleet = Self::new();
        for level in levels {
            fleet.add_node(level);
        }
        fleet
    }

    /// The coordinator's state folder.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The state folder of node `index`.
    pub fn node_state(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("node-{index}"))
    }

    /// A path beside the state folders.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts (or starts again) the coordinator and waits until it answers.
    pub fn start_coordinator(&mut self, environment: &[(&str, &str)]) {
        let state = self.state();
        let log = self.path("coordinator.log");
        // The same port after a restart, so that nodes find it again.
        let listening =
            std::fs::read_to_string(self.path("port")).unwrap_or_else(|_| "127.0.0.1:0".to_owned());
        let arguments = ["--state", state.to_str().expect("UTF-8"), "--listen", &listening];
        let mut process = Process::start("muster-coordinator", &arguments, &log, environment);
        let summary = until("the coordinator to answer", START, || {
            if let Some(status) = process.ended() {
                panic!("the coordinator ended ({status}):\n{}", process.log());
            }
            self.try_json(&["status"])
        });
        let port = summary["listening"].as_str().expect("an address").to_owned();
        std::fs::write(self.path("port"), port).expect("the port can be noted");
        self.coordinator = Some(process);
    }

    /// Invites and starts a node, and waits until it is ready.
    pub fn add_node(&mut self, level: &str) {
        self.add_node_with(level, &[]);
    }

    /// The same with further environment variables.
    pub fn add_node_with(&mut self, level: &str, environment: &[(&str, &str)]) {
        let index = self.nodes.len();
        let invite = self.json(&["node", "invite"])["text"].as_str().expect("an invite").to_owned();
        std::fs::write(self.path(&format!("invite-{index}")), invite).expect("the invite can be noted");
        let process = self.start_node(index, level, environment);
        self.nodes.push(process);
        self.await_ready(index + 1);
    }

    /// Starts node `index` again on its state folder.
    pub fn start_node(&self, index: usize, level: &str, environment: &[(&str, &str)]) -> Process {
        let state = self.node_state(index);
        let invite = self.path(&format!("invite-{index}"));
        let name = format!("node-{index}");
        let mut arguments = vec!["run", "--state", state.to_str().expect("UTF-8"), "--name", &name];
        arguments.extend(["--invite-file", invite.to_str().expect("UTF-8"), "--level", level]);
        Process::start("muster-node", &arguments, &self.path(&format!("node-{index}.log")), environment)
    }

    /// Waits until `wanted` nodes are ready.
    pub fn await_ready(&mut self, wanted: usize) {
        until("the nodes to be ready", START, || {
            for node in &mut self.nodes {
                if let Some(status) = node.ended() {
                    panic!("a node ended ({status}):\n{}", node.log());
                }
            }
            let nodes = self.try_json(&["node", "list"])?;
            let ready = nodes.as_array()?.iter().filter(|node| node["state"] == "ready").count();
            (ready >= wanted).then_some(())
        });
    }

    /// Kills the coordinator at once.
    pub fn kill_coordinator(&mut self) {
        if let Some(process) = self.coordinator.take() {
            process.signal(Signal::Kill);
        }
    }

    /// Runs `muster` on this fleet's state folder.
    pub fn muster(&self, arguments: &[&str]) -> Output {
        let state = self.state();
        let all: Vec<&str> = ["--state", state.to_str().expect("UTF-8")]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        run("muster", &all)
    }

    /// Runs `muster --json` and answers with what it printed; the command must succeed.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let with: Vec<&str> = ["--json"].into_iter().chain(arguments.iter().copied()).collect();
        let output = self.muster(&with);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "muster {arguments:?}: {}\n{text}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("muster {arguments:?}: {error}\n{text}"))
    }

    /// The same, nothing when the command fails.
    pub fn try_json(&self, arguments: &[&str]) -> Option<Value> {
        let with: Vec<&str> = ["--json"].into_iter().chain(arguments.iter().copied()).collect();
        let output = self.muster(&with);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).ok()).flatten()
    }

    /// Runs `muster --json`, which must be refused, and answers with the refusal.
    pub fn refusal(&self, arguments: &[&str]) -> Value {
        let with: Vec<&str> = ["--json"].into_iter().chain(arguments.iter().copied()).collect();
        let output = self.muster(&with);
        assert!(!output.status.success(), "muster {arguments:?} was not refused");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("muster {arguments:?}: {error}: {}", String::from_utf8_lossy(&output.stderr))
        });
        answer["error"].clone()
    }

    /// Adds the task in a folder of the checkout.
    pub fn add_task(&self, folder: &str) -> Value {
        let path = checkout().join(folder);
        self.json(&["task", "add", path.to_str().expect("UTF-8")])
    }

    /// Submits and waits; answers with the cells.
    pub fn submit(&self, task: &str, candidates: &[PathBuf], further: &[&str]) -> Vec<Value> {
        let paths: Vec<&str> = candidates.iter().map(|path| path.to_str().expect("UTF-8")).collect();
        let all: Vec<&str> = ["submit", task]
            .into_iter()
            .chain(paths)
            .chain(["--wait"])
            .chain(further.iter().copied())
            .collect();
        self.json(&all)["cells"].as_array().expect("cells").clone()
    }

    /// The verification report; the ledger must verify.
    pub fn verify(&self) -> Value {
        let report = self.json(&["ledger", "verify"]);
        assert_eq!(report["verified"], true, "{report:#}");
        report
    }
}

impl Default for Fleet {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["coordinator.log", "node-0.log", "node-1.log"] {
                let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
                let tail: Vec<&str> = text.lines().rev().take(30).collect();
                eprintln!("--- {name}");
                tail.iter().rev().for_each(|line| eprintln!("{line}"));
            }
        }
    }
}
