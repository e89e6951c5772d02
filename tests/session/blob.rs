//! Blobs to nodes.

use crate::coordinator::{Coordinator, NOW, PATIENCE};
use crate::node::Node;
use agent_node::session::FetchError;
use coordinator::transport::NodeCommand;
use fleet_config::domain::BlobRef;
use fleet_config::wire::v1::Goodbye;
use tempfile::tempdir;

fn five_mebibytes() -> Vec<u8> {
    (0..5 * 1024 * 1024u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_comes_once_and_is_then_in_the_cache() {
    let mut fleet = Coordinator::start().await;
    let state = tempdir().unwrap();
    let bytes = five_mebibytes();
    let blob = fleet.blobs.put(bytes.clone());
    let node = Node::start(state.path(), Some(fleet.invite(1, NOW + 1)));
    // Asked for before there is a connection, and twice at once.
    let (one, two) = (node.fetcher.clone(), node.fetcher.clone());
    let fetched = async { tokio::join!(one.fetch(&blob), two.fetch(&blob)) };
    let (one, two) = tokio::time::timeout(PATIENCE, fetched).await.unwrap();
    assert!(one.unwrap() == bytes && two.unwrap() == bytes);
    assert_eq!(fleet.listener.counters().blobs_served, 1);
    let _connected = fleet.joined().await;
    node.stop().await;

    fleet.blobs.0.lock().unwrap().clear();
    let node = Node::start(state.path(), None);
    assert!(node.fetcher.fetch(&blob).await.unwrap() == bytes, "from the cache of the run before");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_coordinator_lacks_or_serves_wrongly_is_an_error() {
    let mut fleet = Coordinator::start().await;
    let state = tempdir().unwrap();
    let node = Node::start(state.path(), Some(fleet.invite(1, NOW + 1)));
    let _connected = fleet.joined().await;
    let missing = BlobRef::of(b"missing");
    assert!(matches!(node.fetcher.fetch(&missing).await, Err(FetchError::Missing(_))));
    for wrong in [&b"wrongly"[..], b"short", b"longer than it should be"] {
        fleet.blobs.0.lock().unwrap().insert(missing.blake3, wrong.to_vec());
        assert!(matches!(node.fetcher.fetch(&missing).await, Err(FetchError::Cache(_))));
    }
    let huge = BlobRef { size: u64::MAX, ..missing };
    assert!(matches!(node.fetcher.fetch(&huge).await, Err(FetchError::TooLarge { .. })));
    fleet.blobs.put(b"missing".to_vec());
    assert_eq!(node.fetcher.fetch(&missing).await.unwrap(), b"missing");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_waits_for_the_next_connection() {
    let mut fleet = Coordinator::start().await;
    let state = tempdir().unwrap();
    let blob = fleet.blobs.put(five_mebibytes());
    let node = Node::start(state.path(), Some(fleet.invite(1, NOW + 1)));
    let (_, connection, _) = fleet.joined().await;
    let goodbye = Goodbye { code: "x".to_owned(), cause: String::new(), next: String::new(), retry: true };
    connection.send(NodeCommand::Goodbye(goodbye)).unwrap();
    let fetcher = node.fetcher.clone();
    let fetched = tokio::spawn(async move { fetcher.fetch(&blob).await.map(|bytes| bytes.len() as u64) });
    fleet.lost().await;
    let _connected = fleet.joined().await;
    let fetched = tokio::time::timeout(PATIENCE, fetched).await.unwrap().unwrap();
    assert_eq!(fetched.unwrap(), blob.size);
    node.stop().await;
}
