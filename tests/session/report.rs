//! From assignment to acknowledgement.

use crate::coordinator::{Coordinator, NOW, accepted};
use crate::node::{Node, Pair, assign, cell};
use coordinator::transport::{AssignmentEvent, NodeCommand};
use fleet_config::domain::{BlobRef, Digest, Fence};
use fleet_config::wire::v1::{Progress, RecordVerdict, Recorded};
use tempfile::tempdir;

fn entries(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_goes_from_assignment_to_promise() {
    let (mut pair, job) = Pair::at_work().await;
    assert_eq!(job.order.origin, "muster.invalid/0011223344556677");
    assert_eq!((job.order.node, job.order.assign.clone()), (pair.node.id, assign(1, 5)));
    job.progress.send("compile", "");
    let progress = Progress { stage: "compile".to_owned(), detail: String::new() };
    assert_eq!(pair.fleet.answer().await, AssignmentEvent::Progress(progress));

    // One blob is there already and is not sent; the larger one needs several pieces.
    let (known, large) = (b"known".to_vec(), vec![0xa5; 300_000]);
    pair.fleet.blobs.put(known.clone());
    job.finish(b"{\"signed\":1}", &[&known, &large, b""]);
    let (report, reply) = pair.fleet.report().await;
    assert_eq!((report.fence, report.envelope.as_slice()), (5, &b"{\"signed\":1}"[..]));
    assert_eq!(report.blobs.len(), 3);
    assert!(pair.fleet.blobs.has(&BlobRef::of(&large)) && pair.fleet.blobs.has(&BlobRef::of(b"")));
    assert_eq!(entries(&pair.state.path().join("outbox")), 1, "kept until it is acknowledged");
    reply.send(accepted(&report, 12)).unwrap();

    // The next assignment's events come after the acknowledgement on the same connection.
    pair.lease(2, 6).await.finish(b"{\"signed\":2}", &[]);
    let (second, reply) = pair.fleet.report().await;
    assert_eq!(second.fence, 6, "the first is not sent again");
    let verdict = RecordVerdict::Invalid { code: "x".to_owned(), cause: "y".to_owned() };
    reply.send(Recorded { record: [3; 32], verdict }).unwrap();
    while pair.fleet.heartbeat().await.running.iter().any(|running| running.fence == 6) {}
    pair.node.stop().await;
    assert_eq!(entries(&pair.state.path().join("outbox")), 0);
    let record = Digest::of(b"{\"signed\":1}").to_string();
    let promise = pair.state.path().join("promises").join(&record[..2]).join(format!("{record}.json"));
    assert!(std::fs::read_to_string(promise).unwrap().contains("\"index\":12"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_attempt_ends_without_a_report() {
    let (mut pair, job) = Pair::at_work().await;
    pair.connection.send(NodeCommand::Cancel { cell: cell(1), fence: Fence(5) }).unwrap();
    job.cancel.cancelled().await;
    assert_eq!(pair.fleet.declined().await, "node/cancelled");
    pair.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_device_is_declined() {
    let (mut pair, running) = Pair::at_work().await;
    pair.connection.send(NodeCommand::Assign(assign(2, 6))).unwrap();
    assert_eq!(pair.fleet.declined().await, "node/device-busy");
    running.finish(b"{}", &[]);
    let (report, reply) = pair.fleet.report().await;
    reply.send(accepted(&report, 1)).unwrap();
    pair.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_a_result_is_given_up_and_the_node_lives() {
    let (mut pair, job) = Pair::at_work().await;
    let failed = agent_node::session::JobFailure::Failed { code: "x/y".to_owned(), cause: "z".to_owned() };
    assert!(job.end.send(Err(failed)).is_ok());
    assert_eq!(pair.fleet.declined().await, "x/y");
    pair.lease(1, 6).await;
    pair.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_always_knows_its_ledger_even_if_its_assignment_overtakes_the_welcome() {
    for round in 0..20 {
        let mut fleet = Coordinator::start().await;
        let state = tempdir().unwrap();
        let mut node = Node::start(state.path(), Some(fleet.invite(1, NOW + 1)));
        let (_, connection, _) = fleet.joined().await;
        connection.send(NodeCommand::Assign(assign(1, 5))).unwrap();
        let job = node.job().await;
        assert_eq!(job.order.origin, "muster.invalid/0011223344556677", "round {round}");
        assert!(state.path().join("coordinator.json").exists(), "pinned before any work, round {round}");
        node.stop().await;
    }
}
