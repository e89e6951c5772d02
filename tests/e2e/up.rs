//! `muster up` and `muster down`: what they start, find, end and count, and whom they leave alone.

use crate::CLASS;
use fleet_tests::local::{Local, coordinator_of, node_of, start_time};
use fleet_tests::process::{Process, Signal, runs, send};
use fleet_tests::wait::until;
use std::net::UdpSocket;
use std::time::Duration;

/// How long processes may take on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

const UP: [&str; 3] = ["up", "--level", CLASS];

/// What `up --level CLASS` calls its node.
const NODE: &str = "cpu-x86-64-v2";

/// A process of the house in a folder of its own, to be left alone.
fn stranger(local: &Local, name: &str) -> Process {
    let state = local.path(name);
    let arguments = ["--state", state.to_str().expect("UTF-8"), "--listen", "127.0.0.1:0"];
    let mut process =
        Process::start("muster-coordinator", &arguments, &local.path(&format!("{name}.log")), &[]);
    until("the stranger to run", WITHIN, || {
        assert!(process.ended().is_none(), "{}", process.log());
        state.join("coordinator.json").exists().then_some(())
    });
    process
}

#[test]
fn up_starts_what_is_missing_and_down_ends_what_runs() {
    let local = Local::new();
    let first = local.done(&UP);
    assert_eq!((&first["coordinator"], &first["own"][0]["begun"]), (&"started".into(), &"started".into()));
    let (coordinator, node) = (coordinator_of(&first), node_of(&first, 0));
    assert!(runs(coordinator) && runs(node));

    for again in [&UP[..], &["up"]] {
        let second = local.done(again);
        assert_eq!((&second["coordinator"], &second["own"][0]["begun"]), (&"found".into(), &"found".into()));
        assert_eq!(
            (coordinator_of(&second), node_of(&second, 0)),
            (coordinator, node),
            "nothing new was started"
        );
        assert_eq!(second["nodes"].as_array().map(Vec::len), Some(1));
    }
    let text = String::from_utf8_lossy(&local.muster(&["up"]).stdout).into_owned();
    assert!(
        text.contains("coordinator runs already") && text.contains(&format!("node {NODE} runs already")),
        "{text}"
    );

    assert_eq!(local.done(&["down"]), serde_json::json!({"coordinator": true, "nodes": 1}));
    assert!(!runs(coordinator) && !runs(node));
    assert_eq!(local.refused(&["down"]), (3, "coordinator/not-running".to_owned()));

    let third = local.done(&["up"]);
    assert_eq!(third["own"][0]["node"], first["own"][0]["node"], "the node of before, by its key");
    assert_eq!(third["nodes"].as_array().map(Vec::len), Some(1), "{third:#}");
    assert_eq!(third["summary"]["bound"], first["summary"]["bound"], "nodes find it where it was");
    assert_ne!(node_of(&third, 0), node);
    let text = String::from_utf8_lossy(&local.muster(&["down"]).stdout).into_owned();
    assert_eq!(text, "stopped the coordinator and 1 node; the state folder keeps everything\n");
}

#[test]
fn a_running_coordinator_is_not_asked_to_listen_elsewhere() {
    let local = Local::new();
    let first = local.done(&["up", "--no-node"]);
    let bound = first["summary"]["bound"].as_str().expect("an address").to_owned();
    // Its port with the last digit cut off is another port, though its text is part of the first.
    let shorter = &bound[..bound.len() - 1];
    let free = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").to_string();
    for other in [shorter, &free, "192.0.2.1:0"] {
        let refused = local.refused(&["up", "--no-node", "--listen", other]);
        assert_eq!(refused, (1, "up/listens-elsewhere".to_owned()), "{other}");
    }
    let advertised = ["up", "--no-node", "--advertise", "lab.example:4460"];
    assert_eq!(local.refused(&advertised).1, "up/listens-elsewhere");
    for same in [bound.as_str(), "127.0.0.1:0"] {
        let again = local.done(&["up", "--no-node", "--listen", same]);
        assert_eq!(coordinator_of(&again), coordinator_of(&first));
    }
}

