//! Questions, exports, bundles, mirrors and audits of a real ledger, without its coordinator.

use crate::CLASS;
use ed25519_dalek::SigningKey;
use fleet_config::domain::{Digest, LeafIndex, SandboxLevel};
use fleet_tests::fleet::Fleet;
use fleet_tests::process::run;
use fleet_tests::{python, saxpy};
use ledger::blob::BlobStore;
use ledger::claim::{Claim, Question, SignedClaim, Tree, ask, parse_decimal};
use ledger::entry::Entry;
use ledger::log::{LogReader, LogSigner};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("an export");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A fleet that has measured something and is at rest, with its key and the leaf of an `ok`.
fn measured() -> (Fleet, String, String) {
    let mut fleet = Fleet::with_nodes(&[CLASS]);
    fleet.add_task(saxpy::TASK);
    let cells = fleet.submit("saxpy", &saxpy::good_ones(&fleet, "good", 2), &["--on", CLASS]);
    let leaf = cells[0]["index"].as_u64().expect("a leaf").to_string();
    fleet.json(&["ledger", "checkpoint"]);
    let vkey = fleet.json(&["ledger", "vkey"])["vkey"].as_str().expect("a key").to_owned();
    fleet.kill_coordinator();
    (fleet, vkey, leaf)
}

#[test]
fn a_ledger_answers_without_its_coordinator_and_leaves_as_files_that_others_check() {
    let (fleet, vkey, leaf) = measured();
    questions(&fleet, &leaf);
    exports(&fleet);
    bundles(&fleet, &vkey, &leaf);
    audits(&fleet, &leaf);
    claims(&fleet, &vkey, &leaf);
    mirrors(&fleet, &vkey, &leaf);
}

fn questions(fleet: &Fleet, leaf: &str) {
    let all = fleet.json(&["query", "--limit", "1000"]);
    let size = all["as_of"]["tree_size"].as_u64().expect("a size");
    assert_eq!((all["matched"].as_u64(), &all["complete"]), (Some(size), &true.into()), "{all:#}");
    assert!(
        all["as_of"]["root"].is_string() && all["as_of"]["checkpoint_size"].as_u64() >= Some(size),
        "{all:#}"
    );
    let asked = ["query", "--task", "saxpy", "--kind", "result", "--status", "ok", "--class", CLASS];
    let found = fleet.json(&asked);
    assert_eq!(found["matched"], 2, "{found:#}");
    let first = &found["rows"][0];
    let leaves: Vec<String> =
        found["rows"].as_array().expect("rows").iter().map(|row| row["leaf"].to_string()).collect();
    assert!(leaves.iter().any(|other| other == leaf), "{leaves:?}");
    assert!(first["speedup"].as_u64() > Some(0) && first["driver"].is_null(), "{first:#}");
    let model = first["device_model"].as_str().expect("a model");
    let same = [&asked[..], &["--gpu", model, "--metric", "speedup=0.001..", "--node", "node-0"]].concat();
    assert_eq!(fleet.json(&same)["matched"], 2);
    let none = [&asked[..], &["--metric", "speedup=1000.."]].concat();
    assert_eq!(fleet.json(&none)["matched"], 0);
    // The same question at the same size has the same answer; before the result there was none.
    let then = [&asked[..], &["--as-of", &leaves[0]]].concat();
    assert_eq!(fleet.json(&then)["matched"], 0);
    let misspelled = fleet.json(&["query", "--task", "saxpi"]);
    assert_eq!(misspelled["unmatched"][0], "saxpi");
    assert_eq!(fleet.refusal(&["query", "--as-of", "100000"])["code"], "ledger/as-of");
    let wrong = fleet.muster(&["query", "--metric", "speed=1.."]);
    assert_eq!(wrong.status.code(), Some(2), "wrong usage");
}

fn exports(fleet: &Fleet) {
    let size = fleet.json(&["query"])["as_of"]["tree_size"].as_u64().expect("a size");
    let jsonl = fleet.path("all.jsonl");
    let answer = fleet.json(&["export", "--out", text(&jsonl)]);
    assert_eq!(answer["rows"].as_u64(), Some(size));
    let rows = lines(&jsonl);
    assert!(rows.iter().zip(0_u64..).all(|(row, leaf)| row["leaf"].as_u64() == Some(leaf)));
    assert!(rows.iter().all(|row| row["statement"]["predicate"].is_object()), "every row has its statement");
    let csv = fleet.path("results.csv");
    fleet.json(&["export", "--format", "csv", "--kind", "result", "--out", text(&csv)]);
    let table = std::fs::read_to_string(&csv).expect("an export");
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.starts_with("leaf,record,kind,"), "{table}");

    let intoto = fleet.path("all.intoto.jsonl");
    let answer = fleet.json(&["export", "--format", "intoto", "--out", text(&intoto)]);
    let leaves = std::fs::read_to_string(answer["leaves"].as_str().expect("leaves")).expect("a list");
    assert_eq!(leaves.lines().count() as u64, size);
    let signers = fleet.path("signers.txt");
    std::fs::write(&signers, fleet.muster(&["ledger", "signers"]).stdout).expect("a writable file");
    let root = answer["as_of"]["root"].as_str().expect("a root");
    let Some(output) = python::run("check_envelopes.py", &[text(&intoto), text(&signers), root]) else {
        return;
    };
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let mut changed = std::fs::read(&intoto).expect("an export");
    let at = changed.len() / 2;
    changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
    let path = fleet.path("changed.intoto.jsonl");
    std::fs::write(&path, changed).expect("a writable file");
    let output = python::run("check_envelopes.py", &[text(&path), text(&signers)]).expect("it ran before");
    assert_eq!(output.status.code(), Some(1), "a changed envelope is accepted");
    let refusal = fleet.refusal(&["export", "--out", text(&fleet.path("none/x"))]);
    assert_eq!(refusal["code"], "export/write");
}

