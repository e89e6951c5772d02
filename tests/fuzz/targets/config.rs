//! Files that people write: tasks, candidates, settings, case folders, declarations, invites.

use super::repository::{file, files, tagged};
use super::{Cursor, Target};
use fleet_config::config::case_folder::{Hidden, parse_case, parse_expected, translate};
use fleet_config::config::{
    CoordinatorSettings, Declaration, Files, NodeSettings, assemble, assemble_candidate, check_path,
    check_source, check_task, lint, lint_candidate, parse_candidates, parse_task, scaffold,
};
use fleet_config::domain::{Bytes, Task};
use fleet_config::invite::{Invite, check_address};
use fleet_config::refusal::Refusal;
use std::sync::OnceLock;

/// Largest task file of the seeds is near 4 KiB.
pub(crate) const TASK_FILE: Target = Target::new("task-file", task_file, task_seeds);
pub(crate) const CANDIDATE_FILE: Target = Target::new("candidate-file", candidate_file, candidate_seeds);
pub(crate) const SETTINGS: Target = Target::new("settings", settings, settings_seeds).length(4096);
/// A translated case may carry input files of its own: constants and specials of up to what its limits say.
pub(crate) const CASE_FOLDER: Target = Target::new("case-folder", case_folder, case_seeds).memory(256 << 20);
pub(crate) const DECLARATION: Target =
    Target::new("declaration", declaration, declaration_seeds).length(2048);
pub(crate) const INVITE: Target = Target::new("invite", invite, invite_seeds).length(2048);

/// Every refusal can be shown: a code, a place or a cause, and a next step.
fn shown(refusal: &Refusal) {
    assert!(refusal.code.contains('/'), "`{}` is no stable code", refusal.code);
    assert!(!refusal.cause.is_empty() && !refusal.next.is_empty(), "{refusal:?}");
}

fn task_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let draft = match parse_task(text, "task.toml") {
        Ok(draft) => draft,
        Err(refusal) => return shown(&refusal),
    };
    let findings = lint(&draft);
    findings.refusals.iter().chain(&findings.warnings).for_each(shown);
    let mut files: Files =
        draft.sources().into_iter().map(|path| (path.to_owned(), b"int x;".to_vec())).collect();
    files.extend(draft.data().into_iter().map(|path| (path.to_owned(), vec![0; 64])));
    match assemble(&draft, &files, &[7; 32]) {
        Ok(loaded) => {
            // A draft that the lint passes becomes a task that the coordinator's own check passes.
            let task = check_task(&loaded.task);
            task.refusals.iter().chain(&task.warnings).for_each(shown);
            if findings.refusals.is_empty() {
                assert!(
                    task.refusals.is_empty(),
                    "the lint passes what the check refuses: {:?}",
                    task.refusals
                );
            }
            loaded.task.id().expect("an assembled task has a canonical form");
        }
        Err(refusals) => refusals.iter().for_each(shown),
    }
}

fn task_seeds() -> Vec<Vec<u8>> {
    let mut seeds = files("tests/kernels", "task.toml");
    seeds.truncate(24);
    seeds.extend(files("tests/fixtures", "task.toml"));
    seeds.extend(files("scripts", "task.toml"));
    seeds
}

pub(crate) fn sample_task() -> &'static Task {
    static TASK: OnceLock<Task> = OnceLock::new();
    TASK.get_or_init(|| {
        let bytes = file("tests/vectors/domain/task.json");
        fleet_config::domain::canonical::from_bytes(&bytes).expect("the vector is a task")
    })
}

fn candidate_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let drafts = match parse_candidates(text, "candidate.toml", "entry") {
        Ok(drafts) => drafts,
        Err(refusal) => return shown(&refusal),
    };
    for mut draft in drafts {
        draft.file.get_or_insert_with(|| "kernel.cu".to_owned());
        let files: Files =
            draft.file.iter().chain(&draft.files).map(|path| (path.clone(), b"int x;".to_vec())).collect();
        match assemble_candidate(&draft, &files, Bytes(1 << 20)) {
            Ok(loaded) => {
                lint_candidate(sample_task(), &loaded.candidate).refusals.iter().for_each(shown);
                loaded.candidate.id().expect("an assembled candidate has a canonical form");
            }
            Err(refusal) => shown(&refusal),
        }
    }
}

fn candidate_seeds() -> Vec<Vec<u8>> {
    let mut seeds = files("tests/kernels", "candidate.toml");
    seeds.truncate(24);
    seeds.push(b"[[candidate]]\nfile = \"a.cu\"\nname = \"a\"\n[candidate.cost]\ncalls = 3\n".to_vec());
    seeds
}

fn settings(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match kind % 3 {
        0 => drop(NodeSettings::parse(text, "node.toml").map_err(|refusal| shown(&refusal))),
        1 => drop(CoordinatorSettings::parse(text, "coordinator.toml").map_err(|refusal| shown(&refusal))),
        _ => {
            check_path(text).err().iter().for_each(shown);
            check_address(text).err().iter().for_each(shown);
            check_source(bytes, "a.cu", Bytes(1024)).err().iter().for_each(shown);
        }
    }
}

