//! Tests of bundles: a sound one holds, every changed byte is found, and what it lacks is named.

use super::archive::{pack, unpack};
use super::*;
use crate::entry::fixture::{ORIGIN, World, mismatch, series};
use crate::entry::predicate::{Consequence, FindingJudgement, FindingScope};
use crate::log::{LogReader, LogSigner, LogWriter};
use ed25519_dalek::SigningKey;
use fleet_config::domain::{Digest, Outcome};

fn signer() -> LogSigner {
    LogSigner::new(ORIGIN, SigningKey::from_bytes(&[9; 32])).unwrap()
}

struct Ledger {
    _directory: tempfile::TempDir,
    log: LogReader,
    world: World,
    /// Leaf of the judged `ok`, and of a result of another candidate.
    ok: LeafIndex,
    other: LeafIndex,
}

/// A result whose first attempt was lost, a finding about it, and attempts of another candidate around it.
fn ledger() -> Ledger {
    let directory = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let mut sealed = world.opening();
    let (fast, slow) = (world.candidate("fast"), world.candidate("slow"));
    let (lost, first) = (world.grant(&fast, 1), world.grant(&slow, 2));
    sealed.push(world.granted(&[lost.clone(), first.clone()]));
    sealed.push(world.lost(&fast, &lost, Consequence::Retried));
    let wrong = world.result(&first, mismatch(), &[]);
    let other = LeafIndex(sealed.len() as u64);
    sealed.push(world.sealed_result(&slow, wrong));
    let again = world.grant(&fast, 3);
    sealed.push(world.granted(std::slice::from_ref(&again)));
    let timed = [series("small", 2_000_000, 1_000_000, 20), series("large", 8_000_000, 4_000_000, 20)];
    let record = world.result(&again, Outcome::ok(), &timed);
    let ok = LeafIndex(sealed.len() as u64);
    sealed.push(world.sealed_result(&fast, record.clone()));
    let about = sealed.last().map(|entry| entry.record).unwrap();
    let labelled = (FindingJudgement::Labelled, FindingScope::Record);
    sealed.push(world.finding(&fast, (about, &record), "text", labelled));
    let folder = directory.path().join("ledger");
    let mut writer = LogWriter::create(&folder, signer()).unwrap();
    writer.append_batch(&sealed.iter().map(|entry| entry.bytes.clone()).collect::<Vec<_>>()).unwrap();
    writer.integrate().unwrap();
    drop(writer);
    let log = LogReader::open(&folder, signer().verifier()).unwrap();
    Ledger { _directory: directory, log, world, ok, other }
}

fn bundle(ledger: &Ledger, leaf: LeafIndex) -> (Files, Manifest) {
    collect(&ledger.log, leaf, &mut |digest: &Digest| ledger.world.blobs.get(digest).cloned()).unwrap()
}

#[test]
fn a_bundle_holds_what_its_verdict_rests_on_and_nothing_of_others() {
    let ledger = ledger();
    let (files, manifest) = bundle(&ledger, ledger.ok);
    let kinds: Vec<&str> = manifest.entries.iter().map(|entry| entry.kind.as_str()).collect();
    let expected = [
        "genesis",
        "policy",
        "task",
        "node-enrol",
        "attempt-granted",
        "attempt-lost",
        "attempt-granted",
        "result",
        "finding",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(manifest.missing, [""; 0]);
    let packed = pack(&files).unwrap();
    assert_eq!(packed, pack(&bundle(&ledger, ledger.ok).0).unwrap(), "the same bundle has the same bytes");
    let report = check(&unpack(&packed).unwrap(), signer().verifier());
    assert_eq!(report.faults, []);
    assert!(report.verified && report.status == Some(fleet_config::domain::Status::Ok));
    let (files, manifest) = bundle(&ledger, ledger.other);
    assert_eq!(manifest.entries.len(), 6);
    assert_eq!(check(&files, signer().verifier()).faults, []);
    let readme = String::from_utf8(files[README].clone()).unwrap();
    assert!(readme.contains(&manifest.record.to_string()) && readme.contains("verify-bundle"), "{readme}");
}

#[test]
fn only_results_under_the_checkpoint_have_one() {
    let ledger = ledger();
    let mut blob = |digest: &Digest| ledger.world.blobs.get(digest).cloned();
    let error = collect(&ledger.log, LeafIndex(0), &mut blob).unwrap_err();
    assert!(matches!(error, CollectError::NotAResult { .. }), "{error}");
    let error = collect(&ledger.log, LeafIndex(99), &mut blob).unwrap_err();
    assert!(matches!(error, CollectError::NotIntegrated { .. }), "{error}");
}

#[test]
fn a_changed_byte_in_any_file_but_the_page_for_people_is_found() {
    let ledger = ledger();
    let (files, _) = bundle(&ledger, ledger.ok);
    for (path, content) in files.iter().filter(|(path, _)| *path != README) {
        for at in [0, content.len() / 3, content.len() / 2, content.len() - 1] {
            let mut changed = files.clone();
            changed.get_mut(path).unwrap()[at] ^= 1;
            assert!(!check(&changed, signer().verifier()).verified, "{path} byte {at}");
        }
    }
}

#[test]
fn what_is_gone_or_added_is_named() {
    let ledger = ledger();
    let (files, manifest) = bundle(&ledger, ledger.ok);
    for path in files.keys().filter(|path| *path != README) {
        let mut without = files.clone();
        without.remove(path);
        let report = check(&without, signer().verifier());
        // The manifest of sources is kept for people; its digest is the subject that the candidate gives.
        let helpful = path.starts_with("blob/") && report.verified;
        assert!(helpful || !report.faults.is_empty(), "{path}");
    }
    let with = |path: &str, bytes: &[u8]| {
        let mut files = files.clone();
        files.insert(path.to_owned(), bytes.to_vec());
        check(&files, signer().verifier()).faults
    };
    assert_eq!(with("stray", b"x")[0].cause, "no part of a bundle");
    assert_eq!(with(&proof_path(LeafIndex(70)), b"x")[0].cause, "no part of a bundle");
    assert_eq!(with(&blob_path(&Digest::of(b"x")), b"x"), []);
    // An entry that the manifest leaves out: the result then has no grant, and the check says so.
    let mut shorter = manifest.clone();
    shorter.entries.retain(|entry| entry.kind != "attempt-granted");
    let mut files = files.clone();
    files.insert(MANIFEST.to_owned(), fleet_config::domain::canonical::to_bytes(&shorter).unwrap());
    let faults = check(&files, signer().verifier()).faults;
    assert!(
        faults.iter().any(|fault| fault.cause.contains("no open attempt of this cell has fence")),
        "{faults:?}"
    );
}

#[test]
fn another_logs_key_believes_nothing() {
    let ledger = ledger();
    let (files, _) = bundle(&ledger, ledger.ok);
    let other = LogSigner::new(ORIGIN, SigningKey::from_bytes(&[8; 32])).unwrap();
    let report = check(&files, other.verifier());
    assert!(!report.verified && report.faults[0].place == CHECKPOINT, "{report:?}");
    let mut lost = ledger.world.blobs.clone();
    lost.clear();
    let (files, manifest) =
        collect(&ledger.log, ledger.ok, &mut |digest: &Digest| lost.get(digest).cloned()).unwrap();
    assert!(!manifest.missing.is_empty());
    assert!(!check(&files, signer().verifier()).verified);
}
