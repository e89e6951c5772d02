//! One good ledger, and what is said when one thing about it is wrong.

use super::*;
use crate::entry::fixture::{ORIGIN, World, mismatch, node, operator, series, source};
use crate::entry::predicate::*;
use crate::entry::{Envelope, Sealed, Subject, seal};
use fleet_config::domain::canonical::to_bytes;
use fleet_config::domain::{Candidate, ClassId, Fence, Outcome};

struct Story {
    world: World,
    candidate: Candidate,
    entries: Vec<Sealed>,
}

/// Leaves: 0 genesis, 1 policy, 2 task, 3 node, 4 granted (fence 1), 5 lost and retried, 6 granted (fence 2),
/// 7 result, 8 refusal of the late result of fence 1.
fn story() -> Story {
    let mut world = World::new();
    let candidate = world.candidate("fast");
    let (first, second) = (world.grant(&candidate, 1), world.grant(&candidate, 2));
    let mut entries = world.opening();
    entries.push(world.granted(std::slice::from_ref(&first)));
    entries.push(world.lost(&candidate, &first, Consequence::Retried));
    entries.push(world.granted(std::slice::from_ref(&second)));
    let record = world.result(&second, Outcome::ok(), &[series("small", 2000, 1000, 10)]);
    entries.push(world.sealed_result(&candidate, record));
    let late = world.result(&first, mismatch(), &[]);
    let late = world.sealed_result(&candidate, late);
    entries.push(world.refused(&first, &late));
    Story { world, candidate, entries }
}

fn report(world: &World, entries: &[Sealed]) -> SemanticReport {
    let blobs = |digest: &Digest| Ok(world.blobs.get(digest).cloned());
    let mut check = SemanticCheck::new(ORIGIN, Box::new(blobs));
    for (leaf, sealed) in entries.iter().enumerate() {
        check.feed(LeafIndex(leaf as u64), &sealed.bytes);
    }
    check.finish()
}

fn assert_found(report: &SemanticReport, leaf: u64, place: &str, cause: &str) {
    let is_it = |finding: &&SemanticFinding| {
        finding.leaf == LeafIndex(leaf) && finding.place.contains(place) && finding.cause.contains(cause)
    };
    assert!(report.findings.iter().any(|finding| is_it(&finding)), "{:#?}", report.findings);
}

fn result_of(sealed: &Sealed) -> ResultRecord {
    Entry::read(&sealed.bytes).unwrap().body.result().unwrap().clone()
}

#[test]
fn a_good_ledger_passes_without_a_word() {
    let story = story();
    let report = report(&story.world, &story.entries);
    assert_eq!(report.findings, []);
    assert_eq!((report.entries, report.cells_closed, report.cells_open), (9, 1, 0));
    assert_eq!(report.kinds["attempt-granted"], 2);
    assert!(report.passes() && report.blobs > 5);
}

#[test]
fn a_missing_or_changed_blob_is_named_by_its_path() {
    let story = story();
    let candidate_blob = story.candidate.source.files[0].blob.blake3;
    for digest in story.world.blobs.keys() {
        let mut world = story.world.clone();
        world.blobs.remove(digest);
        let missing = report(&world, &story.entries);
        // Manifests can be made again from the candidate; nothing needs them as blobs.
        let is_manifest = *digest == story.candidate.source.document().unwrap().blob.blake3;
        assert_eq!(missing.passes(), is_manifest, "{digest:?}");
        if !is_manifest {
            assert!(missing.findings.iter().any(|f| f.place == path_of(digest) && f.cause == "missing"));
        }
    }
    let mut world = story.world.clone();
    world.blobs.get_mut(&candidate_blob).unwrap()[0] ^= 1;
    assert_found(&report(&world, &story.entries), 5, &path_of(&candidate_blob), "another blake3");
}

#[test]
fn a_wrong_size_or_sha256_in_an_entry_is_found() {
    let story = story();
    for (edit, cause) in [
        (Box::new(|r: &mut ResultRecord| r.environment.size += 1) as Box<dyn Fn(&mut ResultRecord)>, "bytes"),
        (Box::new(|r: &mut ResultRecord| r.environment.sha256.0[0] ^= 1), "SHA-256"),
    ] {
        let mut record = result_of(&story.entries[7]);
        edit(&mut record);
        let mut entries = story.entries.clone();
        entries[7] = story.world.sealed_result(&story.candidate, record);
        assert_found(&report(&story.world, &entries), 7, "blob/blake3/", cause);
    }
}

