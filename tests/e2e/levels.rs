//! Sandbox levels of the nodes that are attacked: each that this machine gives, for root and for an ordinary user.

use crate::CLASS;
use fleet_tests::fleet::Fleet;
use fleet_tests::ordinary;
use fleet_tests::process::run;
use fleet_tests::skip::skipped;
use serde_json::Value;

/// Both levels where the machine has both; what it lacks is said.
pub(crate) fn levels() -> Vec<&'static str> {
    let output = run("muster-node", &["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("the doctor answers");
    let checks = report["checks"].as_array().expect("checks");
    let level = checks.iter().find(|check| check["name"] == "sandbox level").expect("a level");
    match level["detail"].as_str() {
        Some("full") => vec!["full", "kernel"],
        Some("kernel") => {
            let missing =
                checks.iter().find(|check| check["state"] == "weak" && check["name"] != "sandbox level");
            skipped(format!("level `full`, which this machine does not give: {missing:?}"));
            vec!["kernel"]
        }
        other => panic!("no sandbox: {other:?}"),
    }
}

/// Adds a node of this level and waits for it.
pub(crate) fn at_level(fleet: &mut Fleet, level: &str, environment: &[(&str, &str)]) {
    fleet.add_node_told(CLASS, &["--sandbox", level], environment);
}

/// All attacks, at every level, by a node of a user without powers. Without a sandbox they are tried as root alone: the
/// candidates of an ordinary user's node are that user too, and one of them stops the node for good.
#[test]
fn an_ordinary_user_is_as_safe_as_root() {
    ordinary::again(&[
        "hostile::a_flood_of_output_is_cut_and_changes_no_verdict",
        "hostile::kernels_that_attack_their_worker_harm_nobody_else",
        "hostile::sources_that_overwhelm_a_compiler_harm_nobody_else",
        "secrets::no_candidate_reads_a_secret_or_leaves_its_sandbox_when_it_runs",
        "secrets::no_candidate_reads_a_secret_when_it_is_compiled",
    ]);
}
