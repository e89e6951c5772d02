//! `muster submit --wait`: what it says, in which order, and how it ends, whatever the coordinator does meanwhile.

use crate::{CLASS, PATIENCE};
use fleet_tests::fleet::Fleet;
use fleet_tests::process::{Closed, Process, Signal, run_unread};
use fleet_tests::saxpy;
use fleet_tests::wait::until;
use std::path::PathBuf;

/// Starts `muster submit --wait` in the background; all that it says goes to one file.
fn submit(fleet: &Fleet, candidates: &[PathBuf], further: &[&str]) -> Process {
    let state = fleet.state();
    let mut arguments = vec!["--state", state.to_str().expect("UTF-8"), "submit", "saxpy"];
    arguments.extend(candidates.iter().map(|path| path.to_str().expect("UTF-8")));
    arguments.extend(["--on", CLASS, "--wait"]);
    arguments.extend(further);
    Process::start("muster", &arguments, &fleet.path("submit.log"), &[])
}

/// The id of the submission, once it was told: before anything else.
fn told_id(waiting: &mut Process) -> String {
    until("the id to be told", PATIENCE, || {
        let log = waiting.log();
        let (line, _) = log.split_once('\n')?;
        let id =
            line.strip_prefix("muster: submission ").unwrap_or_else(|| panic!("the id comes first: {log}"));
        assert_eq!(id.len(), 64, "{log}");
        Some(id.to_owned())
    })
}

fn end(waiting: &mut Process) -> Option<i32> {
    until("the command to end", PATIENCE, || waiting.ended()).code()
}

#[test]
fn waiting_outlives_a_kill_of_the_coordinator_and_a_stop() {
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let mut candidates = saxpy::good_ones(&fleet, "kept", 4);
    candidates.push(fleet.write("wrong.cu", saxpy::kernel("", "  if (i < n) z[i] = x[i];").as_bytes()));
    let mut waiting = submit(&fleet, &candidates, &[]);
    let id = told_id(&mut waiting);
    until("a cell to run", PATIENCE, || {
        fleet.cells(&id)?.iter().any(|cell| cell["state"] == "running").then_some(())
    });
    fleet.kill_coordinator();
    until("the absence to be told", PATIENCE, || {
        waiting.log().contains("the coordinator does not answer").then_some(())
    });
    fleet.start_coordinator(&[]);
    until("its return to be told", PATIENCE, || {
        waiting.log().contains("the coordinator is back").then_some(())
    });
    fleet.post("/v1/stop");
    if let Some(mut coordinator) = fleet.coordinator.take() {
        coordinator.wait();
    }
    assert!(waiting.ended().is_none(), "{}", waiting.log());
    fleet.start_coordinator(&[]);

    let code = end(&mut waiting);
    let log = waiting.log();
    assert_eq!(code, Some(0), "a wrong candidate is a verdict, too: {log}");
    for name in ["kept-000", "kept-001", "kept-002", "kept-003", "wrong"] {
        let line = format!("] {name} on {CLASS}: ");
        assert_eq!(log.matches(&line).count(), 1, "{name} is told once: {log}");
    }
    assert!(log.contains("[5/5] "), "{log}");
    let table = log.split_once("CANDIDATE").expect("a table at the end").1;
    assert_eq!(table.matches("finished").count(), 5, "{log}");
    assert_eq!(table.matches(" ok ").count(), 4, "{log}");
    assert!(!log.contains("panicked"), "{log}");
    let cells = fleet.cells(&id).expect("cells");
    fleet.book().assert_settled(
        &cells.iter().map(|c| c["cell"].as_str().expect("an id").to_owned()).collect::<Vec<_>>(),
    );
    fleet.verify();
}

