//! Campaigns: parameter search on the sample task, killed in the middle and resumed, and a command that proposes.

use crate::{CLASS, PATIENCE};
use fleet_tests::fleet::{Fleet, checkout};
use fleet_tests::process::{Process, Signal};
use fleet_tests::saxpy::{self, RIGHT, kernel};
use fleet_tests::wait::until;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&text(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn utf8(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_search_improves_the_sample_and_a_kill_in_the_middle_loses_and_repeats_nothing() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task("scripts/sample");
    let (state, out) = (utf8(&fleet.state()), utf8(&fleet.path("results")));
    let template = utf8(&checkout().join("scripts/sample/search/tiles.toml"));
    let arguments = [
        "--state",
        &state,
        "optimize",
        "matmul-f32",
        "--template",
        &template,
        "--iterations",
        "7",
        "--out",
        &out,
    ];
    let mut process = Process::start("muster", &arguments, &fleet.path("optimize.log"), &[]);
    let run = fleet.path("results/run-001");
    until("the third attempt to be under way", PATIENCE, || {
        assert!(process.ended().is_none(), "it ended early:\n{}", process.log());
        let is_second_over = run.join("attempts/0002/result.json").is_file();
        (is_second_over && run.join("attempts/0003/proposal.json").is_file()).then_some(())
    });
    process.signal(Signal::Kill);
    process.wait();
    let before: Vec<Value> =
        (0..3).map(|n| json(&run.join(format!("attempts/{n:04}/result.json")))).collect();
    assert_eq!(fleet.refusal(&["optimize", "--resume", &state])["code"], "campaign/no-campaign");

    let summary = fleet.json(&["optimize", "--resume", &utf8(&run)]);
    for (number, before) in before.iter().enumerate() {
        assert_eq!(&json(&run.join(format!("attempts/{number:04}/result.json"))), before, "attempt {number}");
    }
    assert!(summary["geomean_speedup"].as_f64().is_some_and(|best| best >= 1.5), "{summary:#}");
    assert!(summary["interval"]["low"].as_f64().is_some_and(|low| low > 1.0), "{summary:#}");
    assert_eq!((&summary["termination"], &summary["iterations"]), (&"max_iterations".into(), &7.into()));
    assert_eq!(summary["rerun"]["confirms"], true, "{summary:#}");
    assert_eq!(summary["holdout"]["passed"], true, "{summary:#}");
    assert_eq!(summary["conditions"]["the_real_workload_gains"], "not_measured");
    result_folder(&run);

    // Eight attempts and the independent run are nine submissions; a repeated attempt would be a tenth.
    let submissions: std::collections::BTreeSet<_> =
        fleet.book().results.iter().map(|(_, _, result)| result.submission).collect();
    assert_eq!(submissions.len(), 9);
    assert_eq!((fleet.book().opened.len(), fleet.book().verifications.len()), (1, 1));
    // Once more there is nothing left to do.
    let again = fleet.json(&["optimize", "--resume", &utf8(&run)]);
    assert_eq!(again["best_record"], summary["best_record"]);
    assert_eq!(fleet.book().opened.len(), 1);
    fleet.verify();
}

/// Every file of the result folder, and that they agree.
fn result_folder(run: &Path) {
    let (history, summary) = (json(&run.join("history.json")), json(&run.join("summary.json")));
    let attempts = history.as_array().expect("a list");
    assert_eq!(attempts.len(), 8, "the baseline and seven proposals");
    let best = summary["best_iteration"].as_u64().expect("a number") as usize;
    assert_eq!(attempts[best]["source_sha256"], summary["best_source_sha256"]);
    assert_eq!(attempts[best]["decision"], "keep");
    let mut best_so_far = 0.0;
    for attempt in attempts.iter().filter(|attempt| attempt["decision"] == "keep") {
        let ratio = attempt["ratio"]["ratio"].as_f64().expect("a ratio");
        assert!(ratio > best_so_far, "the best only moves forward: {history:#}");
        best_so_far = ratio;
    }
    assert_eq!(text(&run.join("best.cu")), text(&run.join(format!("attempts/{best:04}/source.cu"))));
    let table = text(&run.join("results.tsv"));
    assert_eq!(table.lines().count(), 9, "{table}");
    assert!(table.lines().all(|line| line.split('\t').count() == 10), "{table}");
    for (number, case) in [(1, "square"), (2, "oblong")] {
        let request = json(&run.join(format!("best-case-{number}.json")));
        assert_eq!((&request["case"], &request["kernel"]), (&case.into(), &"matmul".into()));
        assert_eq!(request["record"], summary["best_record"]);
        assert!(request["grid"].is_array() && !request["seeds"].as_array().expect("seeds").is_empty());
    }
    assert!(text(&run.join("heatmap.svg")).contains("<rect "));
    assert_eq!(&std::fs::read(run.join("heatmap.png")).expect("a picture")[1..4], b"PNG");
}

/// A command that answers with what lies in numbered files, one for each request.
fn proposer(fleet: &Fleet, answers: &[String]) -> PathBuf {
    for (number, answer) in answers.iter().enumerate() {
        fleet.write(&format!("answer-{}", number + 1), answer.as_bytes());
    }
    let folder = utf8(&fleet.path(""));
    let script =
        format!("n=0\nwhile read -r request; do\n  n=$((n + 1))\n  cat \"{folder}/answer-$n\"\ndone\n");
    fleet.write("propose.sh", script.as_bytes())
}

#[test]
fn a_command_proposes_and_what_it_gets_wrong_is_an_attempt_that_failed() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    let folder = saxpy::task_with(&fleet, "small", &[]);
    fleet.json(&["task", "add", &utf8(&folder)]);
    let answer = |source: &str| {
        let usage = serde_json::json!({ "calls": 1, "tokens_in": 100, "tokens_out": 7 });
        format!(
            "{}\n",
            serde_json::json!({ "source": source, "words": "a try", "model": "m-1", "usage": usage })
        )
    };
    let wrong = kernel("", "  if (i < n) z[i] = 0.25f;\n");
    let answers = [
        answer(&kernel("", RIGHT)),
        answer(&wrong),
        answer("extern \"C\" __global__ void oops(\n"),
        "no JSON at all\n".to_owned(),
        "{\"stop\": \"enough\"}\n".to_owned(),
    ];
    let script = proposer(&fleet, &answers);
    let (out, command) = (utf8(&fleet.path("results")), format!("sh {}", utf8(&script)));
    let summary = fleet.json(&[
        "optimize",
        "small",
        "--proposer",
        "command",
        "--command",
        &command,
        "--iterations",
        "20",
        "--out",
        &out,
        "--no-verify",
    ]);
    let run = fleet.path("results/run-001");
    let history = json(&run.join("history.json"));
    let told: Vec<(&str, &str)> = history
        .as_array()
        .expect("a list")
        .iter()
        .map(|attempt| {
            (attempt["status"].as_str().unwrap_or_default(), attempt["reason"].as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(told[1].0, "valid", "{told:?}");
    assert_eq!((told[2].0, told[3].0), ("rejected", "rejected"), "{told:?}");
    assert_eq!(told[4], ("rejected", "proposer/failed"), "what is no JSON is kept as a failure");
    assert_eq!(history.as_array().map(Vec::len), Some(5));
    // Whoever answers with what is no JSON is asked again, in the same process.
    assert_eq!(summary["termination"], "proposer_stopped: enough", "{summary:#}");
    assert_eq!(summary["usage"]["tokens_in"], 300);
    assert_eq!(json(&run.join("model-0003.json"))["total"]["calls"], 3);
    assert!(text(&run.join("attempts/0002/source.cu")).contains("0.25f"), "what failed is kept");
    fleet.verify();
}
