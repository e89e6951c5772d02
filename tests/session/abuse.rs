//! Bytes that no honest node sends: they end a stream or a connection with a code, and nothing else.

use crate::coordinator::{Coordinator, NOW};
use crate::node::Bare;
use agent_node::transport;
use coordinator::transport::{AssignmentEvent, LossCause, NodeCommand, NodeConnection, limits};
use fleet_config::domain::BlobRef;
use fleet_config::wire::close::CloseCode;
use fleet_config::wire::codec;
use fleet_config::wire::v1::{
    Answer, FromNode, Heartbeat, Opening, Progress, Report, ReportBlob, ReportReply,
};
use fleet_config::wire::v2::Assign;
use tempfile::tempdir;

/// A bare node that was welcomed. The handle keeps its connection open.
async fn joined() -> (Coordinator, Bare, NodeConnection) {
    let mut fleet = Coordinator::start().await;
    let keys = tempdir().unwrap();
    let bare = Bare::join(&Bare::identity(keys.path()), &fleet.invite(1, NOW + 1)).await;
    let (_, connection, _) = fleet.joined().await;
    (fleet, bare, connection)
}

/// Sends `bytes` as a new stream and returns the code that it is reset with.
async fn opened_with(bare: &Bare, bytes: &[u8]) -> u64 {
    let (mut send, mut receive) = bare.dialled.connection.open_bi().await.unwrap();
    send.write_all(bytes).await.unwrap();
    send.finish().unwrap();
    Bare::reset_code(&mut receive).await
}

async fn still_alive(fleet: &mut Coordinator, bare: &mut Bare, sequence: u64) {
    bare.say(FromNode::Heartbeat(Heartbeat { sequence, running: vec![] })).await;
    assert_eq!(fleet.heartbeat().await.sequence, sequence);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_frames_end_their_stream_alone() {
    let (mut fleet, mut bare, _connection) = joined().await;
    let bad = u64::from(CloseCode::BadFrame.number());
    let heartbeat = codec::encode(&FromNode::Heartbeat(Heartbeat { sequence: 1, running: vec![] })).unwrap();
    let mut truncated = codec::encode(&Opening::FetchBlob(fleet_config::wire::v1::BlobRequest {
        blob: BlobRef::of(b"x").into(),
    }))
    .unwrap();
    truncated.pop();
    let cases: [&[u8]; 8] = [
        b"",
        b"\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x04\x00\x01",
        b"\x00\x00\x00\x01\x07",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x5a; 5000],
        &truncated,
    ];
    for bytes in cases {
        assert_eq!(opened_with(&bare, bytes).await, bad, "{bytes:?}");
    }
    // A message of another stream is no opening.
    assert_eq!(opened_with(&bare, &heartbeat).await, bad);
    still_alive(&mut fleet, &mut bare, 42).await;
    assert_eq!(fleet.listener.counters().bad_frames, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_never_stops_is_cut_off() {
    let (mut fleet, bare, _connection) = joined().await;
    for _ in 0..limits::BAD_FRAMES_MAX {
        let Ok((mut send, _receive)) = bare.dialled.connection.open_bi().await else { break };
        if send.write_all(b"\xff\xff\xff\xff").await.is_err() {
            break;
        }
    }
    assert_eq!(bare.close_code().await, u64::from(CloseCode::BadFrame.number()));
    fleet.lost().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_instead_of_a_hello_closes_the_connection() {
    let mut fleet = Coordinator::start().await;
    let keys = tempdir().unwrap();
    let identity = Bare::identity(keys.path());
    let address = fleet.address.to_string();
    for bytes in [&b"\xff\xff\xff\xff"[..], b"\x00\x00\x00\x02\x01\x02\x03", b"\x00\x00\x00\x01\x09"] {
        let mut bare = Bare::dial(&identity, &address, fleet.tls_key).await;
        bare.control.0.write_all(bytes).await.unwrap();
        bare.control.0.finish().unwrap();
        assert_eq!(bare.close_code().await, u64::from(CloseCode::BadFrame.number()));
    }
    // The door still opens for others.
    Bare::join(&identity, &fleet.invite(1, NOW + 1)).await;
    let _connected = fleet.joined().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_control_stream_ends_the_connection() {
    let (mut fleet, mut bare, _connection) = joined().await;
    bare.control.0.write_all(b"\x00\x00\x00\x01\xee").await.unwrap();
    assert_eq!(bare.close_code().await, u64::from(CloseCode::BadFrame.number()));
    assert_eq!(fleet.lost().await.2, LossCause::Misbehaved);
}

fn report(blobs: Vec<BlobRef>) -> Opening {
    let blobs = blobs.into_iter().map(|blob| ReportBlob { blob: blob.into() }).collect();
    Opening::Report(Box::new(Report { cell: [1; 32], fence: 1, envelope: b"{}".to_vec(), blobs }))
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_with_other_bytes_are_not_kept() {
    let (mut fleet, mut bare, _connection) = joined().await;
    let declared = BlobRef::of(b"honest");
    for body in [&b"lying!"[..], b"short"] {
        let (mut send, mut receive) = bare.dialled.connection.open_bi().await.unwrap();
        transport::write(&mut send, &report(vec![declared])).await.unwrap();
        let asked = transport::read::<ReportReply>(&mut receive).await.unwrap();
        assert_eq!(asked, Some(ReportReply::NeedBlobs { indices: vec![0] }));
        send.write_all(body).await.unwrap();
        send.finish().unwrap();
        assert_eq!(Bare::reset_code(&mut receive).await, u64::from(CloseCode::BadBlob.number()));
    }
    assert!(!fleet.blobs.has(&declared));
    assert_eq!(fleet.listener.counters().bad_blobs, 2);
    still_alive(&mut fleet, &mut bare, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_beyond_the_limits_are_refused_unread() {
    let (mut fleet, mut bare, _connection) = joined().await;
    let huge = BlobRef { size: limits::REPORT_BYTES_MAX, ..BlobRef::of(b"x") };
    let many = (0..=limits::REPORT_BLOBS_MAX).map(|n| BlobRef::of(&n.to_le_bytes())).collect();
    let overflow = BlobRef { size: u64::MAX, ..BlobRef::of(b"y") };
    for blobs in [vec![huge, BlobRef::of(b"z")], vec![overflow, huge], many] {
        let frame = codec::encode(&report(blobs)).unwrap();
        assert_eq!(opened_with(&bare, &frame).await, u64::from(CloseCode::TooMuch.number()));
    }
    still_alive(&mut fleet, &mut bare, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_out_of_order_lose_their_stream_alone() {
    let (mut fleet, mut bare, connection) = joined().await;
    let progress = || Answer::Progress(Progress { stage: "time".to_owned(), detail: String::new() });
    for answers in [vec![progress()], vec![Answer::Taken, Answer::Taken], vec![]] {
        connection.send(NodeCommand::Assign(crate::node::assign(1, 5))).unwrap();
        let (mut send, mut receive) = bare.dialled.connection.accept_bi().await.unwrap();
        assert!(transport::read::<Assign>(&mut receive).await.unwrap().is_some());
        for answer in &answers {
            transport::write(&mut send, answer).await.unwrap();
        }
        send.finish().unwrap();
        let mut last = fleet.answer().await;
        if last == AssignmentEvent::Taken {
            last = fleet.answer().await;
        }
        assert!(matches!(last, AssignmentEvent::StreamLost { .. }), "{last:?}");
    }
    still_alive(&mut fleet, &mut bare, 1).await;
}
