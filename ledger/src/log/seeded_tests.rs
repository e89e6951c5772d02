//! Seeded crashes of the writer: random work, a crash at a random fault point, and of what was not synced a random part.
//!
//! `$MUSTER_CRASH_RUNS` asks for more runs, `$MUSTER_CRASH_SEED` for other ones; a failure names its seed.

use super::tests::{copy_folder, entries, grow, root, signer};
use super::{Checkpoint, LogReader, LogWriter};
use crate::fault::{self, FaultPoint};
use crate::stats::generator::SplitMix64;
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Runs of an ordinary test; the full count is for a machine that has nothing else to do.
const RUNS: u64 = 60;

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("${name} is no number")))
}

/// What the observer of one run shares with it.
#[derive(Default)]
struct Run {
    /// Fault points until the crash.
    left: u64,
    crashed_at: Option<FaultPoint>,
    acknowledged: u64,
    /// Bytes of the WAL that the newest sync covers.
    durable: u64,
}

fn wal_bytes(folder: &Path) -> u64 {
    fs::metadata(folder.join(".state/wal")).map_or(0, |metadata| metadata.len())
}

/// Appends and integrates by chance until the crash, which copies the folder as a dying machine leaves it.
fn crash(directory: &Path, random: &mut SplitMix64) -> (PathBuf, Run) {
    let (folder, copy) = (directory.join("ledger"), directory.join("crashed"));
    let mut writer = LogWriter::create(&folder, signer()).unwrap();
    let start = [0, 1, 3, 250, 255, 256, 510][random.below(7) as usize];
    grow(&mut writer, start);
    let run = Rc::new(RefCell::new(Run { left: random.below(40), acknowledged: start, ..Run::default() }));
    run.borrow_mut().durable = wal_bytes(&folder);
    let (seen, from, to) = (run.clone(), folder.clone(), copy.clone());
    fault::observer::set(move |point| {
        let mut run = seen.borrow_mut();
        if matches!(point, FaultPoint::WalBeforeWrite | FaultPoint::WalAfterSync | FaultPoint::WalAfterTrim) {
            run.durable = wal_bytes(&from);
        }
        if run.crashed_at.is_none() && run.left == 0 {
            run.crashed_at = Some(point);
            copy_folder(&from, &to);
        }
        run.left = run.left.saturating_sub(1);
    });
    while run.borrow().crashed_at.is_none() {
        if random.below(3) > 0 {
            let (first, count) = (writer.size(), 1 + random.below(30));
            writer.append_batch(&entries(first..first + count)).unwrap();
            if run.borrow().crashed_at.is_none() {
                run.borrow_mut().acknowledged = writer.size();
            }
        } else {
            writer.integrate().unwrap();
        }
    }
    fault::observer::clear();
    let run = run.take();
    (copy, run)
}

#[test]
fn seeded_crashes_lose_nothing_acknowledged_and_fork_nothing() {
    let (runs, first) = (setting("MUSTER_CRASH_RUNS", RUNS), setting("MUSTER_CRASH_SEED", 1));
    let mut torn = 0;
    for seed in first..first + runs {
        let mut random = SplitMix64::new(seed);
        let directory = tempfile::tempdir().unwrap();
        let (folder, run) = crash(directory.path(), &mut random);
        let point = run.crashed_at.unwrap();
        if point == FaultPoint::WalAfterWrite {
            // Nothing behind the last sync need be on the disk: any part of it may be.
            let wal = fs::read(folder.join(".state/wal")).unwrap();
            let unsynced = wal.len() as u64 - run.durable;
            let kept = (run.durable + random.below(unsynced + 1)) as usize;
            fs::write(folder.join(".state/wal"), &wal[..kept]).unwrap();
        }
        let name = format!("seed {seed}, {point}");
        let note = fs::read(folder.join("checkpoint")).unwrap();
        let before = Checkpoint::open(&note, signer().verifier()).unwrap();
        let (mut writer, report) =
            LogWriter::open(&folder, signer()).unwrap_or_else(|error| panic!("{name}: {error}"));
        torn += u64::from(report.torn.is_some());
        assert!(report.size >= run.acknowledged, "{name}: {report:?}, {} acknowledged", run.acknowledged);
        grow(&mut writer, report.size + 3);
        let now = writer.checkpoint().clone();
        assert_eq!(now.root, root(now.size), "{name}");
        drop(writer);
        let reader = LogReader::open(&folder, signer().verifier()).unwrap();
        assert_eq!(reader.root_at(before.size).unwrap(), before.root, "{name}: forked");
        let verified = crate::verify::verify_log(&folder, signer().verifier(), &mut |_, _| ());
        assert_eq!((verified.findings.as_slice(), verified.size), (&[][..], now.size), "{name}");
    }
    println!("{runs} crashes from seed {first}, {torn} with a torn tail");
}