#[test]
fn waiting_for_a_coordinator_that_never_returns_ends_within_its_limit() {
    let mut fleet = Fleet::new();
    fleet.add_task(saxpy::TASK);
    let candidates = saxpy::good_ones(&fleet, "lost", 1);
    let mut waiting = submit(&fleet, &candidates, &["--reconnect", "2", "--json"]);
    let id = told_id(&mut waiting);
    until("its watch to begin", PATIENCE, || fleet.cells(&id));
    fleet.kill_coordinator();
    assert_eq!(end(&mut waiting), Some(3));
    let log = waiting.log();
    assert!(log.contains("\"code\":\"coordinator/no-answer\""), "{log}");
    assert!(log.contains("within 2 s") && log.contains(&format!("muster status {id}")), "{log}");

    // The submission was no worse for it.
    fleet.start_coordinator(&[]);
    assert_eq!(fleet.cells(&id).expect("cells")[0]["state"], "queued");
    let mut waiting = submit(&fleet, &candidates, &["--reconnect", "0"]);
    until("the second one to be told", PATIENCE, || {
        (waiting.log().matches("muster: submission ").count() == 2).then_some(())
    });
    fleet.kill_coordinator();
    assert_eq!(end(&mut waiting), Some(3), "no patience at all: {}", waiting.log());
}

#[test]
fn an_interrupted_wait_leaves_the_submission_alone() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let mut waiting = submit(&fleet, &saxpy::good_ones(&fleet, "left", 2), &[]);
    let id = told_id(&mut waiting);
    waiting.signal(Signal::Kill);
    waiting.wait();
    let cells = until("the cells to be over", PATIENCE, || {
        let cells = fleet.cells(&id)?;
        cells.iter().all(|cell| cell["state"] == "finished").then_some(cells)
    });
    assert_eq!(cells.len(), 2);
}

#[test]
fn a_submission_is_found_by_the_first_digits_of_its_id_and_in_the_list() {
    let fleet = Fleet::new();
    fleet.add_task(saxpy::TASK);
    let on = ["--on", CLASS];
    let first =
        fleet.try_submit("saxpy", &saxpy::good_ones(&fleet, "one", 1), &on).expect("acknowledged").submission;
    let second =
        fleet.try_submit("saxpy", &saxpy::good_ones(&fleet, "two", 5), &on).expect("acknowledged").submission;
    let recent = fleet.json(&["status"])["recent"].clone();
    let listed: Vec<_> =
        recent.as_array().expect("a list").iter().map(|view| view["submission"].clone()).collect();
    assert_eq!(listed, [second.as_str(), first.as_str()], "newest first");
    assert_eq!(
        (&recent[0]["cells"], &recent[0]["open"], &recent[0]["name"]),
        (&5.into(), &5.into(), &"saxpy".into())
    );
    let text = String::from_utf8_lossy(&fleet.muster(&["status"]).stdout).into_owned();
    assert!(text.contains(&first[..12]) && text.contains("one-000") && text.contains("and 2 more"), "{text}");

    for digits in [8, 12, 63, 64] {
        assert_eq!(fleet.json(&["status", &second[..digits]]).as_array().map(Vec::len), Some(5), "{digits}");
    }
    assert_eq!(fleet.json(&["cancel", &first[..12]])["count"], 1);
    let nobody =
        if first.starts_with("00000000") || second.starts_with("00000000") { "11111111" } else { "00000000" };
    for wrong in [nobody, "1", "nonsense", "", "a b", "../nodes?x"] {
        assert_eq!(fleet.refusal(&["status", wrong])["code"], "submit/unknown-submission", "{wrong:?}");
    }
}

