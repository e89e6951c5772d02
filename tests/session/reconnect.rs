//! Connections go; work and results stay.

use crate::coordinator::{Coordinator, NOW, accepted};
use crate::node::{Bare, Node, Pair, cell};
use agent_node::session::{AttemptKey, Outbox};
use coordinator::transport::{LossCause, NodeCommand};
use fleet_config::domain::{BlobRef, DeviceId, Fence};
use fleet_config::wire::v1::{Goodbye, RecordVerdict, Recorded};
use tempfile::tempdir;

fn come_back() -> NodeCommand {
    NodeCommand::Goodbye(Goodbye {
        code: "session/test".to_owned(),
        cause: "come back".to_owned(),
        next: String::new(),
        retry: true,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unacknowledged_report_is_sent_again_and_acknowledged_once() {
    let (mut pair, job) = Pair::at_work().await;
    job.finish(b"{\"n\":1}", &[b"log"]);
    let (first, unanswered) = pair.fleet.report().await;
    pair.connection.send(come_back()).unwrap();
    assert_eq!(pair.fleet.lost().await.2, LossCause::Dismissed);
    drop(unanswered);

    let (_, connection, hello) = pair.fleet.joined().await;
    assert_eq!(hello.running.len(), 1);
    assert_eq!((hello.running[0].cell, hello.running[0].fence), (cell(1).0, 5));
    let (second, reply) = pair.fleet.report().await;
    assert_eq!(first, second, "the same bytes");
    let verdict = RecordVerdict::Later { code: "ledger/full".to_owned(), cause: "disk".to_owned() };
    reply.send(Recorded { record: [0; 32], verdict }).unwrap();
    let (third, reply) = pair.fleet.report().await;
    assert_eq!(first, third, "later means again");
    reply.send(accepted(&third, 7)).unwrap();
    while !pair.fleet.heartbeat().await.running.is_empty() {}

    connection.send(come_back()).unwrap();
    pair.fleet.lost().await;
    let (_, _connection, hello) = pair.fleet.joined().await;
    assert_eq!(hello.running, [], "acknowledged once and for all");
    pair.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_keeps_running_while_there_is_no_connection() {
    let (mut pair, job) = Pair::at_work().await;
    pair.connection.send(come_back()).unwrap();
    pair.fleet.lost().await;
    let (_, _connection, hello) = pair.fleet.joined().await;
    assert_eq!(hello.running[0].fence, 5);
    assert!(!job.cancel.is_cancelled());
    job.finish(b"{}", &[]);
    let (report, reply) = pair.fleet.report().await;
    reply.send(accepted(&report, 1)).unwrap();
    pair.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_signed_before_a_crash_is_sent_after_it() {
    // Held until the crash: a dropped job is a cancelled one.
    let (mut pair, _running) = Pair::at_work().await;
    pair.node.crash().await;
    pair.fleet.lost().await;
    let (outbox, waiting) = Outbox::open(&pair.state.path().join("outbox")).unwrap();
    assert_eq!(waiting, []);
    let attempt = AttemptKey { cell: cell(1), fence: Fence(5) };
    let blobs = [(BlobRef::of(b"log"), b"log".to_vec())];
    outbox.put(attempt, &DeviceId("CPU-1".to_owned()), b"{\"signed\":1}", &blobs).unwrap();

    let node = Node::start(pair.state.path(), None);
    let (_, _connection, hello) = pair.fleet.joined().await;
    assert_eq!((hello.running[0].fence, hello.running[0].device.as_str()), (5, "CPU-1"));
    let (report, reply) = pair.fleet.report().await;
    assert_eq!(report.envelope, b"{\"signed\":1}");
    reply.send(accepted(&report, 3)).unwrap();
    while !pair.fleet.heartbeat().await.running.is_empty() {}
    node.stop().await;
    assert_eq!(Outbox::open(&pair.state.path().join("outbox")).unwrap().1, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_connection_of_a_node_takes_the_place_of_the_first() {
    let mut fleet = Coordinator::start().await;
    let keys = tempdir().unwrap();
    let identity = Bare::identity(keys.path());
    let invite = fleet.invite(1, NOW + 1);
    let first = Bare::join(&identity, &invite).await;
    let (node, connection, _) = fleet.joined().await;
    let _second = Bare::join(&identity, &invite).await;
    assert_eq!(fleet.lost().await, (node, connection.id(), LossCause::Replaced));
    let (again, newer, _) = fleet.joined().await;
    assert_eq!(again, node);
    assert!(newer.id() > connection.id());
    assert_eq!(first.close_code().await, 3);
    assert!(connection.send(NodeCommand::Drain).is_err());
    newer.send(NodeCommand::Drain).unwrap();
    assert_eq!(fleet.listener.counters().replaced, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_finds_a_coordinator_that_was_restarted() {
    let keys = tempdir().unwrap();
    let state = tempdir().unwrap();
    let mut fleet =
        Coordinator::start_in(keys.path(), "127.0.0.1:0".parse().unwrap(), Default::default()).await;
    let node = Node::start(state.path(), Some(fleet.invite(1, NOW + 1)));
    let connected = fleet.joined().await;
    let (address, register) = (fleet.address, fleet.register.lock().unwrap().clone());
    fleet.listener.shutdown().await;
    // A handle keeps the socket of its listener open.
    drop(connected);

    let mut fleet = Coordinator::start_in(keys.path(), address, register).await;
    assert_eq!(fleet.joined().await.0, node.id);
    node.stop().await;
}
