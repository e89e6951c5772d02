//! A node that sleeps past its lease comes back with a result that may not count any more.

use crate::{CLASS, PATIENCE};
use fleet_tests::fleet::Fleet;
use fleet_tests::process::{Signal, honour_faults, state_letter};
use fleet_tests::saxpy;
use fleet_tests::wait::until;

#[test]
fn a_result_that_comes_after_its_lease_is_recorded_as_refused() {
    if !honour_faults() {
        println!("SKIPPED: these binaries know no fault points; build them without --release");
        return;
    }
    let mut fleet = Fleet::new();
    // The first node stops as by SIGSTOP when its first result is signed and kept, and nobody was told. There it
    // holds no lock that the second one needs, being on the same machine.
    fleet.add_node_with(CLASS, &[("MUSTER_FAULT", "node-after-outbox:1:stop")]);
    fleet.add_node(CLASS);
    fleet.add_task(saxpy::TASK);
    let candidates = saxpy::good_ones(&fleet, "late", 3);
    let receipt = fleet.try_submit("saxpy", &candidates, &["--on", CLASS]).expect("acknowledged");
    let sleeper = fleet.nodes[0].id();
    until("the node to fall asleep", PATIENCE, || (state_letter(sleeper)? == 'T').then_some(()));
    // The lease ends by the node's silence, and the other node takes the cell.
    let cells = fleet.await_over(std::slice::from_ref(&receipt), PATIENCE);
    let book = fleet.book();
    book.assert_settled(&receipt.cells);
    assert_eq!(book.lost.len(), 1, "{:?}", book.lost);
    let lost = book.lost[0].1.clone();
    assert!(book.refused.is_empty());

    fleet.nodes[0].signal(Signal::Continue);
    let (leaf, refused) =
        until("the late result to be refused", PATIENCE, || fleet.book().refused.first().cloned());
    assert_eq!(refused.cell, lost.cell);
    assert_eq!(Some(refused.fence), lost.fence);
    let promise = until("the node to hear of it", PATIENCE, || {
        let id = refused.record.to_string();
        let path = fleet.node_state(0).join(format!("promises/{}/{id}.json", &id[..2]));
        std::fs::read_to_string(path).ok()
    });
    let promise: serde_json::Value = serde_json::from_str(&promise).expect("JSON");
    assert_eq!(promise["verdict"]["refused"]["index"].as_u64(), Some(leaf));
    assert_eq!(promise["record"], refused.record.to_string().as_str());

    let book = fleet.book();
    book.assert_settled(&receipt.cells);
    assert_eq!(book.results.len(), 3, "the refused result is no result entry");
    assert!(book.results.iter().all(|(_, record, _)| *record != refused.record.to_string()));
    assert_eq!(cells, fleet.cells(&receipt.submission).expect("cells"), "the cell keeps its record");
    // The woken node is of use again.
    fleet.await_ready(2);
    let more = fleet.submit("saxpy", &saxpy::good_ones(&fleet, "after", 2), &["--on", CLASS]);
    assert!(more.iter().all(|cell| cell["state"] == "finished"), "{more:#?}");
    fleet.verify();
}
