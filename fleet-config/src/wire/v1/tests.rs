//! Golden bytes of every message, and what bad bytes do.

use super::*;
use crate::wire::codec::{self, FrameError, PREFIX};
use crate::wire::{BLOB_MAX, FRAME_MAX};
use data_encoding::HEXLOWER;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

fn blob(tag: u8) -> Blob {
    Blob { blake3: [tag; 32], sha256: [tag ^ 0xff; 32], size: u64::from(tag) * 1000 }
}

fn running() -> Vec<Running> {
    vec![Running { cell: [0xc1; 32], fence: 70_000, device: "CPU-7f3a".to_owned() }]
}

fn devices() -> Vec<Device> {
    vec![Device { id: "CPU-7f3a".to_owned(), description: br#"{"id":"CPU-7f3a"}"#.to_vec() }]
}

fn hello() -> Hello {
    Hello {
        name: "bench-01".to_owned(),
        signing_key: [0x11; 32],
        proof: vec![0x22; 64],
        invite: Some([0x33; 32]),
        harness_version: "0.1.0".to_owned(),
        devices: devices(),
        running: running(),
        checkpoint: "muster.invalid/00\n3\n".to_owned(),
    }
}

fn welcome() -> Welcome {
    Welcome {
        node: [0x44; 32],
        origin: "muster.invalid/0011223344556677".to_owned(),
        log_vkey: "muster.invalid/0011223344556677+00112233+AQID".to_owned(),
        heartbeat_ms: 2000,
        stop: vec![([0xc2; 32], 9)],
    }
}

fn assign() -> Assign {
    Assign {
        submission: [0x51; 32],
        cell: [0xc1; 32],
        fence: 70_000,
        task: blob(1),
        candidate: blob(2),
        policy: blob(3),
        device: "CPU-7f3a".to_owned(),
        nonce: [0x52; 32],
        seeds: vec![1, 250, 251, u64::from(u32::MAX) + 1],
        compile_ms: 60_000,
        run_ms: 120_000,
        queued_ms: 5,
    }
}

fn report() -> Report {
    Report {
        cell: [0xc1; 32],
        fence: 70_000,
        envelope: br#"{"payload":"e30="}"#.to_vec(),
        blobs: vec![ReportBlob { blob: blob(4) }, ReportBlob { blob: blob(5) }],
    }
}

fn recorded(verdict: RecordVerdict) -> ReportReply {
    ReportReply::Recorded(Recorded { record: [0x61; 32], verdict })
}

#[track_caller]
fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: T, hex: &str, name: &str) {
    let frame = codec::encode(&message).unwrap();
    assert_eq!(HEXLOWER.encode(&frame), hex.trim(), "golden bytes of {name}");
    let prefix = frame[..PREFIX].try_into().unwrap();
    assert_eq!(codec::body_length(prefix).unwrap(), frame.len() - PREFIX);
    let body = &frame[PREFIX..];
    assert_eq!(codec::decode::<T>(body).unwrap(), message);
    for end in 0..body.len() {
        assert!(codec::decode::<T>(&body[..end]).is_err(), "{name} cut to {end} bytes decodes");
    }
    let mut longer = body.to_vec();
    longer.push(0);
    assert!(matches!(codec::decode::<T>(&longer), Err(FrameError::Trailing(1))), "{name}");
}

/// Compares each message with the file of the same name.
macro_rules! vectors {
    ($($name:ident: $message:expr;)*) => {$(
        #[test]
        fn $name() {
            let hex = include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/wire-v1/", stringify!($name), ".hex"
            ));
            golden($message, hex, stringify!($name));
        }
    )*};
}