#[test]
fn a_foreign_origin_and_a_missing_genesis_are_found() {
    let story = story();
    let mut check = SemanticCheck::new("muster.invalid/other", Box::new(|_| Ok(None)));
    check.feed(LeafIndex(0), &story.entries[0].bytes);
    assert_found(&check.finish(), 0, "origin", "is not the checkpoint's");
    let without = report(&story.world, &story.entries[1..]);
    assert_eq!(without.findings.len(), 1);
    assert_found(&without, 0, "entry 0", "genesis");
}

#[test]
fn a_result_before_its_grant_or_without_one_is_found() {
    let story = story();
    let mut entries = story.entries.clone();
    entries.swap(6, 7);
    let swapped = report(&story.world, &entries);
    assert_found(&swapped, 6, "fence", "no open attempt");
    let mut entries = story.entries.clone();
    entries.drain(4..7);
    assert_found(&report(&story.world, &entries), 4, "cell", "no attempt");
}

#[test]
fn a_second_final_entry_of_a_cell_is_found() {
    let mut story = story();
    let grant = story.world.grant(&story.candidate, 2);
    let lost = story.world.lost(&story.candidate, &grant, Consequence::Final);
    story.entries.push(lost);
    assert_found(&report(&story.world, &story.entries), 9, "cell", "final entry already");
    let mut record = result_of(&story.entries[7]);
    record.finished_on = "2026-11-30T13:00:00Z".to_owned();
    story.entries[9] = story.world.sealed_result(&story.candidate, record);
    assert_found(&report(&story.world, &story.entries), 9, "cell", "final entry already");
    story.entries[9] = story.entries[8].clone();
    assert_found(&report(&story.world, &story.entries), 9, "", "twice");
}

#[test]
fn a_result_under_a_stale_fence_is_found() {
    let mut story = story();
    let first = story.world.grant(&story.candidate, 1);
    let record = story.world.result(&first, mismatch(), &[]);
    story.entries[7] = story.world.sealed_result(&story.candidate, record.clone());
    assert_found(&report(&story.world, &story.entries), 7, "fence", "no open attempt");
    story.entries.remove(5);
    story.entries[6] = story.world.sealed_result(&story.candidate, record);
    assert_found(&report(&story.world, &story.entries), 6, "fence", "stale");
}

#[test]
fn a_result_that_differs_from_its_grant_environment_or_samples_is_found() {
    let story = story();
    type Edit = fn(&mut ResultRecord);
    let edits: [(&str, Edit); 5] = [
        ("seeds", |r| r.seeds.clear()),
        ("device", |r| r.device.0.push('x')),
        ("class", |r| r.class = ClassId([1; 32])),
        ("task", |r| r.task.0[0] ^= 1),
        ("blob/blake3", |r| r.timings[0].ratio.0 += 2),
    ];
    for (place, edit) in edits {
        let mut record = result_of(&story.entries[7]);
        edit(&mut record);
        let mut entries = story.entries.clone();
        entries[7] = story.world.sealed_result(&story.candidate, record);
        assert_found(&report(&story.world, &entries), 7, place, "");
    }
    let mut entries = story.entries.clone();
    let record = result_of(&entries[7]);
    entries[7] = seal(record, Subject::of_blob("source", &story.world.task.blob), &node()).unwrap();
    assert_found(&report(&story.world, &entries), 7, "subject", "manifest");
}

#[test]
fn grants_that_do_not_fit_their_entry_are_found() {
    let mut story = story();
    let (granted, document) =
        crate::entry::seal_grants(&[story.world.grant(&story.candidate, 2)], String::new()).unwrap();
    let forged = AttemptGranted { count: 2, ..granted };
    story.entries[6] = seal(forged, Subject::of_blob("grants", &document.blob), &operator()).unwrap();
    assert_found(&report(&story.world, &story.entries), 6, "blob/blake3", "count");
    let mut foreign = story.world.grant(&story.candidate, 2);
    foreign.node.0[0] ^= 1;
    story.entries[6] = story.world.granted(&[foreign]);
    assert_found(&report(&story.world, &story.entries), 6, "fence 2", "not enrolled");
}

