//! Disks that are full or read-only, files that are damaged or cut, ports that are taken: said, and nothing lost.

use crate::{CLASS, PATIENCE};
use fleet_tests::fleet::Fleet;
use fleet_tests::process::run;
use fleet_tests::saxpy;
use fleet_tests::small_disk::SmallDisk;
use fleet_tests::wait::until;
use ledger::log::{LogSigner, LogWriter};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

/// Size of the file system of the full-disk tests: enough for an empty ledger with its index.
const DISK_MIB: u32 = 24;

/// Everything that the coordinator says when it does not start.
fn refused_start(fleet: &mut Fleet) -> String {
    let before = fleet.log("coordinator.log").len();
    let status = fleet.try_start_coordinator(&[]).expect("the coordinator must refuse to start");
    let said = fleet.log("coordinator.log")[before..].to_owned();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// Writes until nothing more fits.
fn fill(path: &Path) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file can be made");
    for size in [1 << 16, 1 << 12, 1 << 9, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
    let _full = file.sync_all();
}

#[test]
fn a_coordinator_on_a_full_disk_refuses_and_loses_nothing() {
    let mut fleet = Fleet::stopped();
    let disk = match SmallDisk::mount(&fleet.state(), DISK_MIB) {
        Ok(disk) => disk,
        Err(cause) => return println!("SKIPPED: {cause}"),
    };
    fleet.start_coordinator(&[]);
    fleet.add_node(CLASS);
    fleet.add_task(saxpy::TASK);
    let on = ["--on", CLASS];
    let before = fleet.submit("saxpy", &saxpy::good_ones(&fleet, "before", 1), &on);
    assert_eq!(before[0]["state"], "finished");
    let receipt =
        fleet.try_submit("saxpy", &saxpy::good_ones(&fleet, "running", 4), &on).expect("acknowledged");
    let ballast = fleet.state().join("ballast");
    fill(&ballast);

    let candidates = saxpy::good_ones(&fleet, "full", 1);
    let refusal = fleet.refusal(&["submit", "saxpy", candidates[0].to_str().expect("UTF-8"), "--on", CLASS]);
    println!("on a full disk: {refusal}");
    for part in ["code", "cause", "next"] {
        assert!(refusal[part].as_str().is_some_and(|text| !text.is_empty()), "{refusal:#}");
    }
    // The work that was accepted goes on as far as it can; then the writer says why it stopped, or the process ends.
    until("the coordinator to notice", PATIENCE, || {
        let ended = fleet.coordinator.as_mut().is_none_or(|coordinator| coordinator.ended().is_some());
        let log = fleet.log("coordinator.log");
        (ended || log.contains("No space left") || log.contains("os error 28")).then_some(())
    });
    assert!(!fleet.log("coordinator.log").contains("panicked"), "{}", fleet.log("coordinator.log"));
    fleet.kill_coordinator();
    std::fs::remove_file(&ballast).expect("the ballast can go");

    fleet.start_coordinator(&[]);
    let cells = fleet.await_over(std::slice::from_ref(&receipt), PATIENCE);
    assert!(cells.iter().all(|cell| cell["state"] == "finished"), "{cells:#?}");
    let after = fleet.submit("saxpy", &candidates, &on);
    assert_eq!(after[0]["state"], "finished");
    let book = fleet.book();
    book.assert_settled(&receipt.cells);
    assert_eq!(book.results.len(), 6);
    fleet.verify();
    fleet.kill_coordinator();
    drop(disk);
}

#[test]
fn a_read_only_state_folder_is_refused_and_still_read() {
    let mut fleet = Fleet::stopped();
    let disk = match SmallDisk::mount(&fleet.state(), DISK_MIB) {
        Ok(disk) => disk,
        Err(cause) => return println!("SKIPPED: {cause}"),
    };
    fleet.start_coordinator(&[]);
    fleet.add_task(saxpy::TASK);
    fleet.json(&["ledger", "checkpoint"]);
    fleet.kill_coordinator();
    disk.read_only();
    let said = refused_start(&mut fleet);
    assert!(said.contains("state/not-writable"), "{said}");
    fleet.verify();
    assert_eq!(fleet.json(&["ledger", "vkey"])["vkey"].as_str().map(str::is_empty), Some(false));
    disk.writable();
    fleet.start_coordinator(&[]);
    assert_eq!(fleet.json(&["task", "list"])[0]["name"], "saxpy");
    fleet.kill_coordinator();
    drop(disk);
}

#[test]
fn a_port_in_use_is_refused_by_name() {
    let fleet = Fleet::new();
    let listening = fleet.json(&["status"])["listening"].as_str().expect("an address").to_owned();
    let other = fleet.path("other");
    let output =
        run("muster-coordinator", &["--state", other.to_str().expect("UTF-8"), "--listen", &listening]);
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("listen/port-in-use") && said.contains(&listening), "{said}");
    // The same folder twice is refused too, and the one that runs goes on.
    let state = fleet.state();
    let output = run("muster-coordinator", &["--state", state.to_str().expect("UTF-8")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("state/in-use"), "{said}");
    fleet.json(&["status"]);
}

#[test]
fn a_journal_damaged_in_the_middle_is_refused_and_a_torn_tail_is_cut() {
    let mut fleet = Fleet::new();
    fleet.add_task(saxpy::TASK);
    let mut receipts = Vec::new();
    for name in ["one", "two", "three"] {
        let candidates = saxpy::good_ones(&fleet, name, 2);
        receipts.extend(fleet.try_submit("saxpy", &candidates, &["--on", CLASS]));
    }
    fleet.kill_coordinator();
    let path = fleet.state().join("journal");
    let sound = std::fs::read(&path).expect("a journal");

    let mut flipped = sound.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    std::fs::write(&path, &flipped).expect("writable");
    let said = refused_start(&mut fleet);
    assert!(said.contains("state/journal") && said.contains("at byte"), "{said}");
    assert_eq!(std::fs::read(&path).expect("a journal"), flipped, "nothing is repaired silently");

    let torn = [sound.as_slice(), &sound[sound.len() / 2..sound.len() / 2 + 50]].concat();
    std::fs::write(&path, &torn).expect("writable");
    fleet.start_coordinator(&[]);
    let kept = fleet.state().join(format!("journal.torn-{}", sound.len()));
    assert_eq!(std::fs::read(kept).expect("what was cut off is kept").len(), 50);
    assert!(fleet.log("coordinator.log").contains("torn"), "{}", fleet.log("coordinator.log"));
    for receipt in &receipts {
        let cells = fleet.cells(&receipt.submission).expect("every submission is still known");
        assert!(cells.len() == 2 && cells.iter().all(|cell| cell["state"] == "queued"), "{cells:#?}");
    }
    let more = fleet.try_submit("saxpy", &saxpy::good_ones(&fleet, "four", 1), &["--on", CLASS]);
    assert!(more.is_some(), "it goes on");
    fleet.verify();
}

#[test]
fn a_wal_damaged_in_the_middle_is_refused_and_a_torn_tail_is_cut() {
    let mut fleet = Fleet::new();
    fleet.add_task(saxpy::TASK);
    fleet.json(&["ledger", "checkpoint"]);
    fleet.kill_coordinator();
    let ledger = fleet.state().join("ledger");
    let path = ledger.join(".state/wal");
    let sound = std::fs::read(&path).expect("a WAL");

    // Batches that were committed and not integrated, as a crash leaves them.
    let key = std::fs::read_to_string(fleet.state().join("keys/log.vkey")).expect("a key");
    let verifier: ledger::log::VerifierKey = key.trim().parse().expect("a key");
    let seed = std::fs::read(fleet.state().join("keys/log")).expect("a seed");
    let seed: [u8; 32] = seed.as_slice().try_into().expect("32 bytes");
    let signer = LogSigner::new(verifier.name(), ed25519(seed)).expect("the same name");
    let (mut writer, _) = LogWriter::open(&ledger, signer).expect("a sound log");
    for batch in 0..3 {
        writer.append_batch(&[format!("entry of batch {batch}").into_bytes()]).expect("room");
    }
    drop(writer);
    let mut flipped = std::fs::read(&path).expect("a WAL");
    assert!(flipped.len() > sound.len());
    let at = flipped.windows(16).position(|window| window == b"entry of batch 0").expect("the first batch");
    flipped[at] ^= 1;
    std::fs::write(&path, &flipped).expect("writable");
    let said = refused_start(&mut fleet);
    assert!(said.contains("state/ledger") && said.contains("byte"), "{said}");
    assert_eq!(std::fs::read(&path).expect("a WAL"), flipped, "nothing is repaired silently");

    let tail = &flipped[flipped.len() - 30..];
    std::fs::write(&path, [sound.as_slice(), tail].concat()).expect("writable");
    fleet.start_coordinator(&[]);
    assert!(fleet.log("coordinator.log").contains("unfinished write"), "{}", fleet.log("coordinator.log"));
    assert_eq!(fleet.json(&["task", "list"])[0]["name"], "saxpy");
    let more = fleet.try_submit("saxpy", &saxpy::good_ones(&fleet, "more", 1), &["--on", CLASS]);
    assert!(more.is_some(), "it goes on");
    fleet.json(&["ledger", "checkpoint"]);
    fleet.verify();
}

fn ed25519(seed: [u8; 32]) -> ed25519_dalek::SigningKey {
    ed25519_dalek::SigningKey::from_bytes(&seed)
}
