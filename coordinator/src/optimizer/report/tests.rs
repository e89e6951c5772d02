//! The files of a result folder, from attempts of every kind.

use super::*;
use crate::optimizer::attempt::{CaseOutcome, Decision, Verdict};
use crate::optimizer::campaign::Budget;
use crate::optimizer::campaign::tests::attempt;
use crate::optimizer::feedback::{CaseRatio, Ratio};
use crate::optimizer::fixture::task;
use crate::optimizer::search::Strategy;
use crate::optimizer::settings::{ProposerSettings, Rule};
use fleet_config::domain::{MeasurementPolicy, Seed, Status};
use serde_json::Value;

fn settings() -> Settings {
    Settings {
        format: Settings::FORMAT.to_owned(),
        campaign: "00".repeat(16),
        task: "11".repeat(32),
        task_name: "matmul-f32".to_owned(),
        entry: "matmul".to_owned(),
        class: "cpu:x86-64-v3".to_owned(),
        policy: None,
        fresh: false,
        parallel: 1,
        proposer: ProposerSettings::Search { strategy: Strategy::Exhaustive },
        budget: Budget {
            iterations: 3,
            device_seconds: None,
            wall_seconds: None,
            target: None,
            plateau: None,
            gain_min: 0.01,
        },
        rule: Rule { share: Some(0.6), payback_months: Some(12.0), words: "twice as fast".to_owned() },
        started_on: "2026-11-30T12:00:00Z".to_owned(),
    }
}

fn timed(mut attempt: Attempt) -> Attempt {
    let measured = attempt.measured.as_mut().unwrap();
    let ratio = measured.ratio.unwrap().ratio;
    let timing = |case: &str, baseline_ns: f64| CaseOutcome {
        case: case.to_owned(),
        validated: true,
        absolute_error_max: Some("1e-6".to_owned()),
        timing: Some(CaseRatio {
            case: case.to_owned(),
            pairs: 30,
            baseline_ns,
            candidate_ns: baseline_ns / ratio,
            ratio,
        }),
    };
    measured.cases = vec![timing("square", 4e6), timing("oblong<", 9e6)];
    attempt
}

/// The baseline, a step forward, a failure with a tab in its words, and what says nothing.
fn attempts() -> Vec<Attempt> {
    let mut wrong = attempt(2, Decision::Failed, None);
    let measured = wrong.measured.as_mut().unwrap();
    measured.verdict = Verdict::Failed;
    measured.status = Some(Status::WrongResult);
    measured.code = "validate/mismatch".to_owned();
    measured.told = "wrong_result;\tlast column\nof c".to_owned();
    let mut lost = attempt(3, Decision::Masked, None);
    lost.measured.as_mut().unwrap().verdict = Verdict::Masked;
    vec![
        timed(attempt(0, Decision::Baseline, Some(1.0))),
        timed(attempt(1, Decision::Keep, Some(2.0))),
        wrong,
        lost,
    ]
}

fn with<T>(attempts: &[Attempt], ending: &Ending, see: impl FnOnce(&Story<'_>) -> T) -> T {
    let (settings, termination) = (settings(), StopReason::MaxIterations);
    see(&Story { settings: &settings, attempts, termination: Some(&termination), ending, elapsed_ms: 36_000 })
}

#[test]
fn the_table_has_autokernels_columns_and_no_text_makes_a_row_of_its_own() {
    let text = with(&attempts(), &Ending::default(), tsv);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 5, "a header and four attempts:\n{text}");
    assert!(rows.iter().all(|row| row.len() == 10), "{text}");
    assert_eq!(rows[0][6], "speedup_vs_pytorch");
    assert_eq!(&rows[1][..3], ["0", "baseline", "matmul"]);
    assert_eq!((rows[2][1], rows[2][4], rows[2][6], rows[2][7]), ("kept", "3000.0000", "2.0000", "PASS"));
    assert_eq!((rows[3][1], rows[3][6], rows[3][7]), ("failed", "", "FAIL"));
    assert!(rows[3][9].contains("\\tlast column\\nof c"), "{}", rows[3][9]);
}

#[test]
fn the_history_has_every_attempt_with_its_cases_and_launches() {
    let (task, launched) = (task(), std::cell::RefCell::new(Vec::new()));
    let launch_of = |attempt: &Attempt, case: &str| {
        launched.borrow_mut().push((attempt.proposal.iteration, case.to_owned()));
        let case = task.cases.iter().find(|one| one.name == case);
        case.map_or(Value::Null, |case| launch(&task.baseline.plan, case))
    };
    let found = with(&attempts(), &Ending::default(), |story| history(story, &launch_of));
    let list = found.as_array().unwrap();
    assert_eq!(list.len(), 4);
    assert_eq!(
        (&list[1]["status"], &list[2]["status"], &list[3]["status"]),
        (&"valid".into(), &"rejected".into(), &"masked".into())
    );
    assert_eq!(list[0]["origin"], "initial");
    assert_eq!(list[1]["cases"][0]["launch"]["grid"], serde_json::json!([16, 16, 1]));
    assert_eq!(list[1]["cases"][0]["latency_ms"], 2.0);
    assert!((list[1]["geomean_ms"].as_f64().unwrap() - 3.0).abs() < 1e-9);
    assert_eq!(list[2]["reason"], "validate/mismatch");
    assert_eq!(launched.borrow().len(), 4);
}