#[test]
fn a_node_of_elsewhere_with_the_same_name_is_neither_own_nor_ended() {
    let local = Local::new();
    local.done(&["up", "--no-node"]);
    let invite = local.done(&["node", "invite"])["text"].as_str().expect("an invite").to_owned();
    std::fs::write(local.path("invite"), invite).expect("the invite can be noted");
    let (state, file) = (local.path("elsewhere"), local.path("invite"));
    let (state, file) = (state.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
    let arguments = ["run", "--state", state, "--name", NODE, "--invite-file", file, "--level", CLASS];
    let mut elsewhere = Process::start("muster-node", &arguments, &local.path("elsewhere.log"), &[]);
    until("the node to be ready", WITHIN, || {
        assert!(elsewhere.ended().is_none(), "{}", elsewhere.log());
        (local.done(&["node", "list"])[0]["state"] == "ready").then_some(())
    });
    let stranger = local.done(&["node", "list"])[0]["node"].clone();

    let up = local.done(&UP);
    assert_eq!(up["own"].as_array().map(Vec::len), Some(1));
    assert_eq!((&up["own"][0]["name"], &up["own"][0]["begun"]), (&NODE.into(), &"started".into()));
    assert_ne!(up["own"][0]["node"], stranger);
    let own = up["nodes"].as_array().expect("nodes").iter().find(|node| node["node"] == up["own"][0]["node"]);
    assert_eq!(own.map(|node| &node["state"]), Some(&"ready".into()), "up waited for its own node: {up:#}");
    let text = String::from_utf8_lossy(&local.muster(&UP).stdout).into_owned();
    assert!(text.contains("1 further node of this fleet ready"), "{text}");

    assert_eq!(local.done(&["down"])["nodes"], 1);
    assert!(elsewhere.ended().is_none(), "{}", elsewhere.log());
}

#[test]
fn down_counts_what_it_ended_itself() {
    let local = Local::new();
    let up = local.done(&UP);
    local.kill(node_of(&up, 0));
    assert_eq!(local.done(&["down"]), serde_json::json!({"coordinator": true, "nodes": 0}));

    let up = local.done(&["up"]);
    local.kill(coordinator_of(&up));
    assert_eq!(local.done(&["down"]), serde_json::json!({"coordinator": false, "nodes": 1}));
    assert!(!runs(node_of(&up, 0)));
    assert_eq!(local.refused(&["down"]), (3, "coordinator/not-running".to_owned()));
}

#[test]
fn a_killed_node_is_started_again_by_up() {
    let local = Local::new();
    let first = local.done(&UP);
    local.kill(node_of(&first, 0));
    let second = local.done(&["up"]);
    assert_eq!((&second["coordinator"], &second["own"][0]["begun"]), (&"found".into(), &"started".into()));
    assert_eq!(second["own"][0]["node"], first["own"][0]["node"]);
    assert!(runs(node_of(&second, 0)));
}

#[test]
fn a_process_that_came_by_the_id_of_a_node_is_left_alone() {
    let local = Local::new();
    let mut stranger = stranger(&local, "stranger");
    let id = stranger.id();
    let up = local.done(&UP);
    let pid = local.state().join("nodes").join(NODE).join("pid");
    local.kill(node_of(&up, 0));
    for stale in [format!("{id} {}\n", start_time(id) - 1), format!("{id}\n"), "0 0\n".to_owned()] {
        std::fs::write(&pid, &stale).expect("a file can be written");
        assert_eq!(local.done(&["down"]), serde_json::json!({"coordinator": true, "nodes": 0}), "{stale}");
        assert!(stranger.ended().is_none(), "{stale}: {}", stranger.log());
        std::fs::write(&pid, &stale).expect("a file can be written");
        let up = local.done(&["up"]);
        assert_eq!(up["own"][0]["begun"], "started", "{stale}: the stranger is no node");
        local.kill(node_of(&up, 0));
    }
    assert!(stranger.ended().is_none(), "{}", stranger.log());
}

#[test]
fn two_folders_side_by_side_leave_each_other_alone() {
    let (left, right) = (Local::new(), Local::new());
    let (up_left, up_right) = (left.done(&UP), right.done(&UP));
    assert_ne!(up_left["summary"]["origin"], up_right["summary"]["origin"]);
    assert_eq!(left.done(&["down"]), serde_json::json!({"coordinator": true, "nodes": 1}));
    assert!(!runs(coordinator_of(&up_left)) && !runs(node_of(&up_left, 0)));
    let again = right.done(&UP);
    assert_eq!(again["own"][0]["begun"], "found");
    assert_eq!(
        (coordinator_of(&again), node_of(&again, 0)),
        (coordinator_of(&up_right), node_of(&up_right, 0))
    );
    assert_eq!(again["nodes"][0]["state"], "ready");
    assert_eq!(left.refused(&["down"]).1, "coordinator/not-running");
    assert_eq!(right.done(&["down"]), serde_json::json!({"coordinator": true, "nodes": 1}));
}

#[test]
fn two_ups_at_once_start_one_coordinator_and_one_node() {
    let local = Local::new();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| local.done(&UP)));
        both.into_iter().map(|up| up.join().expect("it ends")).collect()
    });
    assert_eq!(coordinator_of(&answers[0]), coordinator_of(&answers[1]));
    assert_eq!(node_of(&answers[0], 0), node_of(&answers[1], 0));
    assert_eq!(local.done(&["down"]), serde_json::json!({"coordinator": true, "nodes": 1}));
}

#[test]
fn a_node_that_does_not_end_is_told_and_not_forgotten() {
    let local = Local::new();
    let up = local.done(&UP);
    let node = node_of(&up, 0);
    send(node, Signal::Stop);
    assert_eq!(local.refused(&["down"]), (1, "down/lingers".to_owned()));
    assert!(runs(node) && !runs(coordinator_of(&up)));
    assert!(local.state().join("nodes").join(NODE).join("pid").exists());
    // It was asked to end while it slept.
    send(node, Signal::Continue);
    until("the node to end", WITHIN, || (!runs(node)).then_some(()));
    assert_eq!(local.refused(&["down"]), (3, "coordinator/not-running".to_owned()));
}

#[test]
fn up_in_a_folder_of_something_else_is_refused_and_changes_nothing() {
    let local = Local::new();
    std::fs::create_dir(local.state()).expect("a folder can be made");
    std::fs::write(local.state().join("thesis.tex"), "x").expect("a file can be written");
    assert_eq!(local.refused(&UP).1, "state/not-a-state-folder");
    assert_eq!(local.refused(&["down"]).1, "coordinator/not-running");
    let names: Vec<_> = std::fs::read_dir(local.state()).expect("a folder").flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}
