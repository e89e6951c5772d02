//! Sealed cases: opened in a verification lease alone, counted, and told to nobody.

mod opening;

use crate::{CLASS, PATIENCE};
use fleet_tests::fleet::Fleet;
use fleet_tests::saxpy::{self, RIGHT, kernel};
use ledger::entry::predicate::HoldoutVerdict;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A size that stands nowhere but in the sealed section.
const SEALED_SIZE: &str = "77773";

/// A name that stands nowhere but there.
const SEALED_NAME: &str = "sealed-case-0b9c4d";

/// The small task with a sealed case of its own size.
fn add_task(fleet: &Fleet) -> String {
    let sealed = format!(
        "[[holdout.case]]\nname = \"{SEALED_NAME}\"\nkind = \"performance\"\ndims = {{ n = {SEALED_SIZE} }}\n\n[tolerance]"
    );
    let folder = saxpy::task_with(fleet, "sealed-saxpy", &[("[tolerance]", &sealed)]);
    let added = fleet.json(&["task", "add", folder.to_str().expect("UTF-8")]);
    // The author's own file is no part of the fleet.
    std::fs::remove_dir_all(folder).expect("the task folder can go");
    added["task"].as_str().expect("an id").to_owned()
}

/// A candidate that is right for the open sizes and for no other; says what it sees.
fn special_cased() -> String {
    let body = "  if (i == 0) printf(\"size %d\\n\", n);\n  if (n != 1001 && n != 4096) { if (i < n) z[i] = -77.0f; return; }\n";
    kernel("#include <cstdio>", &format!("{body}{RIGHT}"))
}

fn verify(fleet: &Fleet, arguments: &[&str]) -> (i32, Value) {
    let all = [&["--json", "verify-candidate"], arguments].concat();
    let output = fleet.muster(&all);
    let answer = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().expect("it ended by itself"), answer)
}

fn record_id(fleet: &Fleet, cell: &Value) -> String {
    fleet.record_of(cell)["record"].as_str().expect("an id").to_owned()
}

/// Files below `folder` that hold `text`, the sealed folder left out.
fn leaks(folder: &Path, text: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() && path.file_name().is_none_or(|name| name != "sealed") {
            leaks(&path, text, found);
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if shows(&bytes, text) {
                found.push(path);
            }
        }
    }
}

/// Whether `text` stands in `bytes` by itself; a run of hexadecimal digits may hold its digits by chance.
fn shows(bytes: &[u8], text: &str) -> bool {
    let is_hex = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_hexdigit);
    let mut places = bytes.windows(text.len()).enumerate().filter(|(_, window)| *window == text.as_bytes());
    places.any(|(at, _)| !is_hex(at.checked_sub(1)) && !is_hex(Some(at + text.len())))
}

/// Nothing of the sealed case is in the ledger, its payloads, the logs, or what the node keeps.
fn assert_told_to_nobody(fleet: &Fleet) {
    let mut found = Vec::new();
    for text in [SEALED_SIZE, SEALED_NAME] {
        leaks(&fleet.path(""), text, &mut found);
    }
    assert!(found.is_empty(), "the sealed case is in {found:?}");
    for leaf in 0..fleet.book().size {
        let shown = fleet.json(&["show", &leaf.to_string()]).to_string();
        let shown = shown.as_bytes();
        assert!(
            !shows(shown, SEALED_SIZE) && !shows(shown, SEALED_NAME),
            "leaf {leaf} tells of the sealed case"
        );
    }
}

