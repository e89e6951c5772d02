//! Judging again what is recorded: entries say what fell, rankings show it, and nothing changes silently.

use crate::{CLASS, PATIENCE};
use fleet_tests::fleet::{Fleet, checkout};
use fleet_tests::saxpy::{self, kernel};
use ledger::entry::predicate::{FindingJudgement, FindingScope};
use serde_json::Value;
use std::path::PathBuf;

/// The baseline with other names, layout and comments.
fn forward() -> String {
    let text =
        std::fs::read_to_string(checkout().join(saxpy::TASK).join("baseline.cu")).expect("the fixture");
    let renamed = text.replace("int i ", "int place ").replace("[i]", "[place]").replace("(i ", "(place ");
    assert_ne!(renamed, text, "the baseline has a variable `i`");
    format!("/* entirely my own */\n{}", renamed.replace("  ", "\t"))
}

/// Right, and one read past the end of its shared array, which only a screen sees.
fn sneaky() -> String {
    kernel(
        "",
        "  __shared__ float s[256]; float* p = s; p[threadIdx.x] = x[i < n ? i : 0]; __syncthreads();\n  float extra = p[threadIdx.x + 1] * 0.0f;\n  if (i < n) z[i] = 2.5f * x[i] + y[i] + (extra == 0.0f ? extra : 0.0f);",
    )
}

/// The table of this class; runs under other screens have tables of their own.
fn table_of<'a>(ranking: &'a Value, class: &Value) -> &'a Value {
    let mut tables = ranking["tables"].as_array().expect("tables").iter();
    tables.find(|table| table["class"] == *class).unwrap_or_else(|| panic!("no {class}: {ranking:#}"))
}

fn line<'a>(table: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    table[list].as_array().expect("a list").iter().find(|line| line["name"] == name)
}

/// The index is lost and made again; what fell answers nobody, and the ranking of then is what it was.
fn assert_lasts(fleet: &mut Fleet, sneaky: PathBuf, size: u64, tables: &Value) {
    fleet.kill_coordinator();
    std::fs::remove_dir_all(fleet.state().join("ledger/index")).expect("the index can be lost");
    fleet.start_coordinator(&[]);
    fleet.await_ready(1);
    let receipt = fleet.try_submit("saxpy", &[sneaky], &["--on", CLASS]).expect("acknowledged");
    assert_eq!(receipt.reused, 0, "what fell answers nobody");
    fleet.await_over(&[receipt], PATIENCE);
    assert_eq!(fleet.json(&["rank", "saxpy", "--as-of", &size.to_string()])["tables"], *tables);
    let report = fleet.verify();
    assert_eq!(report["report"]["kinds"]["finding"], 2, "{report:#}");
}

