//! Kill tests: a child process dies at each fault point, and its log is opened and verified again.
#![cfg(debug_assertions)]
#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use ed25519_dalek::SigningKey;
use ledger::fault::FaultPoint;
use ledger::log::{LogReader, LogSigner, LogWriter};
use ledger::verify::verify_log;
use std::path::Path;
use std::process::{Command, Output};

/// Set for the child alone: the folder it writes to.
const CHILD_FOLDER: &str = "MUSTER_KILL_TEST_FOLDER";

fn signer() -> LogSigner {
    LogSigner::new("muster.invalid/kill", SigningKey::from_bytes(&[4; 32])).unwrap()
}

fn entry(index: u64) -> Vec<u8> {
    format!("entry {index}").into_bytes()
}

/// What the child does: batches of 90 entries, each acknowledged on standard output once it is committed, an
/// integration after every second one. It passes a tile's end on its way.
fn write_until_killed(folder: &Path) {
    let mut writer = LogWriter::create(folder, signer()).unwrap();
    for batch in 1..=8 {
        let entries: Vec<_> = (writer.size()..writer.size() + 90).map(entry).collect();
        writer.append_batch(&entries).unwrap();
        println!("\nacknowledged {}", writer.size());
        if batch % 2 == 0 {
            writer.integrate().unwrap();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the process under test is this test itself")]
fn child(folder: &Path, fault: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_writer_killed_at_any_fault_point_loses_nothing_that_it_acknowledged",
            "--nocapture",
        ])
        .env(CHILD_FOLDER, folder)
        .env("MUSTER_FAULT", fault)
        .output()
        .unwrap()
}

fn acknowledged(output: &Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let sizes = text.lines().filter_map(|line| line.strip_prefix("acknowledged "));
    sizes.map(|size| size.parse().unwrap()).max().unwrap_or(0)
}

#[test]
fn a_writer_killed_at_any_fault_point_loses_nothing_that_it_acknowledged() {
    if let Some(folder) = std::env::var_os(CHILD_FOLDER) {
        return write_until_killed(Path::new(&folder));
    }
    let signer = signer();
    let of_the_log =
        |point: &&FaultPoint| ["wal-", "integrate-"].iter().any(|room| point.name().starts_with(room));
    let points = FaultPoint::ALL.iter().filter(of_the_log);
    for (point, nth) in points.flat_map(|point| [(point, 1), (point, 3)]) {
        let fault = format!("{point}:{nth}");
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("ledger");
        let output = child(&folder, &fault);
        assert!(!output.status.success(), "{fault} was never reached");
        let acknowledged = acknowledged(&output);

        let (mut writer, report) = LogWriter::open(&folder, signer.clone()).unwrap();
        assert!(report.size >= acknowledged, "{fault}: {report:?}, {acknowledged} were acknowledged");
        let reader = LogReader::open(&folder, signer.verifier()).unwrap();
        let read: Vec<_> = reader.entries(0..u64::MAX).map(|entry| entry.unwrap().1).collect();
        assert_eq!(read, (0..report.size).map(entry).collect::<Vec<_>>(), "{fault}");
        writer.append_batch(&[entry(report.size)]).unwrap();
        writer.integrate().unwrap();
        let verified = verify_log(&folder, signer.verifier(), &mut |_, _| ());
        assert_eq!((verified.findings, verified.size), (Vec::new(), report.size + 1), "{fault}");
    }
}