fn settings_seeds() -> Vec<Vec<u8>> {
    vec![
        tagged(
            0,
            b"name = \"bench-01\"\nsandbox = \"full\"\n[device]\ncpu = true\n[limits]\nblob_bytes = 1\n",
        ),
        tagged(1, b"listen = [\"127.0.0.1:0\"]\n[limits]\nqueue = 10\n"),
        tagged(2, b"include/a.cuh"),
        tagged(2, b"[::1]:7777"),
        tagged(2, b"host.example:65535"),
    ]
}

fn case_folder(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let kind = cursor.byte();
    if kind % 8 == 7 {
        return drop(parse_expected(cursor.rest()).map_err(|refusal| shown(&refusal)));
    }
    let case = match parse_case(cursor.rest()) {
        Ok(case) => case,
        Err(refusal) => return shown(&refusal),
    };
    // Input files are written out; a case of gigabytes is for a machine that has them.
    let source = b"extern \"C\" __global__ void k(const float* a, float* b, int n) {}".to_vec();
    let files: Files = [&case.reference]
        .into_iter()
        .chain(&case.candidates)
        .map(|path| (path.clone(), source.clone()))
        .collect();
    let hidden = if kind.is_multiple_of(2) { Hidden::Open } else { Hidden::Sealed };
    match translate(&case, &files, hidden) {
        Ok(folder) => {
            let text = folder.files.iter().find(|(path, _)| path.ends_with("task.toml"));
            let (_, text) = text.expect("a translated case has a task file");
            let text = std::str::from_utf8(text).expect("a task file is text");
            // A task may be refused for what it says; what is written is TOML of the right shape.
            if let Err(refusal) = parse_task(text, "task.toml") {
                let written = ["task/syntax", "task/unknown-key", "task/missing-key"];
                assert!(!written.contains(&&*refusal.code), "{refusal:?} in {text}");
            }
        }
        Err(refusal) => shown(&refusal),
    }
}

fn case_seeds() -> Vec<Vec<u8>> {
    let cases =
        files("tests/cases", "case.json").into_iter().chain(files("tests/fixtures/cases", "case.json"));
    let mut seeds: Vec<Vec<u8>> = cases.take(40).map(|case| tagged(0, &case)).collect();
    let answers = files("tests/fixtures/cases", "expected.json");
    seeds.extend(answers.iter().map(|answer| tagged(7, answer)));
    seeds
}

fn declaration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(declaration) = Declaration::parse(text) else { return };
    assert!(declaration.parameters.iter().all(|parameter| !parameter.elements.is_empty()));
    match scaffold(text, "reference.cu", "kernel.cu") {
        Ok(task) => assert!(parse_task(&task, "task.toml").is_ok(), "{task}"),
        Err(refusal) => shown(&refusal),
    }
}

fn declaration_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "extern \"C\" __global__ void copy(const float* __restrict__ a, float* b, int n)",
        "extern \"C\" __global__ void __launch_bounds__(256, 2) k(const __half* a, double *, unsigned long long n);",
        "extern \"C\" /* c */ __global__ void k(float4 const * a, bool* b, float scale, int8_t x) // end",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// A token that parses is written again as the same text; raw bytes get their checksum, so that more of them parse.
fn invite(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    let text = if kind.is_multiple_of(2) {
        String::from_utf8_lossy(bytes).into_owned()
    } else {
        let sum = fleet_config::domain::Digest::of(bytes).0;
        let encoded = data_encoding::BASE64URL_NOPAD.encode(&[bytes, &sum[..4]].concat());
        format!("muster-invite-1:{encoded}")
    };
    match Invite::parse(&text) {
        Ok(invite) => {
            let again = invite.to_text().expect("what was read can be written");
            assert_eq!(again.as_str(), text.trim());
        }
        Err(refusal) => {
            shown(&refusal);
            // A token is a secret: no refusal quotes it.
            let quoted = kind % 2 == 1 && bytes.len() > 24 && refusal.cause.contains(&text);
            assert!(!quoted, "the refusal quotes the token");
        }
    }
}

fn invite_seeds() -> Vec<Vec<u8>> {
    let invite = Invite {
        secret: fleet_config::invite::InviteSecret::new([9; 32]),
        coordinator: fleet_config::domain::Sha256([8; 32]),
        expires_unix_ms: 1_700_000_000_000,
        id: fleet_config::invite::InviteId([7; 8]),
        addresses: vec!["127.0.0.1:7777".to_owned(), "[::1]:7777".to_owned()],
    };
    let text = invite.to_text().expect("the invite can be written");
    let encoded = text.strip_prefix("muster-invite-1:").expect("it starts so");
    let raw = data_encoding::BASE64URL_NOPAD.decode(encoded.as_bytes()).expect("it is base64url");
    vec![tagged(0, text.as_bytes()), tagged(1, &raw[..raw.len() - 4])]
}
