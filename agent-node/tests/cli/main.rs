//! `muster-node` from outside: exit codes, refusals with their codes, and leaving when told.
#![expect(clippy::unwrap_used, reason = "a test's helper fails the test by panicking")]
#![expect(clippy::disallowed_methods, reason = "these tests start the program that users start")]

mod driver;

use agent_node::session::NodeFolder;
use fleet_config::domain::{DeviceDescription, DeviceKind, Sha256};
use fleet_config::invite::{Invite, InviteId, InviteSecret};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn node(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_muster-node"))
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[track_caller]
fn refused(arguments: &[&str], code: &str) {
    let output = node(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains(&format!("[{code}]")), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}

/// An invite that nobody will honour: it names a port that no coordinator listens on.
fn invite(folder: &TempDir) -> PathBuf {
    let invite = Invite {
        secret: InviteSecret::new([7; 32]),
        coordinator: Sha256([8; 32]),
        expires_unix_ms: 4_000_000_000_000,
        id: InviteId([9; 8]),
        addresses: vec!["127.0.0.1:9".to_owned()],
    };
    let path = folder.path().join("invite");
    std::fs::write(&path, invite.to_text().unwrap().as_bytes()).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn devices_are_cpus_with_their_level_and_compiler() {
    let output = node(&["devices", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let devices: Vec<DeviceDescription> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].kind, DeviceKind::Cpu);
    assert!(devices[0].attributes.contains_key("device.multiprocessors"));
}

#[test]
fn the_doctor_says_what_is_there_and_what_is_not() {
    let output = node(&["doctor", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> =
        answer["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"Landlock") && names.contains(&"C++ compiler"), "{names:?}");
    let output = node(&["doctor", "--compiler", "/no/such/compiler", "--json"]);
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn levels_and_compilers_that_are_not_there_are_refused() {
    refused(&["devices", "--level", "cpu:x86-64-v9"], "node/level");
    refused(&["devices", "--compiler", "/no/such/compiler"], "node/no-compiler");
    assert_eq!(node(&["devices", "--level", "fast"]).status.code(), Some(2));
    assert_eq!(node(&["fly"]).status.code(), Some(2));
}

#[test]
fn a_node_without_invite_or_with_a_damaged_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    refused(&["run", "--state", text(&state)], "join/no-invite");
    let bad = folder.path().join("bad");
    refused(&["run", "--state", text(&state), "--invite-file", text(&bad)], "join/invite-unreadable");
    for content in [&b""[..], b"muster", &[0xff; 4000]] {
        std::fs::write(&bad, content).unwrap();
        let output = node(&["run", "--state", text(&state), "--invite-file", text(&bad)]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
}

#[test]
fn state_folders_that_cannot_be_used_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let invite = invite(&folder);
    let run = |state: &Path, code: &str| {
        refused(&["run", "--state", text(state), "--invite-file", text(&invite)], code);
    };
    let strange = folder.path().join("strange");
    std::fs::create_dir(&strange).unwrap();
    std::fs::write(strange.join("thesis.tex"), "x").unwrap();
    run(&strange, "state/not-a-state-folder");
    run(Path::new("/proc/no-such-folder"), "state/io");
    let used = folder.path().join("used");
    agent_node::state::State::admit(&used).unwrap();
    let _holder = NodeFolder::open(&used).unwrap();
    run(&used, "state/in-use");
}

#[test]
fn a_node_that_waits_for_its_coordinator_leaves_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let (invite, state) = (invite(&folder), folder.path().join("state"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_muster-node"))
        .args(["run", "--state", text(&state), "--invite-file", text(&invite)])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut seen = Vec::new();
    for line in lines {
        seen.push(line.unwrap());
        if seen.last().is_some_and(|line| line.contains("device on offer")) {
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{status:?} {seen:#?}");
    assert!(seen.iter().any(|line| line.contains("SIGTERM")), "{seen:#?}");
}

#[test]
fn a_task_that_zeros_would_pass_does_not_hold_together() {
    let folder = tempfile::tempdir().unwrap();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/sample");
    for file in ["reference.cu", "baseline.cu"] {
        std::fs::copy(sample.join(file), folder.path().join(file)).unwrap();
    }
    let task = std::fs::read_to_string(sample.join("task.toml")).unwrap();
    let weak = task.replace("absolute = 1e-4", "absolute = 1e6");
    assert_ne!(task, weak);
    std::fs::write(folder.path().join("task.toml"), weak).unwrap();
    let output = node(&["check-task", text(folder.path()), "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["status"], "task_weak");
    assert!(answer["outcome"]["cause"]["message"].as_str().unwrap().contains("tolerance"));
    refused(&["check-task", "/no/such/task"], "task/unreadable-file");
}