fn bundles(fleet: &Fleet, vkey: &str, leaf: &str) {
    let nowhere = fleet.path("nowhere");
    let check = |file: &Path| {
        let output = run(
            "muster",
            &["--json", "--state", text(&nowhere), "verify-bundle", text(file), "--vkey", vkey],
        );
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        (output.status.code(), answer)
    };
    let tar = fleet.path("result.tar");
    let made = fleet.json(&["bundle", leaf, "--out", text(&tar)]);
    assert_eq!(made["missing"].as_array().map(Vec::len), Some(0), "{made:#}");
    let (code, report) = check(&tar);
    assert_eq!((code, &report["record"]), (Some(0), &made["record"]), "{report:#}");
    let folder = fleet.path("result");
    fleet.json(&["bundle", leaf, "--out", text(&folder)]);
    let (code, report) = check(&folder);
    assert_eq!((code, &report["status"]), (Some(0), &"ok".into()), "{report:#}");
    let readme = std::fs::read_to_string(folder.join("README.txt")).expect("a page");
    assert!(readme.contains("muster verify-bundle"), "{readme}");
    let envelopes = folder.join("entries.intoto.jsonl");
    std::fs::write(&envelopes, b"{}\n").expect("a writable file");
    let (code, report) = check(&folder);
    assert_eq!(
        (code, &report["faults"][0]["place"]),
        (Some(4), &"entries.intoto.jsonl".into()),
        "{report:#}"
    );
    assert_eq!(
        fleet.refusal(&["bundle", "0", "--out", text(&fleet.path("no.tar"))])["code"],
        "bundle/not-a-result"
    );
    assert_eq!(fleet.refusal(&["verify-bundle", text(&envelopes)])["code"], "bundle/unreadable");
}

fn audits(fleet: &Fleet, leaf: &str) {
    let answer = fleet.json(&["audit", leaf]);
    let audit = &answer["audit"];
    assert_eq!((&audit["counts"]["ok"], &audit["counts"]["open"]), (&1.into(), &0.into()), "{audit:#}");
    assert_eq!(
        (&audit["task_candidates"], &audit["class_candidates_ok"]),
        (&2.into(), &2.into()),
        "{audit:#}"
    );
    assert!(audit["attempts"][0]["granted"].is_u64() && audit["fallen_by"].is_null());
    assert_eq!(fleet.refusal(&["audit", "0"])["code"], "audit/not-a-result");
    let output = fleet.muster(&["audit", leaf]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("this candidate: 1 attempts") && said.contains("root "), "{said}");
}

fn claims(fleet: &Fleet, vkey: &str, leaf: &str) {
    let (key, out) = (fleet.path("ada.key"), fleet.path("fast.claim"));
    let make = |record: &str, ratio: &str| {
        let named = ["--key", text(&key), "--name", "ada.example", "--out", text(&out)];
        fleet.refusal(&[&["claim", "make", record, "--at-least", ratio][..], &named].concat())["code"].clone()
    };
    // One lease alone bears out nothing, however fast it was.
    assert_eq!(make(leaf, "1.001"), "claim/not-supported");
    assert_eq!(make("0", "2"), "claim/not-a-result");
    assert!(!out.exists() && !key.exists(), "nothing is signed before it is borne out");

    // A signed exaggeration is told from what the ledger shows; a changed one is void.
    let folder = fleet.state().join("ledger");
    let signed = exaggeration(&folder, vkey, leaf);
    let sound = String::from_utf8(signed.to_bytes().expect("canonical JSON")).expect("UTF-8");
    std::fs::write(&out, &sound).expect("a writable folder");
    let nowhere = fleet.path("nowhere");
    let check = |further: &[&str]| {
        let first =
            ["--json", "--state", text(&nowhere), "claim", "check", text(&out), "--folder", text(&folder)];
        let output = run("muster", &[&first[..], &["--vkey", vkey], further].concat());
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        (output.status.code(), answer)
    };
    let (code, answer) = check(&["--signer", &signed.signer]);
    let told = (code, answer["verdict"].as_str().expect("a verdict"));
    assert!(told == (Some(6), "weaker") || told == (Some(1), "not_supported"), "{answer:#}");
    assert!(
        answer["then"]["found"]["high"].as_u64() > Some(0) && answer["is_signer_known"] == true,
        "{answer:#}"
    );
    assert_eq!(answer["denominators"]["attempts"], 1, "{answer:#}");
    let (code, answer) = check(&["--signer", vkey]);
    assert_eq!((code, &answer["verdict"]), (Some(4), &"void".into()), "{answer:#}");
    std::fs::write(&out, sound.replace("\"attempts\":1,", "\"attempts\":0,")).expect("a writable folder");
    let (code, answer) = check(&[]);
    assert_eq!(
        (code, &answer["verdict"], &answer["then"]),
        (Some(4), &"void".into(), &Value::Null),
        "{answer:#}"
    );
}

