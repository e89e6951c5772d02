//! What the ledger knows is not measured again; what is cancelled ends once; a draining node takes nothing.

use crate::{CLASS, PATIENCE};
use fleet_tests::fleet::Fleet;
use fleet_tests::saxpy;
use fleet_tests::wait::until;
use std::time::Instant;

#[test]
#[expect(clippy::disallowed_methods, reason = "how long an answer takes is what is asked")]
fn the_same_submission_again_is_answered_from_the_ledger() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let wrong = fleet.write("wrong.cu", saxpy::kernel("", "  if (i < n) z[i] = x[i];").as_bytes());
    let candidates = [saxpy::good_ones(&fleet, "again", 1), vec![wrong]].concat();
    let on = ["--on", CLASS];
    let first = fleet.submit("saxpy", &candidates, &on);
    let leaves: Vec<_> = first.iter().map(|cell| cell["index"].clone()).collect();
    let harness = fleet.record_of(&first[0])["statement"]["predicate"]["harness"].clone();
    let dirty = harness["dirty"].as_bool().expect("a flag");
    let before = fleet.book();

    let start = Instant::now();
    let receipt = fleet.try_submit("saxpy", &candidates, &on).expect("acknowledged");
    let took = start.elapsed();
    let cells = fleet.await_over(std::slice::from_ref(&receipt), PATIENCE);
    let again: Vec<_> = cells.iter().map(|cell| cell["index"].clone()).collect();
    if dirty {
        println!(
            "these nodes were built from a tree with changes, so their results answer nobody: {harness}"
        );
        assert_eq!(receipt.reused, 0);
        assert!(leaves.iter().all(|leaf| !again.contains(leaf)));
    } else {
        println!("two cells answered from the ledger, receipt included, in {took:?}");
        assert_eq!(receipt.reused, 2);
        assert_eq!(again, leaves);
        assert!(cells.iter().all(|cell| cell["reused"] == true && cell["attempts"] == 0), "{cells:#?}");
        assert_eq!(fleet.book().size, before.size, "answering from the ledger adds no entry");
    }
    let pace = &fleet.json(&["status"])["totals"]["pace"];
    assert_eq!(
        pace["experiments"],
        if dirty { 4 } else { 2 },
        "what was answered again is no experiment: {pace}"
    );

    let grants = fleet.book().grants.len();
    let fresh = fleet.submit("saxpy", &candidates, &["--on", CLASS, "--fresh"]);
    assert!(
        fresh.iter().all(|cell| cell["reused"] == false && !leaves.contains(&cell["index"])),
        "{fresh:#?}"
    );
    assert_eq!(fleet.book().grants.len(), grants + 2, "both were measured anew");
    fleet.verify();
}

#[test]
fn every_cell_of_a_cancelled_submission_has_one_final_entry() {
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let candidates = saxpy::good_ones(&fleet, "cancel", 6);
    let receipt = fleet.try_submit("saxpy", &candidates, &["--on", CLASS]).expect("acknowledged");
    until("a cell to run", PATIENCE, || {
        let cells = fleet.cells(&receipt.submission)?;
        cells.iter().any(|cell| cell["state"] == "running").then_some(())
    });
    let answer = fleet.post(&format!("/v1/submissions/{}/cancel", receipt.submission));
    assert!(answer["count"].as_u64().is_some_and(|count| (1..=6).contains(&count)), "{answer}");
    let cells = fleet.await_over(std::slice::from_ref(&receipt), PATIENCE);
    assert!(cells.iter().any(|cell| cell["state"] == "ended" && cell["detail"] == "cancelled"), "{cells:#?}");
    let book = fleet.book();
    let finals = book.finals();
    for cell in &receipt.cells {
        assert_eq!(finals.get(cell), Some(&1), "{finals:?}");
    }
    let again = fleet.post(&format!("/v1/submissions/{}/cancel", receipt.submission));
    assert_eq!(again["count"], 0, "nothing is left to cancel");
    // The cancelled job is gone, and the device with it free again, also for a coordinator that starts anew.
    fleet.kill_coordinator();
    fleet.start_coordinator(&[]);
    fleet.await_ready(1);
    let next = fleet.submit("saxpy", &saxpy::good_ones(&fleet, "next", 1), &["--on", CLASS]);
    assert_eq!(next[0]["state"], "finished", "{next:#?}");
    assert_eq!(fleet.cells(&receipt.submission).expect("cells").len(), 6);
    fleet.verify();
}

#[test]
fn a_draining_node_takes_no_work_until_it_is_resumed() {
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    fleet.json(&["node", "drain", "node-0"]);
    let candidates = saxpy::good_ones(&fleet, "drain", 1);
    let receipt = fleet.try_submit("saxpy", &candidates, &["--on", CLASS]).expect("acknowledged");
    fleet.kill_coordinator();
    fleet.start_coordinator(&[]);
    let drained = until("the draining node to be back", PATIENCE, || {
        let cells = fleet.cells(&receipt.submission)?;
        cells[0]["detail"].as_str()?.contains("1 draining").then(|| cells[0].clone())
    });
    assert_eq!(drained["state"], "queued", "a drain outlives a restart: {drained:#}");
    assert!(fleet.book().grants.is_empty());
    fleet.json(&["node", "drain", "node-0", "--resume"]);
    let cells = fleet.await_over(&[receipt], PATIENCE);
    assert_eq!(cells[0]["state"], "finished", "{cells:#?}");
    fleet.verify();
}

#[test]
fn a_source_of_windows_is_accepted() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let text = format!("\u{feff}{}", saxpy::good().replace('\n', "\r\n"));
    let path = fleet.write("windows.cu", text.as_bytes());
    let cells = fleet.submit("saxpy", &[path], &["--on", CLASS]);
    let record = fleet.record_of(&cells[0]);
    assert_eq!(record["statement"]["predicate"]["outcome"]["status"], "ok", "{record:#}");
}
