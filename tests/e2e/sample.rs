//! The sample task through a real fleet: verdicts with first causes, ranking, reuse, verification.

use fleet_tests::fleet::{Fleet, checkout};
use serde_json::Value;
use std::path::PathBuf;

const CLASS: &str = "cpu:x86-64-v2";

fn candidates() -> Vec<PathBuf> {
    let names = ["tiled", "vectorised", "slower", "odd-size-bug", "overrun", "syntax-error"];
    names.iter().map(|name| checkout().join(format!("scripts/sample/candidates/{name}.cu"))).collect()
}

/// The result record of the cell of the candidate named `name`.
fn record(fleet: &Fleet, cells: &[Value], name: &str) -> Value {
    let cell = cells
        .iter()
        .find(|cell| cell["name"] == name)
        .unwrap_or_else(|| panic!("no cell of {name}: {cells:#?}"));
    let leaf = cell["index"].as_u64().expect("a leaf").to_string();
    fleet.json(&["show", &leaf])["statement"]["predicate"].clone()
}

#[test]
fn six_candidates_get_the_verdicts_that_they_deserve() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task("scripts/sample");
    let cells = fleet.submit("matmul-f32", &candidates(), &["--on", CLASS]);
    assert_eq!(cells.len(), 6);
    for name in ["tiled", "vectorised", "slower"] {
        let outcome = &record(&fleet, &cells, name)["outcome"];
        assert_eq!(outcome["status"], "ok", "{name}: {outcome:#}");
    }

    let wrong = record(&fleet, &cells, "odd-size-bug")["outcome"].clone();
    assert_eq!(wrong["status"], "wrong_result", "{wrong:#}");
    assert_eq!(wrong["cause"]["case"], "odd");
    assert_eq!(wrong["cause"]["mismatch"]["count"], 31);
    assert_eq!(wrong["blame"], "candidate");

    let overrun = record(&fleet, &cells, "overrun")["outcome"].clone();
    assert_eq!(overrun["status"], "contract_violation", "{overrun:#}");
    let memory = &overrun["cause"]["memory"];
    assert_eq!(memory["buffer"], "c");
    assert_eq!(memory["size"], 31 * 37 * 4);
    assert_eq!(memory["offset"], 31 * 37 * 4);
    assert!(memory["place"]["thread"].is_array(), "the thread is named: {overrun:#}");

    let syntax = record(&fleet, &cells, "syntax-error")["outcome"].clone();
    assert_eq!(syntax["status"], "compile_error", "{syntax:#}");
    assert_eq!(syntax["cause"]["source"]["file"], "syntax-error.cu");
    assert!(syntax["cause"]["source"]["line"].as_u64().is_some_and(|line| line > 1));

    what_each_of_them_is_told(&fleet, &cells);

    let ranking = fleet.json(&["rank", "matmul-f32"]);
    let table = &ranking["tables"][0];
    assert_eq!(table["notice"], "The order on a CPU says nothing about GPUs.");
    let names: Vec<&str> =
        table["rows"].as_array().expect("rows").iter().filter_map(|row| row["name"].as_str()).collect();
    assert!(names.contains(&"tiled") && names.contains(&"slower"), "{names:?}");
    let score = |name: &str| -> u64 {
        let row = table["rows"].as_array().expect("rows").iter().find(|row| row["name"] == name);
        row.and_then(|row| row["score"].as_u64()).unwrap_or_else(|| panic!("{name} is not ranked: {table:#}"))
    };
    assert!(
        score("tiled") > 1_000_000_000
            && score("vectorised") > 1_000_000_000
            && score("slower") < 1_000_000_000
    );
    let rejected: usize = table["rejected"]
        .as_array()
        .expect("rejected")
        .iter()
        .map(|group| group["candidates"].as_array().map_or(0, Vec::len))
        .sum();
    assert_eq!(rejected, 3);
    assert_eq!(
        fleet.json(&["rank", "matmul-f32"]),
        ranking,
        "the same question at the same size has the same answer"
    );
    fewer_stages_are_ranked_by_themselves(&fleet);
    fleet.verify();
}

