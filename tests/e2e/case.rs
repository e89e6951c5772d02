//! Case folders through a real fleet: what holds passes, what does not is counted, and nothing ends the run.

use super::CLASS;
use fleet_tests::fleet::{Fleet, checkout};
use serde_json::Value;

#[test]
fn a_folder_of_cases_is_judged_case_by_case() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    let folder = checkout().join("tests/fixtures/cases");
    let folder = folder.to_str().expect("UTF-8");
    let output = fleet.muster(&["--json", "case", "run", folder]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answer: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.code(), Some(1), "{answer:#}");
    let counts = ["passed", "failed", "skipped"].map(|word| answer[word].as_u64());
    assert_eq!(counts, [Some(3), Some(2), Some(1)], "{answer:#}");
    let of = |name: &str| {
        let cases = answer["cases"].as_array().expect("cases");
        cases.iter().find(|case| case["case"] == name).unwrap_or_else(|| panic!("no case {name}")).clone()
    };
    assert_eq!(of("1-good")["observed"], "ok");
    assert_eq!(of("2-tail")["observed"], "wrong_result");
    assert!(of("3-python")["message"].as_str().is_some_and(|reason| reason.contains("Python")));
    let wrong = of("4-wrong-answer");
    assert_eq!((&wrong["verdict"], &wrong["observed"]), (&"failed".into(), &"wrong_result".into()));
    assert!(
        wrong["faults"][0]
            .as_str()
            .is_some_and(|fault| fault.contains("expected status ok, got wrong_result"))
    );
    let malformed = of("5-malformed");
    assert_eq!(malformed["verdict"], "failed");
    assert!(malformed["message"].as_str().is_some_and(|message| message.contains("case/json")));
    assert_eq!(
        (&of("6-refused")["verdict"], &of("6-refused")["observed"]),
        (&"passed".into(), &"rejected".into())
    );

    let one = fleet.json(&["case", "run", folder, "--only", "2*", "--on", CLASS]);
    assert_eq!(one["cases"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_imported_case_is_a_task_like_any_other() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    let case = checkout().join("tests/fixtures/cases/1-good");
    let (case, out) = (case.to_str().expect("UTF-8"), fleet.path("imported"));
    let out = out.to_str().expect("UTF-8");
    let made = fleet.json(&["task", "import", "case-folder", case, "--out", out]);
    assert_eq!(made["sealed"].as_array().map(Vec::len), Some(1), "{made:#}");
    assert_eq!(fleet.refusal(&["task", "import", "case-folder", case, "--out", out])["code"], "task/exists");
    let task = fleet.json(&["task", "add", out]);
    assert_eq!(task["added"], true);
    let candidate = fleet.path("imported/candidates/candidate.cu");
    let cells = fleet.submit("1-good", &[candidate], &["--on", CLASS]);
    assert_eq!(fleet.record_of(&cells[0])["statement"]["predicate"]["outcome"]["status"], "ok");
}

/// Opening a pipe that nobody writes into never ends: whoever hands over a folder could hold up its reader for good.
#[test]
fn a_pipe_in_place_of_a_file_is_refused_and_not_waited_for() {
    let fleet = Fleet::new();
    fleet.add_task(fleet_tests::saxpy::TASK);
    let folder = fleet.path("case");
    std::fs::create_dir(&folder).expect("a folder can be made");
    let pipe = |name: &str| {
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, folder.join(name), kind, mode, 0).expect("a pipe can be made");
        folder.join(name).to_str().expect("UTF-8").to_owned()
    };
    let code = |arguments: &[&str]| fleet.refusal(arguments)["code"].as_str().expect("a code").to_owned();
    let task = pipe("task.toml");
    assert_eq!(code(&["task", "add", &task]), "task/unreadable-file");
    let candidate = pipe("candidate.cu");
    assert_eq!(code(&["submit", "saxpy", &candidate, "--on", CLASS]), "candidate/unreadable-file");
    assert_eq!(code(&["compile", &candidate, "--arch", "sm_80"]), "compile/unusable");
    pipe("case.json");
    let out = fleet.path("out");
    let import = ["task", "import", "case-folder", folder.to_str().expect("UTF-8"), "--out"];
    assert_eq!(code(&[&import[..], &[out.to_str().expect("UTF-8")]].concat()), "case/unreadable-file");
}
