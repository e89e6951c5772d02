//! A node that is trusted no more: it is let go, what it signs is refused, and rankings show what falls with it.

use crate::{CLASS, PATIENCE};
use fleet_tests::fleet::Fleet;
use fleet_tests::saxpy;
use fleet_tests::wait::until;
use serde_json::Value;

fn state_of(fleet: &Fleet, name: &str) -> Option<String> {
    let nodes = fleet.try_json(&["node", "list"])?;
    let node = nodes.as_array()?.iter().find(|node| node["name"] == name)?;
    Some(node["state"].as_str()?.to_owned())
}

fn ranked(ranking: &Value, list: &str) -> Vec<String> {
    let tables = ranking["tables"].as_array().expect("tables").iter();
    let lines = tables.flat_map(|table| table[list].as_array().cloned().unwrap_or_default());
    let names = lines.filter_map(|line| line["name"].as_str().map(str::to_owned));
    names.filter(|name| name != "baseline").collect()
}

#[test]
fn what_a_revoked_node_measured_falls_from_the_suspected_entry_on_and_it_is_let_in_no_more() {
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let early = fleet.submit("saxpy", &saxpy::good_ones(&fleet, "early", 1), &["--on", CLASS]);
    let late = fleet.submit("saxpy", &saxpy::good_ones(&fleet, "late", 1), &["--on", CLASS]);
    let suspected = late[0]["index"].as_u64().expect("a leaf");
    assert!(suspected > early[0]["index"].as_u64().expect("a leaf"));
    let before = fleet.json(&["rank", "saxpy"]);
    let size = fleet.book().size.to_string();

    let from = suspected.to_string();
    let reason = "its clock was changed";
    let revoked = fleet.json(&["node", "revoke", "node-0", "--suspect-from", &from, "--reason", reason]);
    assert_eq!(revoked["fallen"].as_array().map(Vec::len), Some(1), "{revoked:#}");
    let after = fleet.json(&["rank", "saxpy"]);
    assert_eq!(ranked(&after, "rows"), ["early-000"], "{after:#}");
    assert_eq!(ranked(&after, "fallen"), ["late-000"]);
    let output = fleet.muster(&["rank", "saxpy"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(reason) && text.contains("[node/revoked]"), "{text}");
    assert_eq!(fleet.json(&["rank", "saxpy", "--as-of", &size])["tables"], before["tables"]);

    // The node itself was told to go, and is refused when it comes back.
    let status = until("the node to end", PATIENCE, || fleet.nodes[0].ended());
    assert_eq!(status.code(), Some(3), "{}", fleet.log("node-0.log"));
    let mut again = fleet.start_node(0, CLASS, &[]);
    let status = until("the node to be refused", PATIENCE, || again.ended());
    assert_eq!(status.code(), Some(3));
    assert!(fleet.log("node-0.log").contains("join/revoked"), "{}", fleet.log("node-0.log"));
    assert_eq!(state_of(&fleet, "node-0").as_deref(), Some("revoked"));
    let twice = fleet.refusal(&["node", "revoke", "node-0", "--suspect-from", "0", "--reason", "again"]);
    assert_eq!(twice["code"], "entry/field", "{twice:#}");

    // A coordinator that starts anew knows it from the ledger, and another node measures again what fell.
    fleet.kill_coordinator();
    fleet.start_coordinator(&[]);
    let mut again = fleet.start_node(0, CLASS, &[]);
    let status = until("the node to be refused again", PATIENCE, || again.ended());
    assert_eq!(status.code(), Some(3));
    fleet.nodes.remove(0);
    let invite = fleet.json(&["node", "invite"])["text"].as_str().expect("an invite").to_owned();
    std::fs::write(fleet.path("invite-1"), invite).expect("the invite can be noted");
    let process = fleet.start_node(1, CLASS, &[]);
    fleet.nodes.push(process);
    until("the other node to be ready", PATIENCE, || {
        state_of(&fleet, "node-1").filter(|state| state == "ready").map(drop)
    });
    let receipt =
        fleet.try_submit("saxpy", &[fleet.path("late-000.cu")], &["--on", CLASS]).expect("acknowledged");
    assert_eq!(receipt.reused, 0, "what fell answers nobody");
    fleet.await_over(&[receipt], PATIENCE);
    let mut names = ranked(&fleet.json(&["rank", "saxpy"]), "rows");
    names.sort();
    assert_eq!(names, ["early-000", "late-000"]);
    fleet.verify();
}

#[test]
fn a_removed_node_leaves_what_it_measured() {
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    fleet.submit("saxpy", &saxpy::good_ones(&fleet, "kept", 1), &["--on", CLASS]);
    let before = fleet.json(&["rank", "saxpy"]);
    let removed = fleet.json(&["node", "remove", "node-0"]);
    assert_eq!(removed["fallen"], serde_json::json!([]), "{removed:#}");
    assert_eq!(fleet.json(&["rank", "saxpy"])["tables"], before["tables"]);
    until("the node to end", PATIENCE, || fleet.nodes[0].ended());
    let unknown = fleet.refusal(&["node", "remove", "nobody"]);
    assert_eq!(unknown["code"], "node/unknown-node");
    fleet.verify();
}

/// A candidate that is right and takes its time, so that its node is let go meanwhile.
fn slow() -> String {
    let wait = "  volatile float kept = 0; for (int k = 0; k < 30000; k++) kept += 1.0f;\n";
    saxpy::kernel("", &format!("{wait}{}", saxpy::RIGHT))
}

#[test]
fn an_attempt_of_a_node_that_is_revoked_while_it_runs_goes_to_another_and_counts_once() {
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let candidates = [fleet.write("slow.cu", slow().as_bytes())];
    let receipt = fleet.try_submit("saxpy", &candidates, &["--on", CLASS]).expect("acknowledged");
    until("the cell to run", PATIENCE, || {
        let cells = fleet.cells(&receipt.submission)?;
        (cells[0]["state"] == "running" && cells[0]["detail"] != "compile").then_some(())
    });
    fleet.json(&["node", "revoke", "node-0", "--suspect-from", "0", "--reason", "seen by a camera"]);
    until("the node to end", PATIENCE, || fleet.nodes[0].ended());
    // Resuming what was revoked gives it nothing back.
    fleet.muster(&["node", "drain", "node-0", "--resume"]);
    let mut again = fleet.start_node(0, CLASS, &[]);
    let status = until("the node to be refused", PATIENCE, || again.ended());
    assert_eq!(status.code(), Some(3));
    fleet.nodes.remove(0);
    let invite = fleet.json(&["node", "invite"])["text"].as_str().expect("an invite").to_owned();
    std::fs::write(fleet.path("invite-1"), invite).expect("the invite can be noted");
    let process = fleet.start_node(1, CLASS, &[]);
    fleet.nodes.push(process);
    let cells = fleet.await_over(std::slice::from_ref(&receipt), PATIENCE);
    assert_eq!(fleet.record_of(&cells[0])["statement"]["predicate"]["outcome"]["status"], "ok");
    let book = fleet.book();
    book.assert_settled(&receipt.cells);
    let signers: Vec<_> = book.results.iter().map(|(_, _, result)| result.node).collect();
    let granted: Vec<_> = book.grants.iter().map(|(_, grant)| grant.node).collect();
    assert_eq!((granted.len(), book.lost.len(), signers.len()), (2, 1, 1));
    assert_eq!(signers[0], granted[1], "the second node's result counts");
    assert_ne!(granted[0], granted[1]);
    fleet.verify();
}

#[test]
fn a_node_that_is_away_can_be_revoked_and_what_cannot_be_is_refused_and_changes_nothing() {
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let code = |fleet: &Fleet, arguments: &[&str]| {
        fleet.refusal(arguments)["code"].as_str().expect("a code").to_owned()
    };
    let revoke = |node: &'static str, reason: &'static str| {
        ["node", "revoke", node, "--suspect-from", "0", "--reason", reason]
    };
    assert_eq!(code(&fleet, &revoke("", "nobody")), "node/unknown-node");
    assert_eq!(code(&fleet, &revoke("node-1", "nobody")), "node/unknown-node");
    assert_eq!(code(&fleet, &revoke("node-0", "")), "node/revoke-reason");
    assert_eq!(code(&fleet, &revoke("node-0", " \u{1b}\n ")), "node/revoke-reason");
    assert_eq!(state_of(&fleet, "node-0").as_deref(), Some("ready"), "a refusal drains nobody");
    fleet.submit("saxpy", &saxpy::good_ones(&fleet, "before", 1), &["--on", CLASS]);

    fleet.nodes.remove(0);
    fleet.kill_coordinator();
    fleet.start_coordinator(&[]);
    let reason = format!("\u{1b}[2Jaway{}", "y".repeat(5000));
    let revoked = fleet.json(&[
        "node",
        "revoke",
        "node-0",
        "--suspect-from",
        "18446744073709551615",
        "--reason",
        &reason,
    ]);
    assert_eq!(revoked["fallen"], serde_json::json!([]), "beyond the end of the log nothing is suspected");
    assert_eq!(state_of(&fleet, "node-0").as_deref(), Some("revoked"));
    let mut again = fleet.start_node(0, CLASS, &[]);
    assert_eq!(until("the node to be refused", PATIENCE, || again.ended()).code(), Some(3));
    let shown = fleet.muster(&["show", &revoked["leaf"].to_string()]);
    assert!(!shown.stdout.contains(&0x1b) && shown.stdout.len() < 5000, "{shown:?}");
    fleet.verify();
}