/// A claim that the result at `leaf` is a thousand times as fast as the baseline, signed.
fn exaggeration(folder: &Path, vkey: &str, leaf: &str) -> SignedClaim {
    let log = LogReader::open(folder, &vkey.parse().expect("a key")).expect("a ledger");
    let checkpoint = log.checkpoint().clone();
    let entries: Vec<(LeafIndex, Vec<u8>)> =
        log.entries(0..checkpoint.size).map(|entry| entry.expect("an entry")).collect();
    let (_, bytes) = &entries[leaf.parse::<usize>().expect("a leaf")];
    let entry = Entry::read(bytes).expect("an entry");
    let result = entry.body.result().expect("a result");
    let question = Question {
        task: result.task,
        candidate: result.candidate,
        class: result.class,
        case: None,
        least_sandbox: SandboxLevel::None,
    };
    let blobs = BlobStore::open(folder);
    let mut blob = |digest: &Digest| blobs.read_unchecked(digest, 1 << 20).ok().flatten();
    let answer = ask(&question, &entries, checkpoint.size, &mut blob).expect("a row of the ranking");
    let tree = Tree { origin: checkpoint.origin, size: checkpoint.size, root: checkpoint.root };
    let claim = Claim::of(question, parse_decimal("1000").expect("a ratio"), tree, &answer);
    let signer = LogSigner::new("ada.example", SigningKey::from_bytes(&[6; 32])).expect("a name");
    SignedClaim::sign(claim, &signer).expect("canonical JSON")
}

fn mirrors(fleet: &Fleet, vkey: &str, leaf: &str) {
    let from = fleet.state().join("ledger");
    let to = fleet.path("mirror");
    let nowhere = fleet.path("nowhere");
    let muster = |arguments: &[&str]| {
        let all = [&["--json", "--state", text(&nowhere)][..], arguments, &["--vkey", vkey]].concat();
        let output = run("muster", &all);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        (output.status.code(), answer)
    };
    let (code, report) = muster(&["ledger", "mirror", "--from", text(&from), "--to", text(&to)]);
    assert_eq!((code, &report["from"]), (Some(0), &0.into()), "{report:#}");
    let (code, report) = muster(&["ledger", "verify", "--folder", text(&to)]);
    assert_eq!((code, &report["verified"]), (Some(0), &true.into()), "{report:#}");
    let (code, ranking) = muster(&["rank", "saxpy", "--folder", text(&to)]);
    assert_eq!((code, &ranking), (Some(0), &fleet.json(&["rank", "saxpy"])));
    let (code, shown) = muster(&["show", leaf, "--folder", text(&to)]);
    assert_eq!((code, &shown), (Some(0), &fleet.json(&["show", leaf])));
    let (code, found) = muster(&["query", "--kind", "result", "--folder", text(&to)]);
    assert_eq!((code, &found["matched"]), (Some(0), &2.into()));

    let address = serve(&from);
    let over = fleet.path("over-http");
    let (code, report) = muster(&["ledger", "mirror", "--from", &address, "--to", text(&over)]);
    assert_eq!(code, Some(0), "{report:#}");
    let (code, report) = muster(&["ledger", "verify", "--folder", text(&over)]);
    assert_eq!((code, &report["verified"]), (Some(0), &true.into()), "{report:#}");
    let (code, refusal) = muster(&["ledger", "mirror", "--from", "https://a", "--to", text(&over)]);
    assert_eq!((code, &refusal["error"]["code"]), (Some(1), &"mirror/address".into()));
    let (code, refusal) = muster(&["ledger", "mirror", "--from", text(&from), "--to", text(&from)]);
    assert_eq!((code, &refusal["error"]["code"]), (Some(1), &"mirror/target".into()));
}

/// Serves the files of a folder on loopback, one connection after another, until the test ends.
fn serve(folder: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let folder: PathBuf = folder.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let (mut head, mut byte) = (Vec::new(), [0_u8]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
            let body = std::fs::read(folder.join(path));
            let status = if body.is_ok() { "200 OK" } else { "404 Not Found" };
            let body = body.unwrap_or_default();
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _gone = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    address
}