vectors! {
    from_node_hello: FromNode::Hello(Box::new(hello()));
    from_node_hello_without_invite: FromNode::Hello(Box::new(Hello { invite: None, ..hello() }));
    from_node_heartbeat: FromNode::Heartbeat(Heartbeat { sequence: 300, running: running() });
    from_node_capacity: FromNode::Capacity(Capacity { devices: devices() });
    answer_taken: Answer::Taken;
    answer_declined: Answer::Declined { code: "node/draining".to_owned(), cause: "it drains".to_owned() };
    answer_progress: Answer::Progress(Progress { stage: "compile".to_owned(), detail: String::new() });
    opening_report: Opening::Report(Box::new(report()));
    opening_fetch_blob: Opening::FetchBlob(BlobRequest { blob: blob(6) });
    from_coordinator_welcome: FromCoordinator::Welcome(welcome());
    from_coordinator_goodbye: FromCoordinator::Goodbye(Goodbye {
        code: "join/invite-expired".to_owned(),
        cause: "the invite expired".to_owned(),
        next: "ask for a new one".to_owned(),
        retry: false,
    });
    from_coordinator_cancel: FromCoordinator::Cancel { cell: [0xc1; 32], fence: 70_000 };
    from_coordinator_drain: FromCoordinator::Drain;
    from_coordinator_undrain: FromCoordinator::Undrain;
    from_coordinator_checkpoint: FromCoordinator::Checkpoint { note: "muster.invalid/00\n3\n".to_owned() };
    assign_all_fields: assign();
    report_reply_need_blobs: ReportReply::NeedBlobs { indices: vec![0, 300] };
    report_reply_accepted: recorded(RecordVerdict::Accepted { index: 12, promise: vec![0x71; 64] });
    report_reply_refused: recorded(RecordVerdict::Refused { index: 13, reason: "fence".to_owned() });
    report_reply_invalid: recorded(RecordVerdict::Invalid {
        code: "report/signature".to_owned(),
        cause: "not signed by this node".to_owned(),
    });
    report_reply_later: recorded(RecordVerdict::Later {
        code: "ledger/full".to_owned(),
        cause: "disk full".to_owned(),
    });
    blob_reply_follows: BlobReply::Follows { blob: blob(7) };
    blob_reply_missing: BlobReply::Missing;
}

#[test]
fn frames_beyond_the_limit_are_refused_before_any_allocation() {
    let limit = u32::try_from(FRAME_MAX).unwrap();
    assert_eq!(codec::body_length(limit.to_be_bytes()).unwrap(), FRAME_MAX);
    assert!(matches!(codec::body_length((limit + 1).to_be_bytes()), Err(FrameError::TooLong(_))));
    assert!(matches!(codec::body_length([0xff; 4]), Err(FrameError::TooLong(_))));
    let huge = Report { envelope: vec![0; FRAME_MAX + 1], ..report() };
    assert!(codec::encode(&huge).is_err());
    // A length inside the body that promises more than any frame can hold.
    let mut lying = vec![1u8; 32];
    lying.extend([0, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    assert!(codec::decode::<Report>(&lying).is_err());
    assert!(BLOB_MAX > FRAME_MAX as u64, "blobs do not travel in frames");
}

#[test]
fn unknown_variants_are_refused() {
    for tag in 3..=u8::MAX {
        assert!(codec::decode::<FromNode>(&[tag]).is_err());
    }
    for tag in 2..=u8::MAX {
        assert!(codec::decode::<Opening>(&[tag]).is_err());
        assert!(codec::decode::<BlobReply>(&[tag]).is_err());
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        let _ = codec::decode::<FromNode>(&bytes);
        let _ = codec::decode::<Opening>(&bytes);
        let _ = codec::decode::<Answer>(&bytes);
        let _ = codec::decode::<FromCoordinator>(&bytes);
        let _ = codec::decode::<Assign>(&bytes);
        let _ = codec::decode::<ReportReply>(&bytes);
        let _ = codec::decode::<BlobReply>(&bytes);
    }

    #[test]
    fn a_flipped_byte_decodes_to_something_else_or_not_at_all(at in 0usize..4096, flip in 1u8..=255) {
        let message = FromNode::Hello(Box::new(hello()));
        let frame = codec::encode(&message).unwrap();
        let mut body = frame[PREFIX..].to_vec();
        let at = at % body.len();
        body[at] ^= flip;
        if let Ok(other) = codec::decode::<FromNode>(&body) {
            prop_assert_ne!(other, message);
        }
    }
}
