//! Tests of audits: every attempt is counted with what came of it, whatever its owner would rather not show.

use super::*;
use crate::entry::fixture::{World, mismatch, series};
use crate::entry::predicate::{Consequence, FindingJudgement, FindingScope, LossReason};
use fleet_config::domain::Outcome;

fn audit(world: &World, entries: &[Vec<u8>], leaf: usize) -> AuditReport {
    let mut blob = |digest: &Digest| world.blobs.get(digest).cloned();
    let entry = Entry::read(&entries[leaf]).unwrap();
    let mut audit = Audit::of(LeafIndex(leaf as u64), &entry, &mut blob).unwrap();
    for (at, bytes) in (0..).zip(entries) {
        audit.take(LeafIndex(at), bytes, &mut blob);
    }
    audit.finish()
}

#[test]
fn losses_retries_refusals_openings_and_findings_are_all_there() {
    let mut world = World::sealing();
    let mut sealed = world.opening();
    let (fast, other) = (world.candidate("fast"), world.candidate("other"));
    let timed = [series("small", 2_000_000, 1_000_000, 20), series("large", 8_000_000, 4_000_000, 20)];
    let (lost, again, theirs) = (world.grant(&fast, 1), world.grant(&fast, 3), world.grant(&other, 2));
    sealed.push(world.granted(&[lost.clone(), theirs.clone()]));
    sealed.push(world.lost(&fast, &lost, Consequence::Retried));
    let wrong = world.result(&theirs, mismatch(), &[]);
    sealed.push(world.sealed_result(&other, wrong));
    sealed.push(world.granted(std::slice::from_ref(&again)));
    let late = world.result(&lost, Outcome::ok(), &timed);
    let late = world.sealed_result(&fast, late);
    sealed.push(world.refused(&lost, &late));
    let record = world.result(&again, Outcome::ok(), &timed);
    let leaf = sealed.len();
    sealed.push(world.sealed_result(&fast, record.clone()));
    let about = sealed[leaf].record;
    let hidden = world.grant(&fast, 9);
    sealed.push(world.granted(std::slice::from_ref(&hidden)));
    let verifying = world.grant(&fast, 20);
    sealed.push(world.opened(&fast, &verifying, about, 1));
    sealed.push(world.granted(std::slice::from_ref(&verifying)));
    let checked = world.result(&verifying, mismatch(), &[]);
    sealed.push(world.verified(&fast, checked, about, 1));
    let falls = (FindingJudgement::Falls, FindingScope::Record);
    sealed.push(world.finding(&fast, (about, &record), "floor", falls));
    sealed.push(world.revoked(0));
    let entries: Vec<Vec<u8>> = sealed.into_iter().map(|entry| entry.bytes).collect();

    let report = audit(&world, &entries, leaf);
    let Counts { attempts, submissions, cells, ok, failed, lost, open, refused } = report.counts;
    assert_eq!((attempts, submissions, cells), (4, 1, 1));
    assert_eq!((ok, failed, lost, open, refused), (1, 1, 1, 1, 1));
    assert_eq!(report.retries.len(), 1);
    assert_eq!((report.retries[0].cause.as_str(), report.retries[0].leaf), ("node_silent", LeafIndex(5)));
    assert!(matches!(report.attempts[0].ending, AttemptEnding::Lost { reason: LossReason::NodeSilent, .. }));
    assert_eq!(report.attempts[2].ending, AttemptEnding::Open, "granted and never heard of again");
    assert_eq!((report.openings.len(), report.openings_of_other_candidates), (1, 0));
    let detectors: Vec<&str> = report.findings.iter().map(|finding| finding.detector.as_str()).collect();
    assert_eq!(detectors, ["floor/1", "node-revoke/1"]);
    assert_eq!(report.fallen_by, Some(LeafIndex(entries.len() as u64 - 2)));
    assert_eq!(report.revocations.len(), 1);
    assert_eq!((report.task_attempts, report.task_candidates), (5, 2));
    assert_eq!((report.class_results, report.class_candidates, report.class_candidates_ok), (2, 2, 1));
    assert_eq!(report.class_statuses.get("wrong_result"), Some(&1));

    let theirs = audit(&world, &entries, 6);
    assert_eq!((theirs.counts.attempts, theirs.counts.failed), (1, 1));
    assert_eq!((theirs.openings.len(), theirs.openings_of_other_candidates), (0, 1));
    assert_eq!(theirs.findings.iter().filter(|finding| finding.detector == "floor/1").count(), 0);
}

#[test]
fn grants_that_cannot_be_read_are_counted_as_such() {
    let mut world = World::new();
    let mut sealed = world.opening();
    let fast = world.candidate("fast");
    let grant = world.grant(&fast, 1);
    sealed.push(world.granted(std::slice::from_ref(&grant)));
    let record = world.result(&grant, mismatch(), &[]);
    sealed.push(world.sealed_result(&fast, record));
    let entries: Vec<Vec<u8>> = sealed.into_iter().map(|entry| entry.bytes).collect();
    world.blobs.retain(|_, bytes| !bytes.starts_with(b"[{\"candidate\""));
    let report = audit(&world, &entries, 5);
    assert_eq!((report.grants_unreadable, report.counts.attempts), (1, 1));
    assert_eq!(report.attempts[0].granted, None);
    let mut blob = |_: &Digest| None;
    assert!(Audit::of(LeafIndex(0), &Entry::read(&entries[0]).unwrap(), &mut blob).is_none());
}