#[test]
fn a_refusal_that_quotes_another_result_is_found() {
    let mut story = story();
    let grant = story.world.grant(&story.candidate, 1);
    let other = story.entries[7].clone();
    story.entries[8] = story.world.refused(&grant, &other);
    assert_found(&report(&story.world, &story.entries), 8, "blob/blake3", "no result of this cell");
}

#[test]
fn a_result_that_is_retried_leaves_its_cell_open() {
    use fleet_config::domain::{Blame, Cause, Stage, Status};
    let mut story = story();
    let grant = story.world.grant(&story.candidate, 2);
    let cause = Cause { code: "prepare/disk".to_owned(), ..Cause::default() };
    let outcome = Outcome::failed(Status::Infrastructure, Stage::Prepare, Blame::Fleet, cause, "");
    let record = story.world.result(&grant, outcome, &[]);
    story.entries[7] = story.world.sealed_result(&story.candidate, record);
    let open = report(&story.world, &story.entries);
    assert_eq!((open.findings.as_slice(), open.cells_open), (&[][..], 1));
    let third = story.world.grant(&story.candidate, 3);
    assert_eq!(third.fence, Fence(3));
    story.entries.push(story.world.granted(std::slice::from_ref(&third)));
    story.entries.push(story.world.lost(&story.candidate, &third, Consequence::Final));
    let closed = report(&story.world, &story.entries);
    assert_eq!((closed.findings.as_slice(), closed.cells_closed), (&[][..], 1));
}

#[test]
fn unknown_kinds_warn_and_bad_signatures_fail() {
    let mut story = story();
    let mut value: serde_json::Value =
        serde_json::from_slice(&Envelope::parse(&story.entries[1].bytes).unwrap().payload).unwrap();
    value["predicateType"] = serde_json::json!("urn:muster:predicate:weather:v1");
    let envelope = Envelope::sign(to_bytes(&value).unwrap(), &operator());
    story.entries.push(Sealed { bytes: envelope.to_bytes().unwrap(), record: envelope.record() });
    let warned = report(&story.world, &story.entries);
    assert!(warned.passes());
    assert_found(&warned, 9, "", "not known");
    let record = result_of(&story.entries[7]);
    story.entries[7] = seal(record, source(&story.candidate), &operator()).unwrap();
    let failed = report(&story.world, &story.entries);
    assert_found(&failed, 7, "", "signed by the signing key");
    assert!(!failed.passes());
}

/// Leaves as in [`story`] up to 3, then 4 granted (fence 1), 5 the result that is chosen, 6 opened, 7 granted (fence 2),
/// 8 the verification, 9 a finding about leaf 5.
fn verified_story() -> Story {
    let mut world = World::sealing();
    let candidate = world.candidate("fast");
    let first = world.grant(&candidate, 1);
    let mut entries = world.opening();
    entries.push(world.granted(std::slice::from_ref(&first)));
    let record = world.result(&first, Outcome::ok(), &[series("small", 2000, 1000, 10)]);
    entries.push(world.sealed_result(&candidate, record.clone()));
    let chosen = entries[5].record;
    let second = other_cell(&world, &candidate, 2);
    entries.push(world.opened(&candidate, &second, chosen, 1));
    entries.push(world.granted(std::slice::from_ref(&second)));
    let result = world.result(&second, mismatch(), &[]);
    entries.push(world.verified(&candidate, result, chosen, 1));
    let falls = (FindingJudgement::Falls, FindingScope::Candidate);
    entries.push(world.finding(&candidate, (chosen, &record), "text", falls));
    Story { world, candidate, entries }
}

/// A grant of another submission's cell.
fn other_cell(world: &World, candidate: &Candidate, fence: u64) -> Grant {
    let submission = fleet_config::domain::SubmissionId([8; 32]);
    let cell = fleet_config::domain::CellId::of(submission, candidate.id().unwrap(), "cpu:x86-64-v3");
    Grant { submission, cell, ..world.grant(candidate, fence) }
}

#[test]
fn a_verification_and_a_finding_pass_without_a_word() {
    let story = verified_story();
    let report = report(&story.world, &story.entries);
    assert_eq!(report.findings, []);
    assert_eq!((report.cells_closed, report.cells_open), (2, 0));
    assert_eq!(
        (report.kinds["holdout-opened"], report.kinds["verification"], report.kinds["finding"]),
        (1, 1, 1)
    );
}

