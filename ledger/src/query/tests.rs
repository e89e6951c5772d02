//! Tests of queries: each filter finds what it names and nothing else, rows tell what their entries say, CSV is quoted.

use super::*;
use crate::entry::fixture::{World, mismatch, series};
use crate::entry::predicate::{Consequence, FindingJudgement, FindingScope};
use fleet_config::domain::{Candidate, CandidateId, Digest, LeafIndex, Outcome, Provenance};

/// A log of one task: an `ok` by an agent, its child that is wrong, a loss, and a finding.
struct Log {
    world: World,
    entries: Vec<Vec<u8>>,
    fast: CandidateId,
}

fn candidate(world: &mut World, name: &str, agent: &str, parent: Option<CandidateId>) -> Candidate {
    let plain = world.candidate(name);
    let provenance = Provenance { agent: agent.to_owned(), parent, ..Provenance::default() };
    let candidate = Candidate { provenance, ..plain };
    world.document(&candidate);
    candidate
}

fn log() -> Log {
    let mut world = World::new();
    let mut sealed = world.opening();
    let fast = candidate(&mut world, "fast", "climber", None);
    let child = candidate(&mut world, "child, of \"fast\"", "climber", fast.id().ok());
    let timed = [series("small", 2_000_000, 1_000_000, 20), series("large", 8_000_000, 4_000_000, 20)];
    let first = world.grant(&fast, 1);
    let second = world.grant(&child, 2);
    sealed.push(world.granted(&[first.clone(), second.clone()]));
    let record = world.result(&first, Outcome::ok(), &timed);
    sealed.push(world.sealed_result(&fast, record.clone()));
    let about = sealed.last().map(|entry| entry.record).unwrap();
    sealed.push(world.lost(&child, &second, Consequence::Retried));
    let third = world.grant(&child, 3);
    sealed.push(world.granted(std::slice::from_ref(&third)));
    let wrong = world.result(&third, mismatch(), &[]);
    sealed.push(world.sealed_result(&child, wrong));
    let falls = (FindingJudgement::Falls, FindingScope::Record);
    sealed.push(world.finding(&fast, (about, &record), "floor", falls));
    let fast = fast.id().unwrap();
    Log { world, entries: sealed.into_iter().map(|entry| entry.bytes).collect(), fast }
}

fn rows(log: &Log, filter: Filter) -> (Vec<Row>, Unheard) {
    let mut query = Query::new(filter);
    let mut blob = |digest: &Digest| log.world.blobs.get(digest).cloned();
    let mut rows = Vec::new();
    for (leaf, bytes) in (0..).zip(&log.entries) {
        rows.extend(query.take(LeafIndex(leaf), bytes, &mut blob));
    }
    (rows, query.unheard())
}

fn leaves(log: &Log, filter: Filter) -> Vec<u64> {
    rows(log, filter).0.iter().map(|row| row.leaf.0).collect()
}