#[test]
fn equal_candidates_missing_licences_and_missing_files_are_told() {
    let fleet = Fleet::new();
    fleet.add_task(saxpy::TASK);
    std::fs::create_dir(fleet.path("more")).expect("a folder can be made");
    let names = ["good.cu", "more/good.cu", "good-copy.cu", "other.cu"];
    let texts = [saxpy::good(), saxpy::good(), saxpy::good(), format!("{}// another\n", saxpy::good())];
    let paths: Vec<_> =
        names.iter().zip(&texts).map(|(name, text)| fleet.write(name, text.as_bytes())).collect();
    let typed: Vec<&str> = paths.iter().map(|path| path.to_str().expect("UTF-8")).collect();
    let arguments = [&["submit", "saxpy"], &typed[..], &["--on", CLASS]].concat();
    let answer = fleet.json(&arguments);
    assert_eq!(answer["receipt"]["cells"], 3, "{answer:#}");
    let warnings = answer["warnings"].as_array().expect("warnings");
    let of =
        |code: &str| -> Vec<&serde_json::Value> { warnings.iter().filter(|w| w["code"] == code).collect() };
    assert_eq!(of("candidate/same").len(), 1, "{answer:#}");
    assert_eq!(of("candidate/same")[0]["place"], typed[1]);
    assert!(of("candidate/same")[0]["cause"].as_str().is_some_and(|cause| cause.contains(typed[0])));
    assert_eq!(of("candidate/same-source")[0]["place"], typed[2]);
    assert_eq!(of("candidate/no-licence").len(), 1, "one line for all of them: {answer:#}");
    let said = String::from_utf8_lossy(&fleet.muster(&arguments).stderr).into_owned();
    assert_eq!(said.matches("licence is stated").count(), 1, "{said}");

    let here = std::env::current_dir().expect("a working folder").display().to_string();
    let refusal = fleet.refusal(&["submit", "saxpy", "no/such.cu", "--on", CLASS]);
    assert_eq!(
        (&refusal["code"], &refusal["place"]),
        (&"candidate/missing-file".into(), &"no/such.cu".into())
    );
    assert!(refusal["cause"].as_str().is_some_and(|cause| cause.contains(&here)), "{refusal:#}");
    let folder = fleet.path("new-task");
    let refusal = fleet.refusal(&[
        "task",
        "new",
        folder.to_str().expect("UTF-8"),
        "--signature",
        "extern \"C\" __global__ void f(const float* x, float* y, int n)",
        "--reference",
        typed[0],
        "--initial-kernel",
        "no/base.cu",
    ]);
    assert_eq!((&refusal["code"], &refusal["place"]), (&"task/missing-file".into(), &"no/base.cu".into()));
    assert!(refusal["next"].as_str().is_some_and(|next| next.contains("--initial-kernel")), "{refusal:#}");
    assert!(!folder.exists(), "nothing is left of a task that was not made");
}

#[test]
fn a_garbled_verifier_key_is_no_fault_of_the_ledger() {
    let mut fleet = Fleet::new();
    let path = fleet.state().join("keys/log.vkey");
    let right = std::fs::read_to_string(&path).expect("a key");
    let other = Fleet::new();
    let stranger = std::fs::read_to_string(other.state().join("keys/log.vkey")).expect("a key");
    for (wrong, code) in [("garbage\n", "state/key"), (stranger.as_str(), "state/key-mismatch")] {
        std::fs::write(&path, wrong).expect("a file can be written");
        let refusal = fleet.refusal(&["show", "0"]);
        assert_eq!((&refusal["code"], refusal["place"].as_str()), (&code.into(), path.to_str()));
        assert!(
            refusal["next"].as_str().is_some_and(|next| next.contains("start the coordinator")),
            "{refusal:#}"
        );
    }
    fleet.kill_coordinator();
    fleet.start_coordinator(&[]);
    assert_eq!(
        std::fs::read_to_string(&path).expect("a key").trim(),
        right.trim(),
        "as the refusal promised"
    );
    fleet.json(&["show", "0"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let state = fleet.state();
    let state = state.to_str().expect("UTF-8");
    let candidates = saxpy::good_ones(&fleet, "unread", 1);
    let candidate = candidates[0].to_str().expect("UTF-8");
    let commands: [&[&str]; 12] = [
        &["--help"],
        &["submit", "saxpy", candidate, "--on", CLASS, "--wait"],
        &["submit", "saxpy", candidate, "--on", CLASS],
        &["status"],
        &["--json", "status"],
        &["node", "list"],
        &["task", "list"],
        &["task", "show", "saxpy"],
        &["rank", "saxpy"],
        &["show", "0"],
        &["ledger", "verify"],
        &["ledger", "signers"],
    ];
    for closed in [Closed::Output, Closed::Both] {
        for command in commands {
            let arguments = [&["--state", state], command].concat();
            let (status, said) = run_unread("muster", &arguments, closed);
            assert_eq!(status.code(), Some(0), "{command:?} with {closed:?} closed: {said}");
            assert!(!said.contains("panicked") && !said.contains("roken pipe"), "{command:?}: {said}");
        }
        let refused = ["--state", state, "status", "nonsense"];
        let (status, said) = run_unread("muster", &refused, closed);
        assert_eq!(status.code(), Some(1), "a refusal stays one: {said}");
    }
}
