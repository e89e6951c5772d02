//! Store and memory answer alike; whatever happens to the folder, the answers stay.

use super::*;
use crate::entry::fixture::{ORIGIN, SEALED, World, mismatch, node, series};
use crate::entry::predicate::{Consequence, FindingJudgement, FindingScope};
use crate::entry::{Kind, Sealed};
use crate::log::{LogSigner, LogWriter};
use fleet_config::domain::*;
use std::path::PathBuf;

struct Room {
    folder: tempfile::TempDir,
    writer: LogWriter,
    entries: Vec<Sealed>,
    world: World,
}

fn signer() -> LogSigner {
    LogSigner::new(ORIGIN, ed25519_dalek::SigningKey::from_bytes(&[8; 32])).unwrap()
}

/// Leaves 0–3 open the ledger; then for each of three candidates: granted, an `ok` or a mismatch; then a loss.
fn room() -> Room {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let mut entries = world.opening();
    for (fence, name) in [(1, "fast"), (2, "wrong"), (3, "slow")] {
        let candidate = world.candidate(name);
        let grant = world.grant(&candidate, fence);
        entries.push(world.granted(std::slice::from_ref(&grant)));
        let record = if name == "wrong" {
            world.result(&grant, mismatch(), &[])
        } else {
            world.result(&grant, Outcome::ok(), &[series("small", 2000, 1000, 10)])
        };
        entries.push(world.sealed_result(&candidate, record));
    }
    let candidate = world.candidate("lost");
    let grant = world.grant(&candidate, 4);
    entries.push(world.lost(&candidate, &grant, Consequence::Final));
    let mut writer = LogWriter::create(&folder.path().join("ledger"), signer()).unwrap();
    let bytes: Vec<Vec<u8>> = entries.iter().map(|entry| entry.bytes.clone()).collect();
    writer.append_batch(&bytes).unwrap();
    writer.integrate().unwrap();
    Room { folder, writer, entries, world }
}

impl Room {
    fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }
    fn path(&self) -> PathBuf {
        self.ledger().join("index")
    }
    fn log(&self) -> LogReader {
        LogReader::open(&self.ledger(), signer().verifier()).unwrap()
    }
    fn open(&self) -> (Index, Opened) {
        Index::open(&self.path(), &self.log()).unwrap()
    }
    fn task(&self) -> TaskId {
        TaskId(self.world.task.digest().0)
    }
    /// Every question that this ledger has an answer to.
    fn answers(&self, index: &Index) -> String {
        let mut text = format!("{:?} {:?}\n", index.root(), index.counts());
        for entry in &self.entries {
            text += &format!("{:?}\n", index.record(entry.record).unwrap());
            text += &format!("{:?}\n", index.records(&entry.record.to_string()[..9]).unwrap());
        }
        for as_of in [None, Some(0), Some(6), Some(8), Some(99)] {
            text += &format!("{:?}\n", index.results_of_task(self.task(), as_of).unwrap());
        }
        for kind in Kind::ALL {
            text += &format!("{:?}\n", index.entries_of_kind(kind).unwrap());
        }
        for entry in index.results_of_task(self.task(), None).unwrap().found {
            let result = entry.result.unwrap();
            text += &format!("{:?}\n", index.entries_of_cell(result.cell).unwrap());
            text += &format!("{:?}\n", index.entries_of_submission(result.submission).unwrap());
            let ResultSummary { candidate, task, policy, class, .. } = result;
            text += &format!("{:?}\n", index.reusable(&ReuseKey { candidate, task, policy, class }).unwrap());
        }
        text += &format!("{:?}\n", index.entries_of_holdout(SEALED.0).unwrap());
        for entry in &self.entries {
            text += &format!("{:?}\n", index.findings_about(entry.record).unwrap());
        }
        text += &format!("{:?}\n", index.entries_of_node(node().public().node_id()).unwrap());
        text += &format!("{:?}\n", index.definitions(Digest(self.task().0)).unwrap());
        text
    }
}

