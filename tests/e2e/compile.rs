//! Compiling for GPUs that nobody here has: on the command line, and as cells of a fleet.

use crate::CLASS;
use fleet_tests::fleet::{Fleet, checkout};
use fleet_tests::process::run;
use fleet_tests::saxpy;
use std::path::Path;

/// Whether there is an NVRTC; without one the test says that it was skipped.
fn has_compiler(fleet: &Fleet, test: &str) -> bool {
    let source = fleet.write("probe.cu", saxpy::good().as_bytes());
    let output = run("muster-node", &["compile", text(&source), "--arch", "sm_80"]);
    let here = output.status.code() != Some(2);
    if !here {
        assert!(std::env::var_os("MUSTER_NVRTC").is_none(), "the named NVRTC cannot be used: {output:?}");
        println!("SKIPPED {test}: {}", String::from_utf8_lossy(&output.stderr));
    }
    here
}

#[test]
fn the_command_line_compiles_without_a_coordinator() {
    let fleet = Fleet::stopped();
    let (code, answer) = muster(&fleet, &["compile", "no/such.cu", "--json"]);
    assert_eq!((code, answer["error"]["code"].as_str()), (1, Some("compile/missing-file")));
    if !has_compiler(&fleet, "command line") {
        return;
    }
    let task = checkout().join("scripts/sample");
    let tiled = task.join("candidates/tiled.cu");
    let (task, tiled) = (text(&task), text(&tiled));
    let (code, answer) = muster(&fleet, &["compile", task, tiled, "--arch", "sm_80,sm_120a", "--json"]);
    assert_eq!(code, 0, "{answer:#}");
    assert_eq!(
        answer["rows"].as_array().map(Vec::len),
        Some(6),
        "reference, baseline and candidate: {answer:#}"
    );
    let output = run("muster", &["compile", tiled]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for word in ["NVRTC 1", "sm_80 ", "sm_89 ", "sm_90a ", "sm_100a ", "sm_120a ", "OCCUPANCY"] {
        assert!(said.contains(word), "{word} in\n{said}");
    }
    let broken = fleet.write("broken.cu", b"__global__ void f() { nothing = 1; }\n");
    let output = run("muster", &["compile", text(&broken), "--arch", "sm_80"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("broken.cu:1:"), "{output:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn muster(fleet: &Fleet, arguments: &[&str]) -> (i32, serde_json::Value) {
    let output = run("muster", &[&["--state", fleet.state().to_str().expect("UTF-8")], arguments].concat());
    let answer = serde_json::from_slice(&output.stdout);
    (
        output.status.code().expect("an exit code"),
        answer.unwrap_or_else(|error| panic!("{error}: {output:?}")),
    )
}

#[test]
fn a_compile_only_cell_has_resources_and_no_time_and_is_never_ranked() {
    let mut fleet = Fleet::new();
    if !has_compiler(&fleet, "compile-only cells") {
        return;
    }
    fleet.add_node_with(CLASS, &[("MUSTER_NODE_COMPILE_ONLY", "sm_80,sm_100a")]);
    fleet.add_task(saxpy::TASK);
    let good = saxpy::good_ones(&fleet, "compiled", 1);
    let broken = fleet.write("broken.cu", saxpy::kernel("", "  z[i] = nothing;").as_bytes());
    let candidates = [good, vec![broken]].concat();
    let cells = fleet.submit("saxpy", &candidates, &["--on", "compile:sm_80,compile:sm_100a"]);
    assert_eq!(cells.len(), 4);
    let mut statuses: Vec<String> = Vec::new();
    for cell in &cells {
        let record = fleet.record_of(cell);
        let result = &record["statement"]["predicate"];
        assert_eq!(result["device_kind"], "compile", "{record:#}");
        assert_eq!(result["timings"], serde_json::json!([]), "{record:#}");
        let outcome = &result["outcome"];
        statuses.push(outcome["status"].as_str().expect("a status").to_owned());
        if outcome["status"] == "ok" {
            assert_eq!(outcome["stage"], "compile", "{record:#}");
            let resources = &result["build"]["resources"];
            for what in ["registers", "spill_store_bytes", "shared_bytes", "occupancy_permille"] {
                assert!(resources[what].is_u64(), "{what}: {record:#}");
            }
            assert!(result["build"]["artefact"].is_object(), "the cubin is a blob of the ledger: {record:#}");
        } else {
            assert!(outcome["cause"]["source"]["line"].is_u64(), "{record:#}");
        }
    }
    statuses.sort();
    assert_eq!(statuses, ["compile_error", "compile_error", "ok", "ok"]);
    assert_eq!(fleet.json(&["rank", "saxpy"])["tables"], serde_json::json!([]), "nothing was measured");

    // A GPU of that architecture is not what this node offers, and the CPU goes on as before.
    let pinned = "7".repeat(64);
    let on = ["--on", "compile:sm_80", "--toolchain", &pinned];
    let cells = fleet.submit("saxpy", &candidates[..1], &on);
    let outcome = fleet.record_of(&cells[0])["statement"]["predicate"]["outcome"].clone();
    assert_eq!(
        (&outcome["status"], &outcome["cause"]["code"]),
        (&"unsupported_on_device".into(), &"compile/toolchain-pinned".into())
    );
    fleet.submit("saxpy", &candidates[..1], &["--on", CLASS]);
    let ranking = fleet.json(&["rank", "saxpy"]);
    assert_eq!(ranking["tables"].as_array().map(Vec::len), Some(1), "{ranking:#}");
    fleet.verify();
}