#[test]
fn a_candidate_that_knows_the_open_sizes_falls_at_the_sealed_one_and_an_honest_one_passes() {
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    add_task(&fleet);
    let honest = saxpy::good_ones(&fleet, "honest", 1).remove(0);
    let special = fleet.write("special.cu", special_cased().as_bytes());
    let cells = fleet.submit("sealed-saxpy", &[honest, special], &["--on", CLASS]);
    let cell_of = |name: &str| cells.iter().find(|cell| cell["name"] == name).expect("its cell").clone();
    for cell in &cells {
        let outcome = fleet.record_of(cell)["statement"]["predicate"]["outcome"].clone();
        assert_eq!(outcome["status"], "ok", "both pass what is open: {outcome:#}");
    }
    assert!(fleet.book().opened.is_empty(), "a search opens nothing");
    let ranking = fleet.json(&["rank", "sealed-saxpy"]);

    let (code, passed) = verify(&fleet, &[&record_id(&fleet, &cell_of("honest-000"))]);
    assert_eq!(
        (code, &passed["passed"], &passed["holdout"]),
        (0, &true.into(), &"passed".into()),
        "{passed:#}"
    );
    assert_eq!((&passed["opening"], &passed["openings"]), (&1.into(), &1.into()));

    let leaf = cell_of("special")["index"].to_string();
    let (code, failed) = verify(&fleet, &[&leaf]);
    assert_eq!(
        (code, &failed["passed"], &failed["holdout"]),
        (1, &false.into(), &"failed".into()),
        "{failed:#}"
    );
    assert_eq!((&failed["status"], &failed["openings"]), (&"wrong_result".into(), &2.into()), "{failed:#}");
    assert!(failed["cause"].as_str().is_some_and(|cause| cause.ends_with("[holdout/failed]")), "{failed:#}");

    // Named by submission and cell, and by people.
    let book = fleet.book();
    let (_, _, result) = book.results.first().expect("a result").clone();
    let name = format!("{}/{}", &result.submission.to_string()[..12], &result.cell.to_string()[..12]);
    let output = fleet.muster(&["verify-candidate", &name]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("opening 3; opened 3 times so far"), "{text}");
    println!("{text}");

    let book = fleet.book();
    let openings: Vec<u64> = book.opened.iter().map(|(_, opened)| opened.opening).collect();
    assert_eq!(openings, [1, 2, 3]);
    let verdicts: Vec<HoldoutVerdict> = book.verifications.iter().map(|(_, _, one)| one.verdict).collect();
    assert_eq!(verdicts[..2], [HoldoutVerdict::Passed, HoldoutVerdict::Failed]);
    for (leaf, opened) in &book.opened {
        let granted = book.grants.iter().find(|(_, grant)| grant.fence == opened.fence).expect("its grant");
        assert!(*leaf < granted.0, "counted before the lease is granted");
        let verified = book.verifications.iter().find(|(_, _, one)| one.result.fence == opened.fence);
        let (_, _, verified) = verified.expect("its verification");
        assert_eq!(
            (verified.holdout.commitment, verified.holdout.opening),
            (opened.commitment, opened.opening)
        );
        assert_eq!(verified.result.outcome.log, None, "what a candidate prints there is not kept");
        let date = &verified.result.finished_on;
        assert!(date.ends_with(":00.000Z"), "how long the sealed cases took is told to the minute: {date}");
        assert!(!book.results.iter().any(|(_, _, result)| result.fence == opened.fence));
    }
    let after = fleet.json(&["rank", "sealed-saxpy"]);
    assert_eq!(after["tables"], ranking["tables"], "a verification is ranked nowhere");
    assert_told_to_nobody(&fleet);

    // The count outlives the coordinator, and so does the index that was made before.
    fleet.kill_coordinator();
    std::fs::remove_dir_all(fleet.state().join("ledger/index")).expect("the index can be lost");
    fleet.start_coordinator(&[]);
    fleet.await_ready(1);
    let (_, again) = verify(&fleet, &[&record_id(&fleet, &cell_of("honest-000"))]);
    assert_eq!((&again["opening"], &again["passed"]), (&4.into(), &true.into()), "{again:#}");
    let report = fleet.verify();
    assert_eq!(report["report"]["kinds"]["holdout-opened"], 4, "{report:#}");
}

/// Right for the open sizes; at any other, `way` spells the size as well as it can.
fn spelling(before: &str, way: &str) -> String {
    kernel(before, &format!("  if (n != 1001 && n != 4096) {{ {way} }}\n{RIGHT}"))
}

#[test]
fn a_candidate_that_spells_a_sealed_size_by_address_exit_or_overrun_tells_its_status_alone() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    add_task(&fleet);
    let exit = "extern \"C\" void _exit(int);\n#include <cstdio>";
    let ways = [
        ("address", spelling("", "*(volatile int*)(unsigned long)n = 1;"), "runtime_error"),
        ("exit", spelling(exit, "printf(\"%d\\n\", n); _exit(n % 251);"), "runtime_error"),
        ("overrun", spelling("", "z[n + n % 97] = 1.0f;"), "contract_violation"),
        ("value", spelling("", "if (i < n) z[i] = (float)n; return;"), "wrong_result"),
    ];
    let sources: Vec<PathBuf> =
        ways.iter().map(|(name, text, _)| fleet.write(&format!("{name}.cu"), text.as_bytes())).collect();
    let cells = fleet.submit("sealed-saxpy", &sources, &["--on", CLASS]);
    for (number, (name, _, status)) in ways.iter().enumerate() {
        let cell = cells.iter().find(|cell| cell["name"] == *name).expect("its cell");
        let (code, failed) = verify(&fleet, &[&record_id(&fleet, cell)]);
        assert_eq!(
            (code, &failed["status"], &failed["holdout"]),
            (1, &(*status).into(), &"failed".into()),
            "{failed:#}"
        );
        assert_eq!(failed["openings"], number as u64 + 1, "{failed:#}");
        let record = fleet.json(&["show", &failed["leaf"].to_string()]);
        let outcome = &record["statement"]["predicate"]["result"]["outcome"];
        assert_eq!(
            (&outcome["cause"]["code"], &outcome["log"]),
            (&"holdout/failed".into(), &Value::Null),
            "{record:#}"
        );
        let cause = outcome["cause"].as_object().expect("a cause");
        let told: Vec<_> = cause
            .iter()
            .filter(|(name, value)| !matches!(name.as_str(), "code" | "message") && !value.is_null())
            .collect();
        assert!(told.is_empty(), "{told:?}");
    }
    assert_told_to_nobody(&fleet);
    let mut found = Vec::new();
    leaks(&fleet.path(""), &format!("{:x}", SEALED_SIZE.parse::<u32>().expect("a number")), &mut found);
    assert!(found.is_empty(), "the sealed size is in hexadecimal in {found:?}");
    fleet.verify();
}

