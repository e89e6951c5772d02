//! Nodes and coordinators are killed at the worst moments: every accepted cell still ends with exactly one record.

use crate::{CLASS, PATIENCE};
use fleet_tests::fleet::{Fleet, Receipt};
use fleet_tests::process::{Process, Signal, honour_faults};
use fleet_tests::saxpy;
use fleet_tests::wait::until;
use std::collections::BTreeSet;

/// Points of the coordinator, each with how often it is passed before the process dies there.
const COORDINATOR_FAULTS: [&str; 13] = [
    "journal-before-write:2",
    "journal-after-write:2",
    "journal-after-sync:2",
    "wal-before-write:2",
    "wal-after-write:3",
    "wal-after-sync:2",
    "integrate-before-bundles:2",
    "integrate-after-bundles:2",
    "integrate-after-tiles:2",
    "integrate-before-checkpoint:2",
    "integrate-after-checkpoint:2",
    "wal-before-trim:2",
    "wal-after-trim:2",
];

/// Records that the node of `log` signed.
fn signed(log: &str) -> Vec<String> {
    let lines = log.lines().filter(|line| line.contains("attempt signed"));
    let record = |line: &str| {
        let (_, rest) = line.split_once("record=")?;
        Some(rest.split_whitespace().next()?.to_owned())
    };
    lines.map(|line| record(&plain(line)).unwrap_or_else(|| panic!("no record in: {line}"))).collect()
}

/// A line without the colours of a terminal.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            for skipped in characters.by_ref() {
                if skipped.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            text.push(character);
        }
    }
    text
}

/// Every promise that a node holds names a record that the ledger has at that place.
fn assert_promises_kept(fleet: &Fleet, node: usize) -> usize {
    let book = fleet.book();
    let mut count = 0;
    for shelf in std::fs::read_dir(fleet.node_state(node).join("promises")).expect("promises") {
        for file in std::fs::read_dir(shelf.expect("an entry").path()).expect("a folder") {
            let path = file.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a promise");
            let promise: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let index = promise["verdict"]["accepted"]["index"].as_u64().expect("accepted");
            let record = promise["record"].as_str().expect("a record");
            let kept = book.results.iter().any(|(leaf, id, _)| *leaf == index && id == record);
            assert!(kept, "the promise {text} is broken");
            count += 1;
        }
    }
    count
}

#[test]
fn a_node_killed_between_timing_and_report_leaves_one_record_for_each_cell() {
    if !honour_faults() {
        println!("SKIPPED: these binaries know no fault points; build them without --release");
        return;
    }
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let (mut receipts, mut known) = (Vec::new(), 0);
    for fault in ["node-before-outbox:1", "node-after-outbox:1", "node-after-acknowledgement:1"] {
        fleet.restart_node(0, CLASS, &[("MUSTER_FAULT", fault)]);
        let candidates = saxpy::good_ones(&fleet, fault.trim_end_matches(":1"), 2);
        let receipt = fleet.try_submit("saxpy", &candidates, &["--on", CLASS]).expect("acknowledged");
        until(&format!("the node to die at {fault}"), PATIENCE, || fleet.nodes[0].ended());
        fleet.restart_node(0, CLASS, &[]);
        fleet.await_over(std::slice::from_ref(&receipt), PATIENCE);
        let book = fleet.book();
        book.assert_settled(&receipt.cells);
        // What the node had kept was not done again; what it had not kept was, once.
        let all = signed(&fleet.log("node-0.log")).len();
        let expected = if fault.starts_with("node-before") { 3 } else { 2 };
        assert_eq!(all - known, expected, "signed records for two cells with {fault}");
        known = all;
        receipts.push(receipt);
    }
    for receipt in &receipts {
        for cell in fleet.cells(&receipt.submission).expect("cells") {
            assert_eq!(fleet.record_of(&cell)["statement"]["predicate"]["outcome"]["status"], "ok");
        }
    }
    let book = fleet.book();
    assert!(book.refused.is_empty());
    assert_eq!(book.results.len(), 6);
    assert_eq!(assert_promises_kept(&fleet, 0), 6);
    fleet.verify();
}

#[test]
fn a_node_killed_while_it_compiles_starts_its_cell_again() {
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let candidates = saxpy::good_ones(&fleet, "compile", 2);
    let receipt = fleet.try_submit("saxpy", &candidates, &["--on", CLASS]).expect("acknowledged");
    for _ in 0..2 {
        until("a cell to be compiled", PATIENCE, || {
            let cells = fleet.cells(&receipt.submission)?;
            cells.iter().any(|cell| cell["state"] == "running" && cell["detail"] == "compile").then_some(())
        });
        fleet.restart_node(0, CLASS, &[]);
    }
    let cells = fleet.await_over(std::slice::from_ref(&receipt), PATIENCE);
    for cell in &cells {
        assert_eq!(fleet.record_of(cell)["statement"]["predicate"]["outcome"]["status"], "ok");
    }
    let book = fleet.book();
    book.assert_settled(&receipt.cells);
    assert!(!book.lost.is_empty(), "no attempt was lost, so the node was not killed in the middle of one");
    fleet.verify();
}