#[test]
fn what_a_detector_finds_becomes_entries_and_rankings_show_what_fell_and_why() {
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let honest = saxpy::good_ones(&fleet, "honest", 1).remove(0);
    let forward = fleet.write("forward.cu", forward().as_bytes());
    let sneaky = fleet.write("sneaky.cu", sneaky().as_bytes());
    let all = [honest, forward, sneaky.clone()];
    let cells = fleet.submit("saxpy", &all, &["--on", CLASS]);
    for cell in &cells {
        let outcome = fleet.record_of(cell)["statement"]["predicate"]["outcome"].clone();
        assert_eq!(outcome["status"], "ok", "{}: {outcome:#}", cell["name"]);
    }
    let first = fleet.json(&["rank", "saxpy"]);
    let class = &first["tables"][0]["class"];
    let size = fleet.book().size;

    let dry = fleet.json(&["rejudge", "--detector", "text", "--task", "saxpy", "--dry-run"]);
    assert_eq!(
        (&dry["looked_at"], &dry["findings"][0]["candidate"]),
        (&3.into(), &"forward".into()),
        "{dry:#}"
    );
    assert_eq!(fleet.book().size, size, "a dry run records nothing");
    let told = fleet.json(&["rejudge", "--detector", "text/1"]);
    assert_eq!(told["findings"].as_array().map(Vec::len), Some(1), "{told:#}");
    assert_eq!(told["findings"][0]["code"], "text/baseline");
    let again = fleet.json(&["rejudge", "--detector", "text"]);
    assert_eq!((&again["findings"], &again["known"]), (&serde_json::json!([]), &1.into()), "{again:#}");
    let labelled = fleet.json(&["rank", "saxpy"]);
    let row = line(table_of(&labelled, class), "rows", "forward").expect("it is ranked all the same");
    assert_eq!(row["labels"][0]["code"], "text/baseline", "{row:#}");

    let floor = fleet.json(&["rejudge", "--detector", "floor"]);
    assert_eq!(
        (&floor["looked_at"], &floor["findings"]),
        (&3.into(), &serde_json::json!([])),
        "nothing is known of a CPU"
    );

    let stages = fleet.json(&["rejudge", "--detector", "stages", "--task", "saxpy", "--screens", "address"]);
    let findings = stages["findings"].as_array().expect("findings");
    assert_eq!(findings.len(), 1, "{stages:#}");
    assert_eq!((&findings[0]["candidate"], &findings[0]["judgement"]), (&"sneaky".into(), &"falls".into()));
    assert_eq!(stages["without_verdict"], serde_json::json!([]));
    let ranking = fleet.json(&["rank", "saxpy"]);
    let table = table_of(&ranking, class);
    assert!(line(table, "rows", "sneaky").is_none(), "{table:#}");
    let fallen = line(table, "fallen", "sneaky").expect("it is shown as fallen");
    assert_eq!((&fallen["detector"]["name"], &fallen["code"]), (&"stages".into(), &"stages/failed".into()));
    let output = fleet.muster(&["rank", "saxpy"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let leaf = fallen["finding_leaf"].as_u64().expect("a leaf").to_string();
    for words in
        ["fallen after it was ranked: 1", "by stages/1 in entry", &format!("before it: --as-of {leaf}")]
    {
        assert!(text.contains(words), "`{words}` is missing:\n{text}");
    }
    let before = fleet.json(&["rank", "saxpy", "--as-of", &leaf]);
    assert!(line(table_of(&before, class), "rows", "sneaky").is_some(), "{before:#}");
    let at_first = fleet.json(&["rank", "saxpy", "--as-of", &size.to_string()]);
    assert_eq!(at_first["tables"], first["tables"], "the ranking of then has not changed");

    let book = fleet.book();
    let judged: Vec<_> = book.findings.iter().map(|(_, one)| (one.judgement, one.scope)).collect();
    assert_eq!(
        judged,
        [
            (FindingJudgement::Labelled, FindingScope::Candidate),
            (FindingJudgement::Falls, FindingScope::Class)
        ]
    );
    let (_, falls) = book.findings.last().expect("a finding");
    let rerun = falls.rerun.expect("the run that decided").to_string();
    assert!(book.results.iter().any(|(_, record, _)| *record == rerun), "it is in the ledger");

    assert_lasts(&mut fleet, sneaky, size, &first["tables"]);
}

#[test]
fn a_detector_that_is_not_known_judges_nothing() {
    let fleet = Fleet::new();
    fleet.add_task(saxpy::TASK);
    let code = |arguments: &[&str]| fleet.refusal(arguments)["code"].as_str().expect("a code").to_owned();
    assert_eq!(code(&["rejudge", "--detector", "smell"]), "rejudge/unknown-detector");
    assert_eq!(code(&["rejudge", "--detector", "text/9"]), "rejudge/unknown-detector");
    assert_eq!(code(&["rejudge", "--detector", "text", "--task", "nobody"]), "task/unknown-task");
    let none = fleet.json(&["rejudge", "--detector", "text"]);
    assert_eq!(none["looked_at"], 0, "{none:#}");
    assert!(fleet.book().findings.is_empty());
    fleet.verify();
}
