//! Proofs: of one record, of one log's growth; made by the binary, checked by it without a ledger, refused when changed.

use ed25519_dalek::SigningKey;
use fleet_tests::fleet::Fleet;
use fleet_tests::process::run;
use ledger::log::{LogSigner, LogWriter};
use serde_json::Value;
use std::path::Path;

/// A log of its own in `folder` with one entry for each word.
fn log(folder: &Path, signer: &LogSigner, words: &[&str]) {
    let mut writer = LogWriter::create(folder, signer.clone()).expect("a new folder");
    let entries: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    writer.append_batch(&entries).expect("an append");
    writer.integrate().expect("a checkpoint");
}

fn json(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = run("muster", arguments);
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_record_is_proven_to_somebody_who_has_the_file_and_the_key_alone() {
    let fleet = Fleet::new();
    let task = fleet.add_task("scripts/sample");
    let file = fleet.path("task.tlog-proof");
    let leaf = task["index"].as_u64().unwrap_or(2).to_string();
    let proven = fleet.json(&["ledger", "prove", &leaf, "--out", text(&file)]);
    assert_eq!(proven["verified"], true, "{proven:#}");
    let vkey = fleet.json(&["ledger", "vkey"])["vkey"].as_str().expect("a key").to_owned();

    // Nothing but the file and the key: an empty folder stands for the state.
    let nowhere = fleet.path("nowhere");
    let check = |file: &Path| {
        json(&["--json", "--state", text(&nowhere), "ledger", "verify-proof", text(file), "--vkey", &vkey])
    };
    let (code, shown) = check(&file);
    assert_eq!((code, &shown["record"]), (Some(0), &proven["record"]), "{shown:#}");

    let sound = std::fs::read(&file).expect("a proof");
    let changed = fleet.path("changed.tlog-proof");
    for at in (0..sound.len()).step_by(1 + sound.len() / 40) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        std::fs::write(&changed, &bytes).expect("a writable file");
        let (code, shown) = check(&changed);
        let refused = code == Some(4) || (code == Some(1) && shown["error"]["code"] == "proof/unreadable");
        assert!(refused, "byte {at}: {code:?} {shown:#}");
    }
    let refusal = fleet.refusal(&["ledger", "verify-proof", text(&fleet.path("none"))]);
    assert_eq!(refusal["code"], "proof/file");
    let refusal = fleet.refusal(&["ledger", "prove", "4000"]);
    assert_eq!(refusal["code"], "show/unknown");
}

#[test]
fn growth_is_proven_and_a_fork_and_a_set_back_copy_are_told_apart() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let signer = LogSigner::new("example.com/log", SigningKey::from_bytes(&[4; 32])).expect("a name");
    let vkey = signer.verifier().to_string();
    let at = |name: &str| directory.path().join(name);
    log(&at("short"), &signer, &["a", "b", "c"]);
    log(&at("long"), &signer, &["a", "b", "c", "d", "e"]);
    log(&at("other"), &signer, &["a", "x", "c"]);
    let state = at("state");
    let compare = |old: &str, folder: &str| {
        let old = at(old).join("checkpoint");
        let arguments = ["ledger", "consistency", "--old", text(&old), "--folder"];
        let folder = at(folder);
        let all = [&["--json", "--state", text(&state)][..], &arguments, &[text(&folder), "--vkey", &vkey]];
        json(&all.concat())
    };
    let (code, answer) = compare("short", "long");
    assert_eq!((code, &answer["verdict"]), (Some(0), &"consistent".into()), "{answer:#}");
    assert_eq!((&answer["from"]["size"], &answer["to"]["size"]), (&3.into(), &5.into()));
    assert!(!answer["proof"].as_array().expect("hashes").is_empty());
    let (code, answer) = compare("other", "long");
    assert_eq!((code, &answer["verdict"]), (Some(4), &"forked".into()), "{answer:#}");
    let (code, answer) = compare("long", "short");
    assert_eq!((code, &answer["verdict"]), (Some(4), &"set_back".into()), "{answer:#}");

    let folder = at("long");
    let sizes = |further: &[&str]| {
        let first = ["--json", "--state", text(&state), "ledger", "consistency", "--folder", text(&folder)];
        json(&[&first[..], &["--vkey", &vkey], further].concat())
    };
    let (code, answer) = sizes(&["--from", "2", "--to", "4"]);
    assert_eq!((code, &answer["verdict"]), (Some(0), &"consistent".into()), "{answer:#}");
    for wrong in [["--from", "4", "--to", "2"], ["--from", "2", "--to", "9"]] {
        let (code, answer) = sizes(&wrong);
        assert_eq!((code, &answer["error"]["code"]), (Some(1), &"ledger/size".into()), "{answer:#}");
    }
    let (code, answer) = sizes(&["--old", text(&at("state"))]);
    assert_eq!((code, &answer["error"]["code"]), (Some(1), &"proof/file".into()), "{answer:#}");
}
