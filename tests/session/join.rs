//! Joining: invites, keys, pins.

use crate::coordinator::{Coordinator, NOW};
use crate::node::{Bare, Node, open};
use coordinator::transport::{ListenError, Listener, ListenerOptions, NoBlobs, ServerIdentity, Stores};
use fleet_config::domain::Sha256;
use fleet_config::invite::Invite;
use fleet_config::refusal::Refusal;
use fleet_config::wire::v1::{FromCoordinator, FromNode};
use std::sync::Arc;
use tempfile::tempdir;

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_by_invite_and_later_without_one() {
    let mut fleet = Coordinator::start().await;
    let state = tempdir().unwrap();
    let text = fleet.invite(1, NOW + 1).to_text().unwrap();
    let node = Node::start(state.path(), Some(Invite::parse(&text).unwrap()));
    let (joined, _connection, hello) = fleet.joined().await;
    assert_eq!(joined, node.id);
    assert_eq!((hello.name.as_str(), hello.devices.len()), ("bench", 1));
    assert_eq!(fleet.heartbeat().await.sequence, 1);
    node.stop().await;
    fleet.lost().await;

    let node = Node::start(state.path(), None);
    let (joined, _connection, hello) = fleet.joined().await;
    assert_eq!(joined, node.id, "the keys last");
    assert_eq!(hello.invite, None);
    node.stop().await;
    assert_eq!(fleet.listener.counters().joined, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_node_may_use_its_invite_again() {
    let mut fleet = Coordinator::start().await;
    let state = tempdir().unwrap();
    let invite = fleet.invite(1, NOW + 1);
    let node = Node::start(state.path(), Some(invite.clone()));
    let _connected = fleet.joined().await;
    // A heartbeat shows that the node has dealt with its welcome.
    fleet.heartbeat().await;
    node.stop().await;
    // As if the coordinator had journalled the invite and died before it enrolled the node, and the node had
    // died before it kept the pin.
    fleet.register.lock().unwrap().nodes.clear();
    std::fs::remove_file(state.path().join("coordinator.json")).unwrap();
    fleet.lost().await;
    let node = Node::start(state.path(), Some(invite));
    assert_eq!(fleet.joined().await.0, node.id);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stolen_invite_is_refused() {
    let mut fleet = Coordinator::start().await;
    let (first, thief) = (tempdir().unwrap(), tempdir().unwrap());
    let invite = fleet.invite(1, NOW + 1);
    let node = Node::start(first.path(), Some(invite.clone()));
    let _connected = fleet.joined().await;
    let stolen = Node::start(thief.path(), Some(invite));
    assert_eq!(stolen.refused().await, "join/invite-other-key");
    assert_eq!(fleet.listener.counters().joins_refused, 1);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_and_unknown_invites_are_refused() {
    let fleet = Coordinator::start().await;
    let state = tempdir().unwrap();
    let expired = Node::start(state.path(), Some(fleet.invite(1, NOW)));
    assert_eq!(expired.refused().await, "join/invite-expired");
    let unknown = fleet.invite(2, NOW + 1);
    fleet.register.lock().unwrap().invites.clear();
    assert_eq!(Node::start(state.path(), Some(unknown)).refused().await, "join/invite-unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_with_another_key_is_refused_by_the_node() {
    let fleet = Coordinator::start().await;
    let state = tempdir().unwrap();
    let invite = Invite { coordinator: Sha256([9; 32]), ..fleet.invite(1, NOW + 1) };
    assert_eq!(Node::start(state.path(), Some(invite)).refused().await, "join/wrong-coordinator");
    assert_eq!(fleet.listener.counters().joined, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_one_fleet_joins_no_other() {
    let mut fleet = Coordinator::start().await;
    let other = Coordinator::start().await;
    let state = tempdir().unwrap();
    assert_eq!(open(state.path(), None).err().unwrap().code, "join/no-invite");
    let node = Node::start(state.path(), Some(fleet.invite(1, NOW + 1)));
    let _connected = fleet.joined().await;
    // A heartbeat shows that the node has dealt with its welcome.
    fleet.heartbeat().await;
    node.stop().await;
    let refusal = open(state.path(), Some(other.invite(1, NOW + 1))).err().unwrap();
    assert_eq!(refusal.code, "join/other-coordinator");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_of_another_session_is_refused() {
    let fleet = Coordinator::start().await;
    let keys = tempdir().unwrap();
    let identity = Bare::identity(keys.path());
    let invite = fleet.invite(1, NOW + 1);
    let secret = Some(invite.secret.expose());
    let first = Bare::dial(&identity, &invite.addresses[0], invite.coordinator).await;
    let mut second = Bare::dial(&identity, &invite.addresses[0], invite.coordinator).await;
    let replayed = first.hello(&identity, secret);
    second.say(FromNode::Hello(Box::new(replayed))).await;
    match second.hear().await {
        FromCoordinator::Goodbye(goodbye) => assert_eq!(goodbye.code, "join/proof"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_said_so() {
    let fleet = Coordinator::start().await;
    let options = ListenerOptions { address: fleet.address, identity: ServerIdentity::generate().unwrap() };
    let stores = Stores { source: Arc::new(NoBlobs), sink: Arc::new(NoBlobs) };
    let error: ListenError =
        Listener::start(&options, stores, tokio::sync::mpsc::channel(1).0).err().expect("the port is taken");
    assert_eq!(Refusal::from(error).code, "listen/port-in-use");
}