#[test]
fn a_search_cell_never_touches_a_holdout() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    add_task(&fleet);
    let sealed = std::fs::read_dir(fleet.state().join("sealed")).expect("the folder").flatten().next();
    let sealed = sealed.expect("the sealed section").path();
    let path = sealed.to_str().expect("UTF-8");
    // Right only if it can open the file; and right only if it is ever launched on the sealed size.
    let calls = "extern \"C\" { int open(const char*, int, ...); }";
    let wrong = "{ if (i < n) z[i] = -77.0f; return; }";
    let reads = kernel(calls, &format!("  static int f = open(\"{path}\", 0); if (f < 0) {wrong}\n{RIGHT}"));
    let waits = kernel("", &format!("  if (n != {}) {wrong}\n{RIGHT}", SEALED_SIZE));
    let includes = kernel(&format!("#include \"{path}\""), RIGHT);
    let candidates = [("reads", reads), ("waits", waits), ("includes", includes)]
        .map(|(name, source)| fleet.write(&format!("{name}.cu"), source.as_bytes()));
    let cells = fleet.submit("sealed-saxpy", &candidates, &["--on", CLASS, "--fresh"]);
    assert_eq!(cells.len(), 3);
    for cell in &cells {
        let record = fleet.record_of(cell);
        let outcome = &record["statement"]["predicate"]["outcome"];
        assert_ne!(outcome["status"], "ok", "{record:#}");
        assert_eq!(outcome["blame"], "candidate", "{record:#}");
        let refusal = fleet.refusal(&["verify-candidate", record["record"].as_str().expect("an id")]);
        assert_eq!(refusal["code"], "verify/not-ok", "{refusal:#}");
    }
    let book = fleet.book();
    assert!(book.opened.is_empty() && book.verifications.is_empty());
    // The section is no blob: no name in the store opens the commitment.
    let name = sealed.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    let blob = fleet.state().join("ledger/blob/blake3").join(&name[..2]).join(&name);
    assert!(!blob.exists());
    fleet.verify();
}

#[test]
fn what_cannot_be_verified_is_refused_and_opens_nothing() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    add_task(&fleet);
    let candidates = saxpy::good_ones(&fleet, "plain", 1);
    let plain = fleet.submit("saxpy", &candidates, &["--on", CLASS]);
    let sealed = fleet.submit("sealed-saxpy", &candidates, &["--on", CLASS]);
    let (plain, record) = (record_id(&fleet, &plain[0]), record_id(&fleet, &sealed[0]));
    let code = |arguments: &[&str]| fleet.refusal(arguments)["code"].as_str().expect("a code").to_owned();
    assert_eq!(code(&["verify-candidate", &plain]), "verify/no-holdout");
    assert_eq!(code(&["verify-candidate", "0"]), "verify/unknown-record", "the genesis entry is no result");
    assert_eq!(code(&["verify-candidate", "ffffffffffff"]), "show/unknown");
    assert_eq!(code(&["verify-candidate", "ffff/ffff"]), "verify/unknown-record");
    assert_eq!(code(&["verify-candidate", &record, "--on", "nvidia:sm_90a"]), "verify/device-kind");
    let folder = fleet.state().join("sealed");
    let section = std::fs::read_dir(&folder).expect("the folder").flatten().next().expect("a section").path();
    let text = std::fs::read_to_string(&section).expect("its text");
    std::fs::write(&section, text.replace(SEALED_SIZE, "77774")).expect("it can be changed");
    let refusal = fleet.refusal(&["verify-candidate", &record]);
    assert_eq!(refusal["code"], "verify/sealed-section");
    assert!(!refusal.to_string().contains("7777"), "{refusal:#}");
    std::fs::remove_file(&section).expect("it can be lost");
    assert_eq!(code(&["verify-candidate", &record]), "verify/sealed-section");
    fleet.json(&["node", "revoke", "node-0", "--suspect-from", "0", "--reason", "its clock was changed"]);
    assert_eq!(code(&["verify-candidate", &record]), "verify/fallen");
    assert!(fleet.book().opened.is_empty());
    let cells = fleet.await_over(&[], PATIENCE);
    assert!(cells.is_empty());
    fleet.verify();
}
