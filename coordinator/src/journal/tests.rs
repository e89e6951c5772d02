//! Tests of the journal: whole, torn, damaged, locked, failing.

use super::frame::{HEADER, encode};
use super::*;
use crate::scheduler::{Invite, InviteId, LeaseGrant};
use fleet_config::domain::{CellId, DeviceId, Digest, Fence, NodeId, Nonce, Seed};

fn drained(byte: u8) -> Fact {
    Fact::NodeDrained { node: NodeId([byte; 32]) }
}

fn numbered(first: u64, facts: &[Fact]) -> Vec<(u64, Fact)> {
    (first..).zip(facts.iter().cloned()).collect()
}

/// Three batches: facts 1; 2 and 3; 4.
fn written(state: &Path) -> Vec<(u64, Fact)> {
    let all = numbered(1, &[drained(1), drained(2), drained(3), drained(4)]);
    let (mut journal, facts, _) = Journal::open(state).unwrap();
    assert_eq!(facts, []);
    journal.append_batch(&all[..1]).unwrap();
    journal.append_batch(&all[1..3]).unwrap();
    journal.append_batch(&all[3..]).unwrap();
    all
}

#[test]
fn what_was_appended_is_read_again_in_order() {
    let state = tempfile::tempdir().unwrap();
    let all = written(state.path());
    let (journal, facts, report) = Journal::open(state.path()).unwrap();
    assert_eq!((facts, report.facts, report.torn), (all, 4, None));
    assert_eq!(journal.next_sequence(), 5);
}

#[test]
fn the_first_frame_has_golden_bytes() {
    let fact = Fact::LeaseGranted(LeaseGrant {
        fence: Fence(7),
        cell: CellId([1; 32]),
        node: NodeId([2; 32]),
        device: DeviceId("CPU-1".to_owned()),
        nonce: Nonce([3; 32]),
        seeds: vec![Seed(5)],
    });
    let mut bytes = Vec::new();
    encode(7, 6, &fact, &mut bytes).unwrap();
    let hex = |byte: &str| byte.repeat(32);
    let json = format!(
        "{{\"v\":1,\"seq\":7,\"durable\":6,\"fact\":{{\"lease_granted\":{{\"fence\":7,\"cell\":\"{}\",\"node\":\"{}\",\"device\":\"CPU-1\",\"nonce\":\"{}\",\"seeds\":[5]}}}}}}",
        hex("01"),
        hex("02"),
        hex("03"),
    );
    assert_eq!(std::str::from_utf8(&bytes[8..]).unwrap(), json);
    assert_eq!(bytes[..4], u32::try_from(json.len()).unwrap().to_le_bytes());
    let sum = crc32c::crc32c(&[&bytes[..4], json.as_bytes()].concat());
    assert_eq!(bytes[4..8], sum.to_le_bytes());
}

#[test]
fn every_prefix_of_the_file_opens_with_the_facts_that_are_whole() {
    let state = tempfile::tempdir().unwrap();
    let all = written(state.path());
    let bytes = fs::read(state.path().join(FILE_NAME)).unwrap();
    for length in HEADER.len()..bytes.len() {
        fs::write(state.path().join(FILE_NAME), &bytes[..length]).unwrap();
        let (mut journal, facts, report) = Journal::open(state.path()).unwrap();
        assert_eq!(facts, all[..facts.len()], "cut at {length}");
        let torn = report.torn.map_or(0, |torn| torn.bytes_cut);
        assert_eq!(report.length + torn, length as u64, "cut at {length}");
        journal.append_batch(&[(journal.next_sequence(), drained(9))]).unwrap();
        drop(journal);
        let (_, again, report) = Journal::open(state.path()).unwrap();
        assert_eq!((again.len(), report.torn), (facts.len() + 1, None), "cut at {length}");
    }
}

#[test]
fn a_flipped_byte_in_a_synced_frame_is_refused_with_its_offset() {
    let state = tempfile::tempdir().unwrap();
    written(state.path());
    let path = state.path().join(FILE_NAME);
    let bytes = fs::read(&path).unwrap();
    let frame = (bytes.len() - HEADER.len()) / 4;
    // The last frame excepted: nothing tells its damage from a torn write.
    for at in HEADER.len()..HEADER.len() + 3 * frame {
        let mut broken = bytes.clone();
        broken[at] ^= 0x40;
        fs::write(&path, &broken).unwrap();
        let start = HEADER.len() + (at - HEADER.len()) / frame * frame;
        match Journal::open(state.path()) {
            Err(OpenError::Damaged { offset, .. }) => assert_eq!(offset, start as u64, "byte {at}"),
            other => panic!("byte {at}: {other:?}"),
        }
        assert_eq!(fs::read(&path).unwrap(), broken, "a refused journal is left as it is");
    }
}

