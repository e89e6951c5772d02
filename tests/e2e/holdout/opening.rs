//! Openings of a holdout are counted exactly once, wherever the coordinator dies while one is granted or judged.

use crate::{CLASS, PATIENCE};
use fleet_tests::fleet::Fleet;
use fleet_tests::process::{Process, honour_faults};
use fleet_tests::saxpy;
use fleet_tests::wait::until;
use std::collections::BTreeSet;

/// Points at which the coordinator dies once a verification was asked for, from its first fact to its verdict.
const FAULTS: [&str; 9] = [
    "journal-before-write:1",
    "journal-after-sync:1",
    "journal-before-write:2",
    "journal-after-sync:2",
    "wal-before-write:1",
    "wal-after-write:1",
    "wal-after-sync:1",
    "wal-before-write:2",
    "wal-after-sync:2",
];

/// A fleet with a sealed task and the record of a result that may be verified.
fn sealed_fleet() -> (Fleet, String) {
    let fleet = Fleet::with_nodes(&[CLASS]);
    let sealed =
        "[[holdout.case]]\nname = \"sealed\"\nkind = \"correctness\"\ndims = { n = 3001 }\n\n[tolerance]";
    let folder = saxpy::task_with(&fleet, "sealed-saxpy", &[("[tolerance]", sealed)]);
    fleet.json(&["task", "add", folder.to_str().expect("UTF-8")]);
    let honest = saxpy::good_ones(&fleet, "honest", 1);
    let cells = fleet.submit("sealed-saxpy", &honest, &["--on", CLASS]);
    let record = fleet.record_of(&cells[0])["record"].as_str().expect("an id").to_owned();
    (fleet, record)
}

/// Asks for verifications until the coordinator, told to die at `fault`, is dead.
fn verify_until_dead(fleet: &mut Fleet, record: &str, fault: &str) {
    fleet.kill_coordinator();
    if fleet.try_start_coordinator(&[("MUSTER_FAULT", fault)]).is_some() {
        return;
    }
    let mut coordinator = fleet.coordinator.take().expect("it was started");
    let state = fleet.state();
    let arguments = ["--state", state.to_str().expect("UTF-8"), "verify-candidate", record];
    let ask = || Process::start("muster", &arguments, &fleet.path("verify.log"), &[]);
    let mut asking = ask();
    until(&format!("the coordinator to die at {fault}"), PATIENCE, || {
        if asking.ended().is_some() && coordinator.ended().is_none() {
            asking = ask();
        }
        coordinator.ended()
    });
}

fn await_idle(fleet: &Fleet) {
    until("the fleet to be idle", PATIENCE, || {
        (fleet.try_json(&["status"])?["totals"]["submissions_open"] == 0).then_some(())
    });
}

/// Openings are numbered without a gap, each is for one attempt that was granted after it, and every cell ended once.
fn assert_counted_once(fleet: &Fleet) -> usize {
    let book = fleet.book();
    let numbers: Vec<u64> = book.opened.iter().map(|(_, opened)| opened.opening).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<u64>>());
    let attempts: BTreeSet<_> = book.opened.iter().map(|(_, opened)| (opened.cell, opened.fence)).collect();
    assert_eq!(attempts.len(), numbers.len(), "an attempt was counted twice: {:?}", book.opened);
    for (leaf, opened) in &book.opened {
        let grants = book.grants.iter().filter(|(_, grant)| grant.fence == opened.fence);
        let after: Vec<u64> = grants.map(|(granted, _)| *granted).collect();
        assert!(matches!(after.as_slice(), [granted] if leaf < granted), "{opened:?}: granted in {after:?}");
    }
    for (_, _, verification) in &book.verifications {
        let attempt = (verification.result.cell, verification.result.fence);
        assert!(attempts.contains(&attempt), "judged without being counted: {verification:?}");
    }
    book.assert_settled(&[]);
    assert!(book.refused.is_empty(), "{:?}", book.refused);
    fleet.verify();
    numbers.len()
}

#[test]
fn a_coordinator_killed_while_it_opens_a_holdout_counts_each_opening_once_and_ends_each_cell_once() {
    if !honour_faults() {
        println!("SKIPPED: these binaries know no fault points; build them without --release");
        return;
    }
    let (mut fleet, record) = sealed_fleet();
    for fault in FAULTS {
        verify_until_dead(&mut fleet, &record, fault);
        fleet.start_coordinator(&[]);
        fleet.await_ready(1);
        await_idle(&fleet);
        println!("{fault}: {} openings so far", assert_counted_once(&fleet));
    }
    let book = fleet.book();
    assert!(!book.verifications.is_empty() && book.verifications.len() <= book.opened.len());
}

#[test]
fn a_write_that_was_torn_between_an_opening_and_its_grant_is_not_counted_twice() {
    if !honour_faults() {
        println!("SKIPPED: these binaries know no fault points; build them without --release");
        return;
    }
    let (mut fleet, record) = sealed_fleet();
    verify_until_dead(&mut fleet, &record, "wal-after-sync:1");
    let before = fleet.book();
    let granted = before.grants.iter().filter(|(_, grant)| grant.fence == before.opened[0].1.fence).count();
    assert_eq!((before.opened.len(), granted), (1, 1), "the batch that opens it is in the log");
    // As a disk that lost its power leaves it: the frame of the grant is the last one, and lacks its end.
    let wal = fleet.state().join("ledger/.state/wal");
    let length = std::fs::metadata(&wal).expect("the write-ahead log").len();
    let file = std::fs::File::options().write(true).open(&wal).expect("it can be opened");
    file.set_len(length - 1).expect("it can be cut");
    let torn = fleet.book();
    assert_eq!((torn.opened.len(), torn.grants.len()), (1, before.grants.len() - 1));
    fleet.start_coordinator(&[]);
    fleet.await_ready(1);
    await_idle(&fleet);
    assert_eq!(assert_counted_once(&fleet), 1);
    assert_eq!(fleet.book().verifications.len(), 1);
}
