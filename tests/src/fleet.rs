//! A coordinator and its nodes in a folder of their own.

use crate::book::Book;
use crate::process::{Process, Signal, run};
use crate::wait::until;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};
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

/// Names a folder in place of the checkout, for a user who may not reach that.
pub const CHECKOUT_VARIABLE: &str = "MUSTER_TEST_CHECKOUT";

/// The root of the checkout.
pub fn checkout() -> PathBuf {
    if let Some(folder) = std::env::var_os(CHECKOUT_VARIABLE) {
        return folder.into();
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the root").to_owned()
}

impl Fleet {
    /// A running coordinator without nodes.
    pub fn new() -> Self {
        let mut fleet = Self::stopped();
        fleet.start_coordinator(&[]);
        fleet
    }

    /// A folder in which nothing runs yet.
    pub fn stopped() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        Self { folder, coordinator: None, nodes: Vec::new() }
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
        if let Some(status) = self.try_start_coordinator(environment) {
            panic!("the coordinator ended ({status}):\n{}", self.log("coordinator.log"));
        }
    }

    /// The same; answers with how it ended if it did before it answered.
    pub fn try_start_coordinator(&mut self, environment: &[(&str, &str)]) -> Option<ExitStatus> {
        let state = self.state();
        let log = self.path("coordinator.log");
        // The same port after a restart, so that nodes find it again.
        let listening =
            std::fs::read_to_string(self.path("port")).unwrap_or_else(|_| "127.0.0.1:0".to_owned());
        let arguments = ["--state", state.to_str().expect("UTF-8"), "--listen", &listening];
        let mut process = Process::start("muster-coordinator", &arguments, &log, environment);
        let answer = until("the coordinator to answer", START, || match process.ended() {
            Some(status) => Some(Err(status)),
            None => self.try_json(&["status"]).map(Ok),
        });
        match answer {
            Err(status) => Some(status),
            Ok(summary) => {
                let port = summary["listening"].as_str().expect("an address").to_owned();
                std::fs::write(self.path("port"), port).expect("the port can be noted");
                self.coordinator = Some(process);
                None
            }
        }
    }

    /// What was logged to the file `name`.
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Kills node `index` at once and starts it again on its state folder.
    pub fn restart_node(&mut self, index: usize, level: &str, environment: &[(&str, &str)]) {
        if let Some(node) = self.nodes.get_mut(index) {
            if node.ended().is_none() {
                node.signal(Signal::Kill);
            }
            node.wait();
        }
        let node = self.start_node(index, level, environment);
        self.nodes[index] = node;
    }

    /// Invites and starts a node, and waits until it is ready.
    pub fn add_node(&mut self, level: &str) {
        self.add_node_with(level, &[]);
    }

    /// The same with further environment variables.
    pub fn add_node_with(&mut self, level: &str, environment: &[(&str, &str)]) {
        self.add_node_told(level, &[], environment);
    }

    /// The same with further arguments.
    pub fn add_node_told(&mut self, level: &str, further: &[&str], environment: &[(&str, &str)]) {
        let index = self.nodes.len();
        let invite = self.json(&["node", "invite"])["text"].as_str().expect("an invite").to_owned();
        std::fs::write(self.path(&format!("invite-{index}")), invite).expect("the invite can be noted");
        let process = self.start_node_told(index, level, further, environment);
        self.nodes.push(process);
        self.await_ready(index + 1);
    }

    /// Starts node `index` again on its state folder.
    pub fn start_node(&self, index: usize, level: &str, environment: &[(&str, &str)]) -> Process {
        self.start_node_told(index, level, &[], environment)
    }

    fn start_node_told(
        &self,
        index: usize,
        level: &str,
        further: &[&str],
        environment: &[(&str, &str)],
    ) -> Process {
        let state = self.node_state(index);
        let invite = self.path(&format!("invite-{index}"));
        let name = format!("node-{index}");
        let mut arguments = vec!["run", "--state", state.to_str().expect("UTF-8"), "--name", &name];
        arguments.extend(["--invite-file", invite.to_str().expect("UTF-8"), "--level", level]);
        arguments.extend(further);
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
        if let Some(mut process) = self.coordinator.take() {
            if process.ended().is_none() {
                process.signal(Signal::Kill);
            }
            process.wait();
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

    /// Submits without waiting; nothing when it was not acknowledged.
    pub fn try_submit(&self, task: &str, candidates: &[PathBuf], further: &[&str]) -> Option<Receipt> {
        let paths = candidates.iter().map(|path| path.to_str().expect("UTF-8"));
        let all: Vec<&str> =
            ["submit", task].into_iter().chain(paths).chain(further.iter().copied()).collect();
        self.try_json(&all).map(|answer| Receipt::of(&answer))
    }

    /// The cells of a submission as they stand; nothing when the coordinator does not answer.
    pub fn cells(&self, submission: &str) -> Option<Vec<Value>> {
        Some(self.try_json(&["status", submission])?.as_array()?.clone())
    }

    /// Waits until every cell of every receipt is over; answers with all of them.
    pub fn await_over(&self, receipts: &[Receipt], within: Duration) -> Vec<Value> {
        let mut all = Vec::new();
        for receipt in receipts {
            all.extend(until("the cells to be over", within, || {
                let cells = self.cells(&receipt.submission)?;
                let over = |cell: &Value| cell["state"] == "finished" || cell["state"] == "ended";
                (!cells.is_empty() && cells.iter().all(over)).then_some(cells)
            }));
        }
        all
    }

    /// What the ledger says, read from its folder.
    pub fn book(&self) -> Book {
        Book::read(&self.state())
    }

    /// The record that ended a cell.
    pub fn record_of(&self, cell: &Value) -> Value {
        let leaf = cell["index"].as_u64().unwrap_or_else(|| panic!("no leaf: {cell:#}")).to_string();
        self.json(&["show", &leaf])
    }

    /// POST on the socket of the API, without a body.
    pub fn post(&self, path: &str) -> Value {
        let mut stream = UnixStream::connect(self.state().join("api.sock")).expect("the API listens");
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: muster\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("the API reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("the API answers");
        let (status, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(status.starts_with("HTTP/1.1 200"), "{text}");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Writes a file beside the state folders.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file can be written");
        path
    }

    /// The verification report; the ledger must verify.
    pub fn verify(&self) -> Value {
        let report = self.json(&["ledger", "verify"]);
        assert_eq!(report["verified"], true, "{report:#}");
        report
    }
}

/// A submission that was acknowledged.
#[derive(Debug, Clone)]
pub struct Receipt {
    pub submission: String,
    pub cells: BTreeSet<String>,
    pub reused: u64,
}

impl Receipt {
    /// The receipt in an answer of `muster submit`.
    pub fn of(answer: &Value) -> Self {
        let receipt = &answer["receipt"];
        let body: Value =
            serde_json::from_str(receipt["body"].as_str().expect("a signed body")).expect("canonical JSON");
        let cells = body["cells"].as_array().expect("cells").iter();
        Self {
            submission: receipt["submission"].as_str().expect("an id").to_owned(),
            cells: cells.map(|cell| cell.as_str().expect("an id").to_owned()).collect(),
            reused: receipt["reused"].as_u64().expect("a count"),
        }
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