#[test]
fn an_opening_that_is_not_counted_right_is_found() {
    let story = verified_story();
    let second = other_cell(&story.world, &story.candidate, 2);
    let chosen = story.entries[5].record;
    let with = |leaf: usize, sealed: Sealed| {
        let mut entries = story.entries.clone();
        entries[leaf] = sealed;
        report(&story.world, &entries)
    };
    let again = story.world.opened(&story.candidate, &second, chosen, 2);
    assert_found(&with(6, again), 6, "opening", "follows opening 0");
    let unknown = story.world.opened(&story.candidate, &second, RecordId([9; 32]), 1);
    assert_found(&with(6, unknown), 6, "record", "no result of this name");
    let mut without = story.entries.clone();
    without.remove(6);
    assert_found(&report(&story.world, &without), 7, "holdout", "no opening was counted");
    let mut elsewhere = second.clone();
    elsewhere.device.0.push('x');
    assert_found(
        &with(6, story.world.opened(&story.candidate, &elsewhere, chosen, 1)),
        7,
        "cell",
        "another attempt",
    );
    let result = result_of(&story.entries[8]);
    let misnamed = story.world.verified(&story.candidate, result.clone(), chosen, 3);
    assert_found(&with(8, misnamed), 8, "holdout", "differ from the opening");
    let plain = story.world.sealed_result(&story.candidate, result);
    assert_found(&with(8, plain), 8, "fence", "is no verification");
    // A task that seals nothing has nothing to be opened.
    let mut world = World::new();
    let candidate = world.candidate("fast");
    let grant = world.grant(&candidate, 1);
    let mut entries = world.opening();
    entries.push(world.opened(&candidate, &grant, chosen, 1));
    assert_found(&report(&world, &entries), 4, "commitment", "seals this holdout");
}

#[test]
fn a_finding_about_nothing_or_about_something_else_is_found() {
    let mut story = verified_story();
    let record = result_of(&story.entries[5]);
    let chosen = story.entries[5].record;
    let falls = (FindingJudgement::Falls, FindingScope::Record);
    let nothing = story.world.finding(&story.candidate, (RecordId([9; 32]), &record), "floor", falls);
    let other = ResultRecord { class: ClassId([3; 32]), ..record };
    let other = story.world.finding(&story.candidate, (chosen, &other), "floor", falls);
    story.entries.extend([nothing, other]);
    let report = report(&story.world, &story.entries);
    assert_found(&report, 10, "record", "no result of this name");
    assert_found(&report, 11, "record", "another task, candidate or class");
}

#[test]
fn a_revocation_that_suspects_what_is_still_to_come_is_found() {
    let mut story = story();
    story.entries.push(story.world.revoked(3));
    assert_eq!(report(&story.world, &story.entries).findings, []);
    *story.entries.last_mut().unwrap() = story.world.revoked(10);
    assert_found(&report(&story.world, &story.entries), 9, "suspect_from", "after the revocation");
}

#[test]
fn entries_that_are_checked_together_are_judged_as_one_by_one() {
    let mut world = World::new();
    let mut sealed = world.opening();
    let fast = world.candidate("fast");
    for fence in 1..=3 {
        let grant = world.grant(&fast, fence);
        sealed.push(world.granted(std::slice::from_ref(&grant)));
        let record = world.result(&grant, mismatch(), &[]);
        sealed.push(world.sealed_result(&fast, record));
        if fence == 2 {
            // From here on the node's results are refused, also those that were checked together with this entry.
            sealed.push(world.revoked(7));
        }
    }
    let mut entries: Vec<(LeafIndex, Vec<u8>)> =
        (0..).map(LeafIndex).zip(sealed.into_iter().map(|entry| entry.bytes)).collect();
    entries.push((LeafIndex(entries.len() as u64), b"no entry".to_vec()));
    let read = |digest: &Digest| Ok(world.blobs.get(digest).cloned());
    let mut alone = SemanticCheck::new(ORIGIN, Box::new(read));
    entries.iter().for_each(|(leaf, bytes)| alone.feed(*leaf, bytes));
    let expected = alone.finish();
    assert!(expected.findings.len() >= 2, "{:#?}", expected.findings);
    for together in 1..=entries.len() {
        let mut check = SemanticCheck::new(ORIGIN, Box::new(read));
        entries.chunks(together).for_each(|part| check.feed_all(part));
        assert_eq!(check.finish(), expected, "{together} together");
    }
}
