//! What people ask of a coordinator across its restarts: tasks once, submissions known, streams that end, goodbyes.

use crate::CLASS;
use fleet_tests::fleet::{Fleet, checkout};
use fleet_tests::wait::until;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long a busy machine may take.
const WITHIN: Duration = Duration::from_secs(60);

/// One request on the coordinator's socket: status line, headers and body, read to the end.
fn http(fleet: &Fleet, method: &str, path: &str) -> String {
    let mut stream = UnixStream::connect(fleet.state().join("api.sock")).expect("the socket answers");
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: muster\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request can be sent");
    stream.set_read_timeout(Some(WITHIN)).expect("a limit can be set");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer ends");
    answer
}

fn tiled() -> String {
    checkout().join("scripts/sample/candidates/tiled.cu").to_str().expect("UTF-8").to_owned()
}

#[test]
fn adding_a_task_folder_twice_is_adding_it_once() {
    let mut fleet = Fleet::new();
    let first = fleet.add_task("scripts/sample");
    let second = fleet.add_task("scripts/sample");
    assert_eq!((&first["added"], &second["added"]), (&true.into(), &false.into()));
    assert_eq!(first["task"], second["task"], "the salt alone makes no other task");
    fleet.kill_coordinator();
    fleet.start_coordinator(&[]);
    assert_eq!(fleet.add_task("scripts/sample")["task"], first["task"]);
    assert_eq!(fleet.json(&["task", "list"]).as_array().map(Vec::len), Some(1));
    fleet.verify();
}

#[test]
fn many_who_bring_the_same_task_and_policy_at_once_make_one_entry_of_each() {
    let fleet = Fleet::new();
    fleet.add_task("scripts/sample-saxpy");
    let same = checkout().join("scripts/sample-saxpy/candidates/same.cu");
    let candidates: Vec<PathBuf> = (0..6)
        .map(|number| {
            let text = std::fs::read_to_string(&same).expect("a sample");
            fleet.write(&format!("same-{number}.cu"), format!("{text}\n// {number}\n").as_bytes())
        })
        .collect();
    std::thread::scope(|scope| {
        for candidate in &candidates {
            let fleet = &fleet;
            scope.spawn(move || {
                fleet.add_task("scripts/sample");
                fleet.json(&["submit", "saxpy-f32", &candidate.display().to_string(), "--on", CLASS]);
            });
        }
    });
    let kinds = fleet.verify()["report"]["kinds"].clone();
    assert_eq!((&kinds["task"], &kinds["policy"]), (&2.into(), &1.into()), "{kinds:#}");
}

#[test]
fn a_submission_is_known_and_can_be_followed_after_a_restart() {
    let mut fleet = Fleet::new();
    fleet.add_task("scripts/sample");
    let receipt = fleet.json(&["submit", "matmul-f32", &tiled(), "--on", CLASS])["receipt"].clone();
    let id = receipt["submission"].as_str().expect("an id").to_owned();
    fleet.kill_coordinator();
    fleet.start_coordinator(&[]);
    let cells = fleet.json(&["status", &id]);
    assert_eq!((cells[0]["state"].as_str(), cells[0]["name"].as_str()), (Some("queued"), Some("tiled")));
    assert!(http(&fleet, "POST", &format!("/v1/submissions/{id}/cancel")).contains("\"count\":1"));
    until("the cell to end", WITHIN, || (fleet.json(&["status", &id])[0]["state"] == "ended").then_some(()));
    fleet.kill_coordinator();
    fleet.start_coordinator(&[]);
    assert_eq!(fleet.json(&["status", &id])[0]["state"], "ended", "after it ended, too");
    for after in ["", "?after=1", "?after=57"] {
        let stream = http(&fleet, "GET", &format!("/v1/submissions/{id}/events{after}"));
        assert!(stream.starts_with("HTTP/1.1 200") && stream.contains("event: done"), "{after}: {stream}");
    }
    let nobody = format!("/v1/submissions/{}/events", "0".repeat(64));
    let unknown = http(&fleet, "GET", &nobody);
    assert!(
        unknown.starts_with("HTTP/1.1 404") && unknown.contains("submit/unknown-submission"),
        "{unknown}"
    );
    fleet.verify();
}

#[test]
fn a_waited_for_cell_without_a_verdict_is_exit_code_five() {
    let fleet = Fleet::new();
    fleet.add_task("scripts/sample");
    let nonce = "waited-for";
    let candidate = tiled();
    let arguments = ["submit", "matmul-f32", &candidate, "--on", CLASS, "--nonce", nonce];
    let id = fleet.json(&arguments)["receipt"]["submission"].as_str().expect("an id").to_owned();
    let output = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| fleet.muster(&[&arguments[..], &["--wait"]].concat()));
        assert!(http(&fleet, "POST", &format!("/v1/submissions/{id}/cancel")).contains("\"count\":1"));
        waiting.join().expect("the command ends")
    });
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nodes_are_told_that_the_coordinator_shuts_down() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    http(&fleet, "POST", "/v1/stop");
    until("the node to be told", WITHIN, || {
        fleet.nodes[0].log().contains("session/shutting-down").then_some(())
    });
    let checkpoint = std::fs::read_to_string(fleet.node_state(0).join("checkpoint")).expect("one was told");
    assert!(checkpoint.starts_with("muster.invalid/"), "{checkpoint}");
}