#[test]
fn the_summary_tells_the_best_the_counts_and_what_nobody_has_measured() {
    let found = with(&attempts(), &Ending::default(), Summary::of);
    assert_eq!((found.best_iteration, found.valid, found.rejected, found.masked), (1, 1, 1, 1));
    assert_eq!(found.cases["square"].speedup, 2.0);
    assert_eq!(found.termination.as_deref(), Some("max_iterations"));
    assert_eq!(found.reasons["validate/mismatch"], 1);
    assert!((found.minimum_detectable_change.unwrap() - 0.01).abs() < 1e-9);
    assert_eq!((found.experiments_per_hour, found.experiments_per_night), (Some(400.0), Some(3200.0)));
    assert!((found.whole_speedup_estimate.unwrap() - 1.0 / 0.7).abs() < 1e-9);
    assert_eq!(found.conditions["the_real_workload_gains"], Condition::NotMeasured);
    assert_eq!(found.verdict, "undecided", "nothing is claimed that was not measured");
    let none = with(&attempts()[..1], &Ending::default(), Summary::of);
    assert_eq!((none.best_iteration, none.geomean_speedup, none.verdict), (0, 1.0, "drop"));
}

#[test]
fn a_broken_condition_drops_the_winner_and_what_looks_odd_is_flagged() {
    let mut rerun = attempts()[1].measured.clone().unwrap();
    rerun.ratio = Some(Ratio { ratio: 1.001, low: 0.99, high: 1.01 });
    let holdout =
        |passed| HoldoutOutcome { passed: Some(passed), cause: String::new(), record: None, openings: 1 };
    let ending = Ending { rerun: Some(rerun.clone()), holdout: Some(holdout(true)) };
    let found = with(&attempts(), &ending, Summary::of);
    assert_eq!(found.conditions["beats_the_baseline_repeatedly"], Condition::Broken);
    assert_eq!(found.conditions["independent_cases_pass"], Condition::Met);
    assert_eq!((found.verdict, found.flags.len()), ("drop", 1), "{:?}", found.flags);
    rerun.ratio = Some(Ratio { ratio: 2.0, low: 1.99, high: 2.01 });
    let ending = Ending { rerun: Some(rerun), holdout: Some(holdout(false)) };
    let mut same = attempts();
    same[1].proposal.source_sha256 = same[0].proposal.source_sha256.clone();
    let found = with(&same, &ending, Summary::of);
    assert_eq!(found.verdict, "drop", "a sealed case failed");
    assert!(found.flags[0].contains("the baseline's, byte for byte"), "{:?}", found.flags);
}

#[test]
fn the_maps_open_and_show_every_cell() {
    let text = with(&attempts(), &Ending::default(), svg);
    assert_eq!(text.matches("<rect ").count(), 4 * 2, "iterations by cases:\n{text}");
    assert!(
        text.contains("oblong&lt;") && text.contains("<title>rejected</title>") && text.contains("2.000×")
    );
    let file = with(&attempts(), &Ending::default(), png);
    let side = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!((side(16), side(20)), (4 * 26 + 2, 2 * 26 + 2 + 4));
    let nothing = with(&[], &Ending::default(), png);
    assert_eq!(&nothing[1..4], b"PNG");
}

#[test]
fn a_replay_request_has_the_harness_fields_and_says_how_inputs_are_drawn() {
    let task = task();
    let case = task.cases.iter().find(|case| case.name == "square").unwrap();
    let policy = MeasurementPolicy::cpu_paired();
    let chosen = Chosen {
        plan: &task.baseline.plan,
        policy: Some(&policy),
        seeds: &[Seed(7)],
        record: "abc",
        latency_ms: Some(2.0),
    };
    let request = with(&attempts(), &Ending::default(), |story| replay(story, &task, case, &chosen));
    assert_eq!((&request["kernel"], &request["source"]), (&"matmul".into(), &"best.cu".into()));
    assert_eq!(request["block"], serde_json::json!([16, 16, 1]));
    let arguments = request["arguments"].as_array().unwrap();
    assert_eq!(arguments.len(), 6);
    assert_eq!((&arguments[0]["direction"], &arguments[0]["bytes"]), (&"input".into(), &262_144.into()));
    assert_eq!((&arguments[5]["kind"], &arguments[5]["value"]), (&"scalar".into(), &256.into()));
    assert!(arguments[0]["draw"].is_object(), "{request:#}");
}