/// Keeps cells queued until the coordinator of `fleet` is dead; answers with what was acknowledged on the way.
fn feed_until_dead(fleet: &mut Fleet, name: &str, process: &mut Process) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    let mut round = 0;
    until(&format!("the coordinator to die at {name}"), PATIENCE, || {
        if process.ended().is_some() {
            return Some(());
        }
        let open = fleet.try_json(&["status"])?["totals"]["submissions_open"].as_u64()?;
        if open == 0 {
            round += 1;
            let candidates = saxpy::good_ones(fleet, &format!("{name}-{round}").replace(':', "-"), 2);
            receipts.extend(fleet.try_submit("saxpy", &candidates, &["--on", CLASS]));
        }
        None
    });
    receipts
}

/// What must hold after any number of deaths of the coordinator beside a node that lived.
fn assert_nothing_lost_and_nothing_repeated(fleet: &Fleet, receipts: &[Receipt]) {
    let cells = fleet.await_over(receipts, PATIENCE);
    let accepted: BTreeSet<String> = receipts.iter().flat_map(|receipt| receipt.cells.clone()).collect();
    assert_eq!(cells.len(), accepted.len());
    for cell in &cells {
        assert_eq!(cell["state"], "finished", "{cell:#}");
    }
    // Submissions that were accepted while the answer was lost go on as well; they are waited for too.
    until("the fleet to be idle", PATIENCE, || {
        (fleet.try_json(&["status"])?["totals"]["submissions_open"] == 0).then_some(())
    });
    let book = fleet.book();
    book.assert_settled(&accepted);
    assert!(book.refused.is_empty(), "results were refused: {:?}", book.refused);
    let signed = signed(&fleet.log("node-0.log"));
    let distinct: BTreeSet<&String> = signed.iter().collect();
    assert_eq!(signed.len(), distinct.len());
    assert_eq!(signed.len(), book.results.len(), "the living node did some work twice or a result was lost");
    assert_eq!(book.results.len(), book.finals().len());
    assert_promises_kept(fleet, 0);
    fleet.verify();
}

#[test]
fn a_coordinator_killed_at_every_fault_point_loses_nothing_and_repeats_nothing() {
    if !honour_faults() {
        println!("SKIPPED: these binaries know no fault points; build them without --release");
        return;
    }
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let candidates = saxpy::good_ones(&fleet, "fault", 24);
    let mut receipts = vec![fleet.try_submit("saxpy", &candidates, &["--on", CLASS]).expect("acknowledged")];
    for fault in COORDINATOR_FAULTS {
        fleet.kill_coordinator();
        if fleet.try_start_coordinator(&[("MUSTER_FAULT", fault)]).is_none() {
            let mut process = fleet.coordinator.take().expect("it was started");
            receipts.extend(feed_until_dead(&mut fleet, fault, &mut process));
        }
        assert!(fleet.log("coordinator.log").contains("fault point reached"), "{fault} did not fire");
    }
    fleet.start_coordinator(&[]);
    assert_nothing_lost_and_nothing_repeated(&fleet, &receipts);
    let dead =
        fleet.log("coordinator.log").lines().filter(|line| line.contains("fault point reached")).count();
    assert_eq!(dead, COORDINATOR_FAULTS.len());
}

#[test]
fn a_coordinator_killed_at_random_moments_loses_nothing_and_repeats_nothing() {
    const SEED: u64 = 0x5eed_0002;
    println!("seed {SEED:#x}");
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let candidates = saxpy::good_ones(&fleet, "random", 12);
    let receipt = fleet.try_submit("saxpy", &candidates, &["--on", CLASS]).expect("acknowledged");
    let mut random = SEED;
    let mut finished_before = 0;
    for _ in 0..4 {
        // splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^= mixed >> 27;
        // The moment is a number of looks at the state after some progress: no clock decides it.
        let mut looks = mixed % 40;
        until("some progress", PATIENCE, || {
            let cells = fleet.cells(&receipt.submission)?;
            let finished = cells.iter().filter(|cell| cell["state"] == "finished").count();
            looks = looks.saturating_sub(1);
            (finished > finished_before && looks == 0 || finished == cells.len())
                .then(|| finished_before = finished)
        });
        let coordinator = fleet.coordinator.take().expect("it runs");
        coordinator.signal(Signal::Kill);
        drop(coordinator);
        fleet.start_coordinator(&[]);
    }
    assert_nothing_lost_and_nothing_repeated(&fleet, &[receipt]);
}