fn words(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

#[test]
fn every_entry_is_a_row_and_rows_have_the_names_that_came_before() {
    let log = log();
    let (all, unheard) = rows(&log, Filter::default());
    assert_eq!((all.len(), unheard.len()), (log.entries.len(), 0));
    let kinds: Vec<&str> = all.iter().map(|row| row.kind.as_str()).collect();
    let expected = [
        "genesis",
        "policy",
        "task",
        "node-enrol",
        "attempt-granted",
        "result",
        "attempt-lost",
        "attempt-granted",
        "result",
        "finding",
    ];
    assert_eq!(kinds, expected);
    let ok = &all[5];
    assert_eq!(ok.task_name.as_deref(), Some("copy"));
    assert_eq!((ok.policy_name.as_deref(), ok.node_name.as_deref()), (Some("example/1"), Some("first")));
    assert_eq!((ok.candidate_name.as_deref(), ok.agent.as_deref()), (Some("fast"), Some("climber")));
    assert_eq!(ok.device_model.as_deref(), Some("Example CPU"));
    assert_eq!(ok.cases.len(), 2);
    let speedup = ok.speedup.unwrap().0;
    assert!((1_900_000_000..2_100_000_000).contains(&speedup), "{speedup}");
    assert_eq!((all[4].attempts, all[6].code.as_deref()), (Some(2), Some("node_silent")));
    assert_eq!(all[9].about, ok.record);
}

#[test]
fn each_filter_finds_what_it_names() {
    let log = log();
    let prefix = log.fast.to_string()[..8].to_owned();
    let check =
        |filter: Filter, expected: &[u64]| assert_eq!(leaves(&log, filter.clone()), expected, "{filter:?}");
    check(Filter { kinds: words("result"), ..Filter::default() }, &[5, 8]);
    check(Filter { tasks: words("copy"), ..Filter::default() }, &[2, 5, 6, 8, 9]);
    check(Filter { candidates: words("fast"), ..Filter::default() }, &[5, 9]);
    check(Filter { candidates: vec![prefix.clone()], ..Filter::default() }, &[5, 9]);
    check(Filter { candidates: vec![prefix[..7].to_owned()], ..Filter::default() }, &[]);
    check(Filter { parents: vec![log.fast.to_string()], ..Filter::default() }, &[6, 8]);
    check(Filter { agents: words("climber"), ..Filter::default() }, &[5, 6, 8, 9]);
    check(Filter { agents: words("other"), ..Filter::default() }, &[]);
    check(Filter { nodes: words("first"), ..Filter::default() }, &[3, 5, 8]);
    check(Filter { devices: words("example"), ..Filter::default() }, &[5, 8]);
    check(Filter { devices: words("CPU-0"), ..Filter::default() }, &[5, 8]);
    check(Filter { devices: words(""), ..Filter::default() }, &[]);
    check(Filter { drivers: words("580"), ..Filter::default() }, &[]);
    check(Filter { classes: words("cpu:x86-64-v3"), ..Filter::default() }, &[5, 8]);
    check(Filter { policies: words("example/1"), ..Filter::default() }, &[1, 5, 8]);
    check(Filter { statuses: vec![fleet_config::domain::Status::Ok], ..Filter::default() }, &[5]);
    let metric = |text: &str| Filter { metrics: vec![text.parse().unwrap()], ..Filter::default() };
    check(metric("speedup=1.9.."), &[5]);
    check(metric("speedup=2.2.."), &[]);
    check(metric("candidate_ps=..1100000"), &[5]);
    check(metric("resource.registers=1.."), &[]);
    let since = |text: &str| Filter { since: Some(text.parse().unwrap()), ..Filter::default() };
    assert_eq!(leaves(&log, since("2026-11-30")).len(), log.entries.len());
    check(since("2026-11-30T12:00:01Z"), &[]);
    check(Filter { until: Some("2026-11-30T12:00:00Z".parse().unwrap()), ..Filter::default() }, &[]);
    let both = Filter { tasks: words("copy"), kinds: words("finding"), ..Filter::default() };
    check(both, &[9]);
}

#[test]
fn a_name_that_nothing_has_is_told() {
    let log = log();
    let filter = Filter { tasks: vec!["copy".to_owned(), "cpoy".to_owned()], ..Filter::default() };
    let (found, unheard) = rows(&log, filter);
    assert_eq!((found.len(), unheard), (5, words("cpoy")));
}

#[test]
fn what_cannot_be_read_keeps_its_place() {
    let mut log = log();
    log.entries[6] = b"{}".to_vec();
    let (all, _) = rows(&log, Filter::default());
    assert_eq!((all.len(), all[6].kind.as_str(), all[6].record), (10, "unreadable", None));
    log.world.blobs.clear();
    let (all, _) = rows(&log, Filter::default());
    assert_eq!((all[5].candidate_name.as_deref(), all[5].device_model.as_deref()), (None, None));
}

#[test]
fn moments_and_ranges_have_one_shape() {
    for good in ["2026-11-30", "2026-11-30T12:00:00Z", "2026-11-30T12:00:00.25Z"] {
        assert!(good.parse::<Moment>().is_ok(), "{good}");
    }
    let wrong = [
        "",
        "2026",
        "30.11.2026",
        "2026-13-01",
        "2026-11-30T24:00:00Z",
        "2026-11-30 12:00:00Z",
        "2026-11-30T12:00:00+01:00",
        "2026-11-30T12:00:00.xZ",
        "äöü-11-30",
    ];
    for text in wrong {
        assert!(text.parse::<Moment>().is_err(), "{text}");
    }
    for text in [
        "speedup",
        "speedup=",
        "speedup=..",
        "speedup=2..1",
        "speedup=a..",
        "speedup=NaN..",
        "time=1..",
        "resource.=1..",
        "=1..",
    ] {
        assert!(text.parse::<MetricRange>().is_err(), "{text}");
    }
}

#[test]
fn lines_of_csv_have_the_columns_and_run_nowhere() {
    let log = log();
    let (mut all, _) = rows(&log, Filter::default());
    let line = csv::line(&all[8]);
    assert!(line.contains("\"child, of \"\"fast\"\"\""), "{line}");
    assert!(line.ends_with("\r\n"));
    assert_eq!(csv::header().split(',').count(), csv::COLUMNS.len());
    let plain = csv::line(&all[5]);
    assert_eq!(plain.split(',').count(), csv::COLUMNS.len(), "{plain}");
    all[5].candidate_name = Some("=HYPERLINK(1)".to_owned());
    assert!(csv::line(&all[5]).contains(",\"'=HYPERLINK(1)\","));
}
