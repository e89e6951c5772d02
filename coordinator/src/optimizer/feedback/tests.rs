//! What each kind of verdict tells its proposer.

use super::*;
use crate::optimizer::fixture::{failed, ok, task, task_id};
use fleet_config::domain::{CheckName, Milliseconds};
use ledger::entry::predicate::CaseEvidence;
use ledger::rank::finding::Noted;

fn on(leaf: u64, results: &[RankInput]) -> Feedback {
    let task = task();
    let sources = Sources { task: &task, task_id: task_id(), results, as_of: 100 };
    Feedback::on(LeafIndex(leaf), &sources, None, &|_| None).unwrap()
}

#[test]
fn a_time_is_told_against_the_baseline_and_against_the_best_other_one() {
    let results = [ok(1, "two", 2.0), ok(2, "three", 3.0), ok(3, "level", 1.0), ok(4, "again", 2.001)];
    let two = on(1, &results);
    let own = two.to_baseline.unwrap();
    assert!((own.ratio - 2.0).abs() < 0.01 && own.low <= own.ratio && own.ratio <= own.high, "{own:?}");
    let best = two.to_best.as_ref().unwrap();
    assert_eq!(
        (best.name.as_str(), best.verdict, best.leaf),
        ("three", Comparison::Slower, Some(LeafIndex(2)))
    );
    let against = best.ratio.unwrap();
    assert!((against.ratio - 2.0 / 3.0).abs() < 0.01 && against.high < 1.0, "{against:?}");
    assert!(two.hint.starts_with("faster than the baseline and slower than the best"), "{}", two.hint);
    assert_eq!(two.cases.len(), 2);

    let three = on(2, &results);
    assert_eq!(three.to_best.as_ref().unwrap().verdict, Comparison::Faster);
    assert!(three.hint.starts_with("the best so far"), "{}", three.hint);
    assert!(on(3, &results).hint.starts_with("no difference from the baseline was shown"));
    let tie = on(4, &[ok(1, "two", 2.0), ok(4, "again", 2.001)]);
    assert_eq!(tie.to_best.as_ref().unwrap().verdict, Comparison::Tie);
    assert!(on(1, &results[..1]).hint.starts_with("the only one that is faster"));
    assert!(on(1, &[ok(1, "half", 0.5)]).hint.starts_with("slower than the baseline"));
    let text = long(&two);
    for part in
        ["status    ok at time", "baseline  ", "best      three, leaf 2", "slower than it", "registers 40"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn the_interval_against_the_best_is_the_widest_that_two_leases_leave_open() {
    let (own, best) = (Ratio { ratio: 2.0, low: 1.9, high: 2.1 }, Ratio { ratio: 4.0, low: 3.8, high: 4.2 });
    let over = own.over(&best);
    assert_eq!((over.ratio, over.low, over.high), (0.5, 0.452_381, 0.552_632));
    assert!(!own.holds_one() && Ratio { ratio: 1.01, low: 0.99, high: 1.02 }.holds_one());
}

#[test]
fn a_failure_is_told_with_its_line_its_pattern_and_a_next_step() {
    let cause = Cause {
        code: "compile/error".to_owned(),
        message: "'summ' was not declared\u{1b}[2J".to_owned(),
        source: Some(SourcePlace { file: "k.cu".to_owned(), line: 8, column: 3 }),
        ..Cause::default()
    };
    let results = [ok(1, "two", 2.0), failed(2, "broken", Status::CompileError, Blame::Candidate, cause)];
    let task = task();
    let sources = Sources { task: &task, task_id: task_id(), results: &results, as_of: 100 };
    let line = |place: &SourcePlace| (place.line == 8).then(|| "  c[i] = summ;\n".to_owned());
    let broken = Feedback::on(LeafIndex(2), &sources, None, &line).unwrap();
    assert_eq!(broken.cause.as_ref().unwrap().line.as_deref(), Some("  c[i] = summ;"));
    assert_eq!(broken.to_best.as_ref().map(|best| best.verdict), Some(Comparison::NotTimed));
    assert_eq!(broken.to_baseline, None);
    let text = short(&broken);
    assert!(
        text.starts_with("compile_error; 'summ' was not declared\u{fffd}[2J [compile/error] at k.cu:8:3"),
        "{text}"
    );
    assert!(
        text.ends_with("next: mend the first error that the compiler names") && !text.contains('\n'),
        "{text}"
    );
    assert!(long(&broken).contains("          |   c[i] = summ;"), "{}", long(&broken));

    let mismatch = Mismatch {
        output: "c".to_owned(),
        index: 36,
        coordinates: vec![0, 36],
        expected: "1.5".to_owned(),
        got: "nan".to_owned(),
        absolute_error: None,
        relative_error: None,
        count: 31,
        total: 1147,
        pattern: "last column".to_owned(),
        worst: None,
    };
    let cause = Cause { code: "validate/mismatch".to_owned(), mismatch: Some(mismatch), ..Cause::default() };
    let wrong = on(5, &[failed(5, "wrong", Status::WrongResult, Blame::Candidate, cause)]);
    assert!(short(&wrong).contains("31 of 1147 elements of `c`: last column"), "{}", short(&wrong));
    assert!(long(&wrong).contains("first at [0, 36]: expected 1.5, got nan"), "{}", long(&wrong));
}

#[test]
fn the_fleets_own_fault_is_charged_to_nobody() {
    let lost = failed(5, "unlucky", Status::Infrastructure, Blame::Fleet, Cause::default());
    assert!(on(5, &[lost]).hint.contains("it counts for nothing"));
}

#[test]
fn every_status_has_a_next_step() {
    for status in Status::ALL.into_iter().filter(|status| *status != Status::Ok) {
        let feedback = on(5, &[failed(5, "it", status, Blame::Candidate, Cause::default())]);
        assert!(!feedback.hint.is_empty(), "{status}");
    }
}

#[test]
fn what_fell_says_so_and_is_no_best_any_more() {
    let mut fallen = ok(1, "cheat", 40.0);
    let judged = fallen.judged();
    fallen.findings.push(Noted {
        leaf: LeafIndex(9),
        finding: RecordId([99; 32]),
        about: judged.record,
        task: judged.task,
        candidate: judged.candidate,
        class: judged.class,
        detector: ledger::entry::predicate::DetectorName { name: "floor".to_owned(), version: 1 },
        judgement: ledger::entry::predicate::FindingJudgement::Falls,
        scope: ledger::entry::predicate::FindingScope::Record,
        code: "floor/memory".to_owned(),
        cause: "faster than the memory".to_owned(),
    });
    let results = [fallen, ok(2, "honest", 2.0)];
    let cheat = on(1, &results);
    assert_eq!(cheat.fallen.as_deref(), Some("faster than the memory [floor/memory], entry 9"));
    assert_eq!(cheat.to_baseline, None);
    assert_eq!(on(2, &results).to_best, None, "nobody else stands");
}

#[test]
fn earlier_attempts_of_the_same_candidate_are_no_competitors() {
    let mut again = ok(7, "two", 2.1);
    again.record.candidate = ok(1, "two", 2.0).record.candidate;
    let feedback = on(1, &[ok(1, "two", 2.0), again]);
    assert_eq!(feedback.to_best, None);
    assert!(feedback.to_baseline.is_some(), "also where a later attempt is what is ranked");
}

#[test]
fn checks_that_found_nothing_are_not_told() {
    let check = |name: &str, finding: CheckFinding| fleet_config::domain::CheckEvidence {
        check: name.parse::<CheckName>().unwrap(),
        case: String::new(),
        cases: 1,
        draws: 1,
        launches: 1,
        finding,
        detail: "the same as the baseline".to_owned(),
        took: Milliseconds(1),
    };
    let evidence = Evidence {
        cases: Vec::<CaseEvidence>::new(),
        checks: vec![check("smoke/1", CheckFinding::NoFaultFound), check("label/1", CheckFinding::Labelled)],
    };
    let task = task();
    let results = [ok(1, "two", 2.0)];
    let sources = Sources { task: &task, task_id: task_id(), results: &results, as_of: 100 };
    let feedback = Feedback::on(LeafIndex(1), &sources, Some(&evidence), &|_| None).unwrap();
    assert_eq!(feedback.checks.len(), 1);
    assert!(Feedback::on(LeafIndex(3), &sources, None, &|_| None).is_none(), "no result there");
}