/// Feedback and reward of each.
fn what_each_of_them_is_told(fleet: &Fleet, cells: &[Value]) {
    let leaf = |name: &str| {
        let cell = cells.iter().find(|cell| cell["name"] == name).expect("its cell");
        cell["index"].as_u64().expect("a leaf").to_string()
    };
    let tiled = fleet.json(&["explain", &leaf("tiled")]);
    assert_eq!(tiled["schema"], "muster.feedback/1");
    assert!(tiled["to_baseline"]["low"].as_f64().is_some_and(|low| low > 1.0), "{tiled:#}");
    assert_eq!(tiled["cases"].as_array().map(Vec::len), Some(2));
    assert_eq!(tiled["to_best"]["name"], "vectorised", "the other one that is faster: {tiled:#}");
    let syntax = fleet.json(&["explain", &leaf("syntax-error")]);
    assert_eq!(syntax["cause"]["line"], "  c[row * n + column] = summ;", "{syntax:#}");
    let wrong = fleet.muster(&["explain", &leaf("odd-size-bug"), "--short"]);
    let wrong = String::from_utf8_lossy(&wrong.stdout).into_owned();
    assert!(wrong.starts_with("wrong_result; ") && wrong.contains("31 of 1147"), "{wrong}");
    assert_eq!(wrong.trim_end().lines().count(), 1, "{wrong}");
    assert_eq!(fleet.refusal(&["explain", "0"])["code"], "explain/no-result");

    let records: Vec<String> = ["tiled", "slower", "syntax-error", "odd-size-bug"].map(leaf).into();
    let rewards = |function: &str| -> Vec<Option<f64>> {
        let mut arguments = vec!["reward", "--function", function];
        arguments.extend(records.iter().map(String::as_str));
        let rewards = fleet.json(&arguments);
        rewards.as_array().expect("rewards").iter().map(|one| one["reward"].as_f64()).collect()
    };
    let relative = rewards("relative");
    assert!(relative[0].is_some_and(|reward| reward > 0.0 && reward < 1.0), "{relative:?}");
    assert_eq!(relative[1..], [Some(0.0), Some(-1.0), Some(-1.0)]);
    assert_eq!(rewards("cuda-agent")[..2], [Some(2.0), Some(1.0)]);
    assert_eq!(rewards("apex/1")[2..], [Some(0.0), Some(20.0)]);
    assert_eq!(fleet.refusal(&["reward", "5", "--function", "mine"])["code"], "reward/unknown-function");
}

/// One candidate once more, by the stages alone that always run.
fn fewer_stages_are_ranked_by_themselves(fleet: &Fleet) {
    let cells = fleet.submit("matmul-f32", &candidates()[..1], &["--on", CLASS, "--stages", "fewest"]);
    let leaf = cells[0]["index"].as_u64().expect("a leaf").to_string();
    let checks = fleet.json(&["show", &leaf])["evidence"]["checks"].clone();
    let finding = |name: &str| {
        let found = checks.as_array().expect("checks").iter().find(|one| one["check"] == name);
        found.map(|one| (one["finding"].clone(), one["detail"].to_string())).unwrap_or_default()
    };
    let (smoke, detail) = finding("smoke/1");
    assert_eq!(smoke, "not_run");
    assert!(detail.contains("left out by the policy cpu-paired/1+stages=fewest"), "{detail}");
    assert_eq!(finding("cases/1").0, "no_fault_found");
    let costs = fleet.json(&["show", &leaf, "--stages"]);
    assert_eq!(costs["stages"].as_array().map(Vec::len), Some(8), "{costs:#}");
    assert_eq!(costs["candidate"], "tiled");
    let ranking = fleet.json(&["rank", "matmul-f32"]);
    let tables = ranking["tables"].as_array().expect("tables");
    let left_out: Vec<usize> =
        tables.iter().map(|table| table["left_out"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(left_out.iter().filter(|count| **count == 4).count(), 1, "{left_out:?}");
    assert_eq!(left_out.iter().filter(|count| **count == 0).count(), 1, "{left_out:?}");
}

#[test]
fn bad_input_is_refused_with_code_place_cause_and_next_step() {
    let fleet = Fleet::new();
    fleet.add_task("scripts/sample");
    let write = |name: &str, bytes: &[u8]| {
        let path = fleet.path(name);
        std::fs::write(&path, bytes).expect("a file can be written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let nul = write("nul.cu", b"extern \"C\" __global__ void matmul() {\0}");
    let latin = write("latin.cu", b"// caf\xe9\n");
    let cases = [
        (vec!["submit", "matmul-f32", &nul, "--on", CLASS], "source/nul"),
        (vec!["submit", "matmul-f32", &latin, "--on", CLASS], "source/utf8"),
        (vec!["submit", "no-such-task", &nul, "--on", CLASS], "task/unknown-task"),
        (vec!["show", "ffffffffffffffff"], "show/unknown"),
        (vec!["rank", "matmul-f32", "--as-of", "999999"], "rank/as-of"),
        (vec!["status", "zz"], "submit/unknown-submission"),
        (vec!["node", "drain", "nobody"], "node/unknown-node"),
    ];
    for (arguments, code) in cases {
        let refusal = fleet.refusal(&arguments);
        assert_eq!(refusal["code"], code, "{arguments:?}: {refusal:#}");
        for part in ["cause", "next"] {
            assert!(
                refusal[part].as_str().is_some_and(|text| !text.is_empty()),
                "{arguments:?} lacks its {part}"
            );
        }
    }
    fleet.verify();
}
