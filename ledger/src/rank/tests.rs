//! Order, ties, rejections, and that the same question gives the same bytes.

use super::*;
use crate::entry::fixture::{World, mismatch, series, task};
use crate::entry::predicate::{FindingJudgement, FindingScope};
use crate::entry::{Entry, Sealed};
use fleet_config::domain::canonical::to_bytes;
use fleet_config::domain::*;

/// One result of `name` with these (baseline, candidate) times of the two performance cases.
fn ok(world: &mut World, name: &str, fence: u64, times: [(u64, u64); 2]) -> Sealed {
    let candidate = world.candidate(name);
    let grant = world.grant(&candidate, fence);
    let cases = [series("small", times[0].0, times[0].1, 20), series("large", times[1].0, times[1].1, 20)];
    let record = world.result(&grant, Outcome::ok(), &cases);
    world.sealed_result(&candidate, record)
}

fn failed(world: &mut World, name: &str, fence: u64, outcome: Outcome) -> Sealed {
    let candidate = world.candidate(name);
    let grant = world.grant(&candidate, fence);
    let record = world.result(&grant, outcome, &[]);
    world.sealed_result(&candidate, record)
}

fn inputs(world: &World, entries: &[Sealed]) -> Vec<RankInput> {
    let numbered = entries.iter().enumerate().map(|(leaf, e)| (LeafIndex(leaf as u64), e.bytes.clone()));
    let mut blob = |digest: &Digest| world.blobs.get(digest).cloned();
    collect(TaskId(world.task.digest().0), numbered, &mut blob).unwrap().1
}

fn ranking(world: &World, entries: &[Sealed], as_of: u64) -> Ranking {
    rank(&task(), TaskId(world.task.digest().0), inputs(world, entries), as_of, SandboxLevel::None)
}

fn names(table: &Table) -> Vec<(&str, Place)> {
    table.rows.iter().map(|row| (row.name.as_str(), row.place.clone())).collect()
}

#[test]
fn fast_ones_come_first_the_baseline_stands_at_one_and_overlaps_are_ties() {
    let mut world = World::new();
    let entries = [
        ok(&mut world, "slower", 1, [(1000, 2000), (1000, 2000)]),
        ok(&mut world, "twice", 2, [(20000, 10000), (20000, 10000)]),
        ok(&mut world, "twice again", 3, [(20000, 9990), (20000, 9990)]),
        ok(&mut world, "mixed", 4, [(40000, 10000), (10000, 10000)]),
        ok(&mut world, "four times", 5, [(40000, 10000), (40000, 10000)]),
    ];
    let ranking = ranking(&world, &entries, 5);
    let [table] = ranking.tables.as_slice() else { panic!("one class: {ranking:#?}") };
    let expected = [
        ("four times", Place::Rank(1)),
        ("twice again", Place::Rank(2)),
        ("mixed", Place::Rank(2)),
        ("twice", Place::Rank(2)),
        ("baseline", Place::Baseline),
        ("slower", Place::Rank(5)),
    ];
    let mut found = names(table);
    found[1..4].sort_by_key(|(name, _)| expected.iter().position(|(other, _)| other == name));
    assert_eq!(found, expected);
    let score = table.rows[0].score.0;
    assert!(score.abs_diff(4_000_000_000) < 40_000_000, "{score}");
    assert_eq!(table.notice, CPU_NOTICE);
}

#[test]
fn tie_groups_do_not_chain() {
    let row = |leaf, score, low, high| {
        let scaled = |x: u64| PartsPerBillion(x * 1_000_000_000);
        (leaf, scaled(score), scaled(low), scaled(high))
    };
    // b overlaps a, c overlaps b but not a.
    let rows = [row(0, 30, 26, 34), row(1, 25, 22, 28), row(2, 20, 16, 24)];
    let places = table::place_for_test(&rows);
    assert_eq!(places, [1, 1, 3]);
}