#[test]
fn a_hole_in_an_unsynced_batch_is_a_torn_tail_even_with_a_whole_frame_behind_it() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join(FILE_NAME);
    let all = numbered(1, &[drained(1), drained(2), drained(3)]);
    let (mut journal, _, _) = Journal::open(state.path()).unwrap();
    journal.append_batch(&all[..1]).unwrap();
    let kept = fs::metadata(&path).unwrap().len();
    journal.append_batch(&all[1..]).unwrap();
    drop(journal);
    let mut bytes = fs::read(&path).unwrap();
    bytes[usize::try_from(kept).unwrap() + 20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (_, facts, report) = Journal::open(state.path()).unwrap();
    assert_eq!(facts, all[..1]);
    let torn = report.torn.unwrap();
    assert_eq!(torn.offset, kept);
    assert_eq!(fs::read(torn.kept).unwrap(), bytes[usize::try_from(kept).unwrap()..]);
}

#[test]
fn a_file_that_is_no_journal_is_refused() {
    for content in [&b""[..], b"muster.journal", b"muster.journal\x00\x02", b"something else entirely"] {
        let state = tempfile::tempdir().unwrap();
        fs::write(state.path().join(FILE_NAME), content).unwrap();
        assert!(matches!(Journal::open(state.path()), Err(OpenError::Header { .. })), "{content:?}");
    }
}

#[test]
fn a_newer_frame_and_unknown_facts_are_refused_and_not_cut() {
    for json in [
        r#"{"v":2,"seq":1,"durable":0,"fact":{}}"#,
        r#"{"v":1,"seq":1,"durable":0,"fact":{"node_painted":{"node":1}}}"#,
        r#"{"v":1,"seq":1,"durable":0,"more":1,"fact":{}}"#,
    ] {
        let state = tempfile::tempdir().unwrap();
        let length = u32::try_from(json.len()).unwrap().to_le_bytes();
        let sum = crc32c::crc32c(&[&length, json.as_bytes()].concat()).to_le_bytes();
        let bytes = [&HEADER[..], &length, &sum, json.as_bytes()].concat();
        fs::write(state.path().join(FILE_NAME), &bytes).unwrap();
        assert!(matches!(Journal::open(state.path()), Err(OpenError::Damaged { offset: 16, .. })), "{json}");
    }
}

#[test]
fn one_coordinator_at_a_time_opens_it() {
    let state = tempfile::tempdir().unwrap();
    let (journal, _, _) = Journal::open(state.path()).unwrap();
    assert!(matches!(Journal::open(state.path()), Err(OpenError::Locked { .. })));
    drop(journal);
    Journal::open(state.path()).unwrap();
}

#[test]
fn facts_out_of_order_are_not_written() {
    let state = tempfile::tempdir().unwrap();
    let (mut journal, _, _) = Journal::open(state.path()).unwrap();
    for first in [0, 2] {
        let result = journal.append_batch(&[(first, drained(1))]);
        assert!(matches!(result, Err(AppendError::Sequence { expected: 1, .. })));
    }
    assert!(journal.append_batch(&[(1, drained(1)), (3, drained(2))]).is_err());
    drop(journal);
    assert_eq!(Journal::open(state.path()).unwrap().1, []);
}

#[test]
fn a_failed_write_poisons_it() {
    let state = tempfile::tempdir().unwrap();
    let (mut journal, _, _) = Journal::open(state.path()).unwrap();
    // A descriptor that cannot be written stands for a disk that fails.
    journal.file = File::open(state.path().join(FILE_NAME)).unwrap();
    assert!(matches!(journal.append_batch(&[(1, drained(1))]), Err(AppendError::Io { .. })));
    assert!(matches!(journal.append_batch(&[(1, drained(1))]), Err(AppendError::Poisoned)));
}

#[test]
fn a_fact_longer_than_a_frame_is_refused_before_it_is_written() {
    let state = tempfile::tempdir().unwrap();
    let (mut journal, _, _) = Journal::open(state.path()).unwrap();
    let invite = Invite {
        id: InviteId("x".repeat(FRAME_MAX)),
        secret_hash: Digest([0; 32]),
        expires_unix_ms: 0,
        uses: 1,
        class: None,
    };
    let result = journal.append_batch(&[(1, Fact::InviteCreated(invite))]);
    assert!(matches!(result, Err(AppendError::Frame { sequence: 1, .. })));
    journal.append_batch(&[(1, drained(1))]).unwrap();
}