#[test]
fn store_and_memory_give_the_same_answers() {
    let room = room();
    let (disk, opened) = room.open();
    assert!(matches!(opened, Opened::Rebuilt { .. }));
    let memory = Index::in_memory(&room.log()).unwrap();
    assert_eq!(room.answers(&disk), room.answers(&memory));
    assert_eq!(disk.root(), room.log().checkpoint().root);
    let results = disk.results_of_task(room.task(), None).unwrap();
    let leaves: Vec<u64> = results.found.iter().map(|entry| entry.leaf.0).collect();
    assert_eq!((results.as_of, leaves), (11, vec![5, 7, 9]));
    assert_eq!(disk.results_of_task(room.task(), Some(8)).unwrap().found.len(), 2);
    assert_eq!(disk.counts().found["attempt-granted"], 3);
    assert_eq!(disk.entries_of_node(node().public().node_id()).unwrap().found.len(), 4);
}

#[test]
fn a_second_opening_finds_everything_and_adds_what_is_new() {
    let mut room = room();
    drop(room.open());
    let candidate = room.world.candidate("fifth");
    let grant = room.world.grant(&candidate, 5);
    let late = room.world.granted(std::slice::from_ref(&grant));
    room.writer.append_batch(std::slice::from_ref(&late.bytes)).unwrap();
    room.entries.push(late);
    // The new entry is in the WAL alone: readers see it, the checkpoint does not.
    let (index, opened) = room.open();
    assert_eq!((opened, index.size()), (Opened::CaughtUp(1), 12));
    assert_eq!(room.answers(&index), room.answers(&Index::in_memory(&room.log()).unwrap()));
    drop(index);
    room.writer.integrate().unwrap();
    assert_eq!(room.open().1, Opened::CaughtUp(0));
}

#[test]
fn entries_applied_one_by_one_give_the_same_rows() {
    let room = room();
    let whole = Index::in_memory(&room.log()).unwrap();
    let mut single = Index { rows: Rows::memory(), meta: Meta::new(ORIGIN) };
    for (leaf, entry) in room.entries.iter().enumerate() {
        single.apply(LeafIndex(leaf as u64), &entry.bytes).unwrap();
    }
    assert_eq!(single.meta, whole.meta);
    assert_eq!(room.answers(&single), room.answers(&whole));
    let again = single.apply(LeafIndex(3), &room.entries[3].bytes).unwrap_err();
    assert!(matches!(again, IndexError::OutOfOrder { expected: 11, found: 3 }));
}

#[test]
fn a_deleted_or_damaged_index_is_rebuilt_with_the_same_answers() {
    let room = room();
    let (index, _) = room.open();
    let before = room.answers(&index);
    drop(index);
    let garbage = |name: &str| {
        std::fs::write(room.path().join(name), [0xa5; 5000]).unwrap();
    };
    let damages: [(&str, &dyn Fn()); 5] = [
        ("deleted", &|| std::fs::remove_dir_all(room.path()).unwrap()),
        ("garbage in db", &|| garbage("db")),
        ("garbage in conf", &|| garbage("conf")),
        ("a file in its place", &|| {
            std::fs::remove_dir_all(room.path()).unwrap();
            std::fs::write(room.path(), b"not a folder").unwrap();
        }),
        ("a row changed", &|| {
            let db = sled::open(room.path()).unwrap();
            db.insert(b"e\0\0\0\0\0\0\0\x05", b"x").unwrap();
        }),
    ];
    for (name, damage) in damages {
        damage();
        let (index, opened) = room.open();
        assert!(matches!(opened, Opened::Rebuilt { .. }), "{name}");
        assert_eq!(room.answers(&index), before, "{name}");
        drop(index);
        assert_eq!(room.open().1, Opened::CaughtUp(0), "{name}");
    }
}

#[test]
fn an_index_of_another_log_is_rebuilt() {
    let (first, second) = (room(), room());
    drop(first.open());
    let mut other = LogWriter::create(&second.folder.path().join("other"), signer()).unwrap();
    let mut bytes: Vec<Vec<u8>> = second.entries.iter().map(|entry| entry.bytes.clone()).collect();
    bytes.swap(4, 6);
    other.append_batch(&bytes).unwrap();
    other.integrate().unwrap();
    let log = LogReader::open(&second.folder.path().join("other"), signer().verifier()).unwrap();
    let (index, opened) = Index::open(&first.path(), &log).unwrap();
    let Opened::Rebuilt { cause } = opened else { panic!("took rows of another log") };
    assert!(cause.contains("tree head"), "{cause}");
    assert_eq!(index.root(), log.checkpoint().root);
}

