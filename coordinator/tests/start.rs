//! How a coordinator starts, refuses to start, and stops: as a process, by its exit code and what it says.

#![expect(clippy::unwrap_used, reason = "a test's helper fails the test by panicking")]
#![expect(clippy::disallowed_methods, reason = "these tests start and await real processes")]

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A start that takes longer hangs.
const WITHIN: Duration = Duration::from_secs(60);

fn command(state: &Path, listen: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster-coordinator"));
    command.arg("--state").arg(state).args(["--listen", listen]).stdin(Stdio::null());
    command
}

/// What a start that must be refused says at its end.
fn refused(state: &Path, listen: &str, code: &str, next: &str) -> String {
    let output = command(state, listen).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("muster-coordinator: "), "{said}");
    assert!(last.contains(&format!("[{code}]; ")) && last.contains(next), "{code}: {said}");
    last
}

/// A running coordinator.
struct Running {
    state: PathBuf,
    process: Child,
    listening: SocketAddr,
}

impl Running {
    fn start(state: &Path, listen: &str) -> Self {
        let mut process = command(state, listen).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        let file = state.join("coordinator.json");
        let listening = loop {
            if let Ok(text) = std::fs::read_to_string(&file) {
                let told: Value = serde_json::from_str(&text).unwrap();
                break told["listening"][0].as_str().unwrap().parse().unwrap();
            }
            assert!(process.try_wait().unwrap().is_none() && begun.elapsed() < WITHIN, "it does not start");
            std::thread::sleep(Duration::from_millis(10));
        };
        Self { state: state.to_owned(), process, listening }
    }

    fn stop(mut self) {
        let mut stream = UnixStream::connect(self.state.join("api.sock")).unwrap();
        let request =
            "POST /v1/stop HTTP/1.1\r\nhost: muster\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // The coordinator may close the connection before its answer is read to the end.
        let _cut = stream.read_to_string(&mut answer);
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, which is fine.
        let _ended = self.process.kill();
        let _collected = self.process.wait();
    }
}

#[test]
fn a_port_in_use_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = refused(&state, &address, "listen/port-in-use", "--listen");
    assert!(said.contains(&address), "{said}");
    assert!(!state.join("ledger").exists() && !state.join("journal").exists());
    refused(&state, "192.0.2.1:4460", "listen/address", "--listen");
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    // Nobody makes folders in /sys, not even root.
    refused(Path::new("/sys/muster-state"), "127.0.0.1:0", "state/not-writable", "--state");
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("x".repeat(120));
    refused(&long, "127.0.0.1:0", "state/path-too-long", "shorter");
}

#[test]
fn a_corrupt_state_folder_is_refused_part_by_part_and_nothing_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    Running::start(&state, "127.0.0.1:0").stop();
    let garbage: &[u8] = b"garbage\n";
    let parts = [
        ("version", garbage, "state/version", "another --state folder"),
        ("journal", garbage, "state/journal", "backup"),
        ("keys/operator", garbage, "state/key", "backup"),
        ("keys/log", garbage, "state/key", "backup"),
        ("keys/tls.key.der", garbage, "state/key", "backup"),
        // Thirty-two bytes are a key, though another one: that is no fault of the ledger.
        ("keys/operator", &[7; 32], "state/key-mismatch", "restore this key file"),
        ("keys/log", &[7; 32], "state/key-mismatch", "restore this key file"),
        ("ledger/checkpoint", garbage, "state/ledger", "muster ledger verify"),
    ];
    for (part, wrong, code, next) in parts {
        let path = state.join(part);
        let good = std::fs::read(&path).unwrap();
        // Written in place, so that the mode stays.
        std::fs::write(&path, wrong).unwrap();
        let said = refused(&state, "127.0.0.1:0", code, next);
        assert!(!part.starts_with("keys/") || said.contains(part), "the key file is named: {said}");
        assert_eq!(std::fs::read(&path).unwrap(), wrong, "{part} is left as it was found");
        std::fs::write(&path, good).unwrap();
    }
    Running::start(&state, "127.0.0.1:0").stop();
}

#[test]
fn files_cut_short_are_refused_and_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    Running::start(&state, "127.0.0.1:0").stop();
    let parts = [
        ("version", "state/version"),
        ("journal", "state/journal"),
        ("keys/operator", "state/key"),
        ("keys/log", "state/key"),
        ("keys/tls.key.der", "state/key"),
        ("ledger/checkpoint", "state/ledger"),
        ("ledger/.state/version", "state/ledger"),
        ("ledger/.state/wal", "state/ledger"),
    ];
    for (part, code) in parts {
        let path = state.join(part);
        let good = std::fs::read(&path).unwrap();
        for length in [0, good.len() / 2, good.len().min(15)] {
            let cut = &good[..length.min(good.len() - 1)];
            std::fs::write(&path, cut).unwrap();
            refused(&state, "127.0.0.1:0", code, "");
            assert_eq!(std::fs::read(&path).unwrap(), cut, "{part} is left as it was found");
        }
        std::fs::write(&path, good).unwrap();
    }
    Running::start(&state, "127.0.0.1:0").stop();
}

#[test]
fn secrets_that_others_may_read_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    Running::start(&state, "127.0.0.1:0").stop();
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for part in ["keys/operator", "keys/log", "keys/tls.key.der"] {
        for open in [0o644, 0o640, 0o602] {
            mode(&state.join(part), open);
            refused(&state, "127.0.0.1:0", "state/secret-readable", "chmod 600");
        }
        mode(&state.join(part), 0o600);
    }
    for open in [0o770, 0o702] {
        mode(&state, open);
        refused(&state, "127.0.0.1:0", "state/writable-by-others", "chmod 700");
    }
    mode(&state, 0o700);
    Running::start(&state, "127.0.0.1:0").stop();
}

#[test]
fn port_zero_takes_the_port_of_the_last_time_if_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let first = Running::start(&state, "127.0.0.1:0");
    let address = first.listening;
    first.stop();
    let second = Running::start(&state, "127.0.0.1:0");
    assert_eq!(second.listening, address, "enrolled nodes find it again");
    second.stop();
    let taken = UdpSocket::bind(address).unwrap();
    let third = Running::start(&state, "127.0.0.1:0");
    assert_ne!(third.listening, address);
    third.stop();
    drop(taken);
}