#[test]
fn rejected_candidates_are_counted_with_their_reasons_and_fleet_faults_charged_to_nobody() {
    let mut world = World::new();
    let cause = Cause { code: "prepare/disk".to_owned(), ..Cause::default() };
    let fleet = Outcome::failed(Status::Infrastructure, Stage::Prepare, Blame::Fleet, cause, "");
    let entries = [
        failed(&mut world, "wrong", 1, mismatch()),
        ok(&mut world, "lucky", 2, [(2000, 1000), (2000, 1000)]),
        failed(&mut world, "lucky", 3, mismatch()),
        failed(&mut world, "unlucky", 4, fleet),
    ];
    let ranking = ranking(&world, &entries, 4);
    let table = &ranking.tables[0];
    let [group] = table.rejected.as_slice() else { panic!("{table:#?}") };
    assert_eq!((group.status, group.candidates.len()), (Status::WrongResult, 1));
    assert_eq!(group.candidates[0].name, "wrong");
    assert_eq!(group.candidates[0].code, "validate/mismatch");
    let lucky = &table.rows[0];
    assert_eq!((lucky.name.as_str(), lucky.attempts, lucky.failed), ("lucky", 2, 1));
    assert_eq!(table.fleet_faults.len(), 1);
    assert_eq!(table.attempts, 4);
    let text = render::render(&ranking);
    for part in [
        "not ranked, wrong_result: 1",
        "3 of 9 elements differ",
        "check the last row",
        "1 of 2 attempts failed",
        "charged to nobody",
        CPU_NOTICE,
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn the_latest_ok_counts_and_earlier_sizes_answer_as_they_did() {
    let mut world = World::new();
    let mut entries = vec![ok(&mut world, "it", 1, [(2000, 1000), (2000, 1000)])];
    let early = ranking(&world, &entries, 1);
    entries.push(ok(&mut world, "it", 2, [(3000, 1000), (3000, 1000)]));
    let late = ranking(&world, &entries, 2);
    assert_eq!(late.tables[0].rows.len(), 2);
    assert!(late.tables[0].rows[0].score > early.tables[0].rows[0].score);
    assert_eq!(to_bytes(&ranking(&world, &entries, 1)).unwrap(), to_bytes(&early).unwrap());
    assert_eq!(render::render(&ranking(&world, &entries, 1)), render::render(&early));
    let mut shuffled = inputs(&world, &entries);
    shuffled.reverse();
    let id = TaskId(world.task.digest().0);
    assert_eq!(rank(&task(), id, shuffled, 2, SandboxLevel::None), late);
}

#[test]
fn gpus_and_cpus_and_other_classes_never_share_a_table() {
    let mut world = World::new();
    let entries = [
        ok(&mut world, "a", 1, [(2000, 1000), (2000, 1000)]),
        ok(&mut world, "b", 2, [(2000, 1000), (2000, 1000)]),
        ok(&mut world, "c", 3, [(2000, 1000), (2000, 1000)]),
    ];
    let mut results = inputs(&world, &entries);
    results[1].record.device_kind = DeviceKind::Gpu;
    results[1].record.architecture = "nvidia:sm_90a".parse().unwrap();
    results[2].record.class = ClassId([9; 32]);
    let ranking = rank(&task(), TaskId(world.task.digest().0), results, 3, SandboxLevel::None);
    let kinds: Vec<_> =
        ranking.tables.iter().map(|t| (t.device_kind, t.rows.len(), t.notice.clone())).collect();
    let cpu = (DeviceKind::Cpu, 2, CPU_NOTICE.to_owned());
    assert_eq!(kinds, [(DeviceKind::Gpu, 2, String::new()), cpu.clone(), cpu]);
}

#[test]
fn what_only_compiled_is_never_ranked() {
    let mut world = World::new();
    let entries = [
        ok(&mut world, "a", 1, [(2000, 1000), (2000, 1000)]),
        ok(&mut world, "b", 2, [(2000, 1000), (2000, 1000)]),
        failed(&mut world, "c", 3, mismatch()),
    ];
    let mut results = inputs(&world, &entries);
    for result in &mut results[1..] {
        result.record.device_kind = DeviceKind::Compile;
        result.record.architecture = "nvidia:sm_90a".parse().unwrap();
    }
    let ranking = rank(&task(), TaskId(world.task.digest().0), results, 3, SandboxLevel::None);
    let kinds: Vec<_> = ranking.tables.iter().map(|table| table.device_kind).collect();
    assert_eq!(kinds, [DeviceKind::Cpu]);
    assert!(ranking.tables[0].rejected.is_empty() && ranking.tables[0].rows.len() == 2);
}

#[test]
fn an_ok_without_samples_of_every_case_is_not_ranked() {
    let mut world = World::new();
    let entries = [ok(&mut world, "it", 1, [(2000, 1000), (2000, 1000)])];
    let record = Entry::read(&entries[0].bytes).unwrap();
    let samples = record.body.result().unwrap().timings[1].samples.blake3;
    let whole = ranking(&world, &entries, 1);
    assert_eq!(whole.tables[0].rows.len(), 2);
    world.blobs.remove(&samples);
    let ranking = ranking(&world, &entries, 1);
    assert_eq!(ranking.tables[0].rows.len(), 0);
    assert_eq!(ranking.tables[0].rejected[0].candidates[0].code, "rank/samples");
}

#[test]
fn what_did_not_compile_is_listed_with_what_it_competed_with() {
    let mut world = World::new();
    let entries = [
        ok(&mut world, "built", 1, [(2000, 1000), (2000, 1000)]),
        failed(&mut world, "broken", 2, mismatch()),
        failed(&mut world, "elsewhere", 3, mismatch()),
    ];
    let mut results = inputs(&world, &entries);
    let build = crate::entry::predicate::Build {
        key: Digest([1; 32]),
        compiler: "g++ 12".to_owned(),
        flags: Vec::new(),
        artefact: None,
        resources: std::collections::BTreeMap::new(),
    };
    results[0].record.build = Some(build);
    results[1].record.class = ClassId([9; 32]);
    results[2].record.class = ClassId([9; 32]);
    results[2].device_model = "another model".to_owned();
    let ranking = rank(&task(), TaskId(world.task.digest().0), results, 3, SandboxLevel::None);
    let listed: Vec<(usize, usize)> =
        ranking.tables.iter().map(|t| (t.rows.len(), t.rejected.len())).collect();
    assert_eq!(listed, [(2, 1), (0, 1)]);
}

#[test]
fn a_name_cannot_move_the_cursor() {
    let mut world = World::new();
    let entries = [failed(&mut world, "evil\u{1b}[2J\nname", 1, mismatch())];
    let text = render::render(&ranking(&world, &entries, 1));
    assert!(!text.contains('\u{1b}') && text.contains("evil [2J name"), "{text}");
}

#[test]
fn the_rendered_table_looks_like_this() {
    let mut world = World::new();
    let entries = [
        ok(&mut world, "twice", 1, [(20000, 10000), (20000, 10000)]),
        failed(&mut world, "wrong", 2, mismatch()),
    ];
    let text = render::render(&ranking(&world, &entries, 2));
    println!("{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("ranking of copy (") && lines[0].ends_with(") as of 2 entries"));
    assert!(lines[2].starts_with("cpu:x86-64-v3 · Example CPU · class "));
    assert!(lines[4].contains("1  twice") && lines[4].contains("×"), "{}", lines[4]);
    assert!(lines[5].contains("–  baseline") && lines[5].ends_with("1.000×"), "{}", lines[5]);
    assert_eq!(lines.last(), Some(&"  The order on a CPU says nothing about GPUs."));
}

#[test]
fn a_weaker_sandbox_is_left_out_when_asked_and_told_when_not() {
    let mut world = World::new();
    let entries = [
        ok(&mut world, "confined", 1, [(2000, 1000), (2000, 1000)]),
        ok(&mut world, "closely", 2, [(2000, 1000), (2000, 1000)]),
        ok(&mut world, "strangely", 3, [(2000, 1000), (2000, 1000)]),
    ];
    let id = TaskId(world.task.digest().0);
    let rank_from = |least| {
        let mut given = inputs(&world, &entries);
        for (input, word) in given.iter_mut().zip(["kernel", "full", "of a later version"]) {
            input.record.sandbox = word.to_owned();
        }
        rank(&task(), id, given, 3, least)
    };
    let rows = |ranking: &Ranking| ranking.tables[0].rows.iter().filter(|row| row.record.is_some()).count();
    let all = rank_from(SandboxLevel::None);
    assert_eq!((rows(&all), all.tables[0].weakest_sandbox), (3, SandboxLevel::None));
    let kernel = rank_from(SandboxLevel::Kernel);
    assert_eq!((rows(&kernel), kernel.tables[0].weakest_sandbox), (2, SandboxLevel::Kernel));
    let full = rank_from(SandboxLevel::Full);
    assert_eq!((rows(&full), full.tables[0].weakest_sandbox), (1, SandboxLevel::Full));
    let text = render::render(&full);
    assert!(text.contains("only results of sandbox level full or closer"), "{text}");
    assert!(text.contains("sandbox: full or closer in every result"), "{text}");
}

#[test]
fn results_validated_by_fewer_stages_say_so_and_labels_stand_beside_their_row() {
    let mut world = World::new();
    let entries = [ok(&mut world, "copy", 1, [(2000, 1999), (2000, 1999)])];
    let mut inputs = inputs(&world, &entries);
    let asked = |inputs: Vec<RankInput>| {
        let ranking = rank(&task(), TaskId(world.task.digest().0), inputs, 1, SandboxLevel::None);
        render::render(&ranking)
    };
    assert!(!asked(inputs.clone()).contains("fewer stages"));
    inputs[0].left_out = vec![OptionalStage::Shapes, OptionalStage::Determinism];
    inputs[0].policy_name = "cpu-paired/1+stages=smoke,stress".to_owned();
    inputs[0].remarks = vec!["same as the baseline\u{1b}[2J".to_owned()];
    let text = asked(inputs);
    assert!(text.contains("without shapes, determinism (policy cpu-paired/1+stages=smoke,stress)"), "{text}");
    assert!(text.contains("same as the baseline [2J"), "{text}");
}

/// A ledger in which `fast` beats `slow`, with its entries in order: 0 fast, 1 slow.
fn two() -> (World, Vec<Sealed>) {
    let mut world = World::new();
    let entries = vec![
        ok(&mut world, "fast", 1, [(40000, 10000), (40000, 10000)]),
        ok(&mut world, "slow", 2, [(20000, 10000), (20000, 10000)]),
    ];
    (world, entries)
}

fn judge(
    world: &mut World,
    entries: &mut Vec<Sealed>,
    about: usize,
    detector: &str,
    said: (FindingJudgement, FindingScope),
) {
    let entry = Entry::read(&entries[about].bytes).unwrap();
    let result = entry.body.result().unwrap().clone();
    let name = if about == 0 { "fast" } else { "slow" };
    let candidate = world.candidate(name);
    let finding = world.finding(&candidate, (entry.record, &result), detector, said);
    entries.push(finding);
}

#[test]
fn what_a_finding_brings_down_is_listed_as_fallen_and_the_others_move_up() {
    let (mut world, mut entries) = two();
    let before = ranking(&world, &entries, 2);
    let falls = (FindingJudgement::Falls, FindingScope::Record);
    judge(&mut world, &mut entries, 0, "floor", falls);
    let after = ranking(&world, &entries, 3);
    assert_eq!(names(&after.tables[0]), [("slow", Place::Rank(1)), ("baseline", Place::Baseline)]);
    let [fallen] = after.tables[0].fallen.as_slice() else { panic!("one fell: {after:#?}") };
    assert_eq!(
        (fallen.name.as_str(), fallen.finding_leaf, fallen.leaf),
        ("fast", LeafIndex(2), LeafIndex(0))
    );
    assert_eq!(fallen.score, Some(before.tables[0].rows[0].score), "what it scored stays to be seen");
    assert!(after.tables[0].rejected.is_empty(), "it failed nothing");
    let text = render::render(&after);
    assert!(text.contains("fallen after it was ranked: 1") && text.contains("--as-of 2"), "{text}");
    assert_eq!(ranking(&world, &entries, 2), before, "the ranking of then is what it was");
    assert!(to_bytes(&after).is_ok());
}

#[test]
fn a_candidate_rises_again_by_a_new_result_or_when_the_finding_is_lifted() {
    let (mut world, mut entries) = two();
    judge(&mut world, &mut entries, 0, "stages", (FindingJudgement::Falls, FindingScope::Class));
    entries.push(ok(&mut world, "fast", 7, [(30000, 10000), (30000, 10000)]));
    let again = ranking(&world, &entries, 4);
    assert_eq!(names(&again.tables[0])[0], ("fast", Place::Rank(1)));
    assert_eq!(again.tables[0].rows[0].leaf, Some(LeafIndex(3)), "by the result that came after the finding");
    assert_eq!(again.tables[0].fallen.len(), 1, "and what fell is still told");
    judge(&mut world, &mut entries, 0, "stages", (FindingJudgement::Stands, FindingScope::Class));
    assert!(ranking(&world, &entries, 5).tables[0].fallen.is_empty());
    judge(&mut world, &mut entries, 0, "text", (FindingJudgement::Falls, FindingScope::Candidate));
    let gone = ranking(&world, &entries, 6);
    assert_eq!(names(&gone.tables[0])[0], ("slow", Place::Rank(1)), "every result of this source fell");
    entries.push(ok(&mut world, "fast", 8, [(30000, 10000), (30000, 10000)]));
    assert_eq!(names(&ranking(&world, &entries, 7).tables[0])[0].0, "slow", "later ones too");
}

#[test]
fn a_label_is_shown_beside_the_row_and_changes_no_rank() {
    let (mut world, mut entries) = two();
    let before = ranking(&world, &entries, 2);
    judge(&mut world, &mut entries, 1, "text", (FindingJudgement::Labelled, FindingScope::Candidate));
    let after = ranking(&world, &entries, 3);
    assert_eq!(names(&after.tables[0]), names(&before.tables[0]));
    let row = after.tables[0].rows.iter().find(|row| row.name == "slow").unwrap();
    assert_eq!((row.labels[0].code.as_str(), row.labels[0].leaf), ("text/baseline", LeafIndex(2)));
    assert!(render::render(&after).contains("text/1 says text/baseline"));
}

#[test]
fn what_a_revoked_node_measured_falls_from_the_suspected_entry_on() {
    let (world, mut entries) = two();
    let before = ranking(&world, &entries, 2);
    entries.push(world.revoked(1));
    let after = ranking(&world, &entries, 3);
    assert_eq!(names(&after.tables[0])[0].0, "fast", "measured before");
    let [fallen] = after.tables[0].fallen.as_slice() else { panic!("{after:#?}") };
    assert_eq!((fallen.name.as_str(), fallen.code.as_str()), ("slow", "node/revoked"));
    assert!(
        fallen.cause.contains("suspect from entry 1") && fallen.cause.contains("tampered"),
        "{}",
        fallen.cause
    );
    assert_eq!(ranking(&world, &entries, 2), before);
    let (world, mut entries) = two();
    entries.push(world.revoked(2));
    assert!(ranking(&world, &entries, 3).tables[0].fallen.is_empty(), "nothing is suspected");
}

/// A copy of the baseline: the source that the task's baseline has.
fn copy(world: &mut World, fence: u64, times: [(u64, u64); 2]) -> Sealed {
    let candidate = world.candidate("kernel");
    let grant = world.grant(&candidate, fence);
    let cases = [series("small", times[0].0, times[0].1, 20), series("large", times[1].0, times[1].1, 20)];
    let record = world.result(&grant, Outcome::ok(), &cases);
    world.sealed_result(&candidate, record)
}

fn row<'a>(ranking: &'a Ranking, name: &str) -> &'a RankRow {
    ranking.tables[0].rows.iter().find(|row| row.name == name).unwrap()
}

#[test]
fn one_lease_claims_nothing_and_three_do_and_say_who_saw_it() {
    let mut world = World::new();
    let mut entries = vec![ok(&mut world, "twice", 1, [(20000, 10000), (20000, 10000)])];
    let alone = ranking(&world, &entries, 1);
    assert_eq!(
        (row(&alone, "twice").claim, row(&alone, "twice").reach),
        (Claim::OneLeaseOnly, Reach::SingleLease)
    );
    let text = render::render(&alone);
    assert!(
        text.contains("single lease; single witness") && text.contains("claims nothing beyond"),
        "{text}"
    );
    for (fence, time) in [(2, 10010), (3, 9990)] {
        entries.push(ok(&mut world, "twice", fence, [(20000, time), (20000, time)]));
    }
    let three = ranking(&world, &entries, 3);
    let found = row(&three, "twice");
    assert_eq!((found.claim, found.reach, found.leases), (Claim::Faster, Reach::Leases, 3));
    assert_eq!((found.boards, found.nodes), (1, 1), "one board, one node: a single witness");
    assert!(render::render(&three).contains("single witness; 3 leases, boards: 1"));
    assert!(found.low < found.score && found.score < found.high && found.detectable.0 > 1_000_000_000);
    assert_eq!(three.intervals, ["median-batch-ranks/1", "hierarchical-bootstrap-t/1"]);
}

#[test]
fn what_copies_of_the_baseline_reach_is_no_difference() {
    let mut world = World::new();
    let mut entries = vec![
        ok(&mut world, "slightly", 1, [(20000, 19800), (20000, 19800)]),
        ok(&mut world, "twice", 2, [(20000, 10000), (20000, 10000)]),
    ];
    for (fence, time) in [(3, 20200), (4, 19850), (5, 20150), (6, 19800)] {
        entries.push(copy(&mut world, fence, [(20000, time), (20000, time)]));
    }
    let ranking = ranking(&world, &entries, 6);
    let floor = ranking.tables[0].noise_floor.clone().unwrap();
    assert_eq!(floor.results, 4);
    assert!((1_015_000_000..1_050_000_000).contains(&floor.bound.0), "{floor:?}");
    assert_eq!(row(&ranking, "slightly").claim, Claim::NoDifference);
    assert_eq!(row(&ranking, "twice").claim, Claim::Faster, "a single lease, and the floor is known");
    assert!(row(&ranking, "kernel").is_copy && !row(&ranking, "twice").is_copy);
    assert!(render::render(&ranking).contains("noise floor"));
}