#[test]
fn an_open_index_is_not_deleted_under_its_owner() {
    let room = room();
    let (_held, _) = room.open();
    assert!(matches!(Index::open(&room.path(), &room.log()), Err(IndexError::Locked)));
}

#[test]
fn only_clean_deterministic_results_answer_again() {
    let room = room();
    let index = Index::in_memory(&room.log()).unwrap();
    for entry in index.results_of_task(room.task(), None).unwrap().found {
        let result = entry.result.unwrap();
        let ResultSummary { candidate, task, policy, class, .. } = result.clone();
        let question = ReuseKey { candidate, task, policy, class };
        assert_eq!(index.reusable(&question).unwrap().found.len(), 1);
        let other = ReuseKey { class: ClassId([0; 32]), ..question };
        assert_eq!(index.reusable(&other).unwrap().found, []);
        assert!(!ResultSummary { is_dirty: true, ..result.clone() }.is_reusable());
        assert!(!ResultSummary { status: Status::Timeout, ..result }.is_reusable());
    }
}

#[test]
fn a_prefix_that_names_no_record_is_refused_with_what_to_give() {
    let index = Index::in_memory(&room().log()).unwrap();
    for bad in ["", "1234567", "zzzzzzzz", "ß2345678", &"a".repeat(65)] {
        assert!(matches!(index.records(bad), Err(QueryError::Prefix { .. })), "{bad}");
    }
    assert_eq!(index.records("00000000").unwrap().found, []);
}

#[test]
fn openings_verifications_and_findings_are_indexed_and_answer_no_search() {
    let mut room = room();
    let fast = room.world.candidate("fast");
    let (chosen, result) = {
        let entry = Entry::read(&room.entries[5].bytes).unwrap();
        (entry.record, entry.body.result().unwrap().clone())
    };
    let before = room.open().0.results_of_task(room.task(), None).unwrap().found.len();
    let grant = room.world.grant(&fast, 20);
    let verified = room.world.result(&grant, Outcome::ok(), &[]);
    let falls = (FindingJudgement::Falls, FindingScope::Record);
    let more = [
        room.world.opened(&fast, &grant, chosen, 1),
        room.world.verified(&fast, verified, chosen, 1),
        room.world.finding(&fast, (chosen, &result), "floor", falls),
    ];
    let bytes: Vec<Vec<u8>> = more.iter().map(|entry| entry.bytes.clone()).collect();
    room.writer.append_batch(&bytes).unwrap();
    room.writer.integrate().unwrap();
    room.entries.extend(more);
    let (disk, _) = room.open();
    let leaves =
        |found: Answer<Vec<EntrySummary>>| found.found.iter().map(|entry| entry.leaf.0).collect::<Vec<_>>();
    assert_eq!(leaves(disk.entries_of_holdout(SEALED.0).unwrap()), [11, 12]);
    assert_eq!(leaves(disk.findings_about(chosen).unwrap()), [13]);
    assert_eq!(disk.results_of_task(room.task(), None).unwrap().found.len(), before);
    let ResultSummary { candidate, task, policy, class, .. } =
        disk.entry(LeafIndex(12)).unwrap().found.unwrap().result.unwrap();
    let reusable = disk.reusable(&ReuseKey { candidate, task, policy, class }).unwrap();
    assert_eq!(
        leaves(reusable),
        [0u64; 0],
        "neither what a verification measured nor what fell answers a search"
    );
    let answers = room.answers(&disk);
    drop(disk);
    std::fs::remove_dir_all(room.path()).unwrap();
    let (rebuilt, opened) = room.open();
    assert!(matches!(opened, Opened::Rebuilt { .. }));
    assert_eq!(room.answers(&rebuilt), answers);
    drop(rebuilt);
    let stands = (FindingJudgement::Stands, FindingScope::Record);
    let lifted = room.world.finding(&fast, (chosen, &result), "floor", stands);
    room.writer.append_batch(&[lifted.bytes]).unwrap();
    room.writer.integrate().unwrap();
    let reusable = room.open().0.reusable(&ReuseKey { candidate, task, policy, class }).unwrap();
    assert_eq!(leaves(reusable), [5], "what was lifted answers again");
}
