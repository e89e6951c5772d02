//! Rules of source files: purity, sizes, first lines, words.

use super::{files, none, read};
use std::path::{Path, PathBuf};

/// Rooms that hold decisions and formats: no clock, no randomness, no IO, no iteration in hash order.
const PURE: [&str; 20] = [
    "fleet-config/src/domain",
    "fleet-config/src/wire",
    "fleet-config/src/generator",
    "ledger/src/entry",
    "ledger/src/log/tree.rs",
    "ledger/src/log/proof.rs",
    "ledger/src/log/proof_file.rs",
    "ledger/src/query",
    "ledger/src/audit",
    "ledger/src/claim",
    "ledger/src/dossier",
    "ledger/src/log/tile.rs",
    "ledger/src/log/note.rs",
    "ledger/src/log/checkpoint.rs",
    "ledger/src/stats",
    "ledger/src/rank",
    "coordinator/src/scheduler",
    "coordinator/src/optimizer",
    "agent-node/src/session/machine",
    "agent-node/src/measure/plan.rs",
];

const IMPURE: [&str; 13] = [
    "tokio::",
    "quinn::",
    "axum::",
    "sled::",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "Instant::now",
    "SystemTime::now",
    "getrandom",
    "HashMap",
    "HashSet",
];

/// Lines of a file without its tests.
const LINES_MAX: usize = 500;

fn sources() -> Vec<PathBuf> {
    files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs")).collect()
}

fn is_test(path: &Path) -> bool {
    path.starts_with("tests")
        || path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "benches")))
        || path.file_name().is_some_and(|name| name == "tests.rs")
}

/// The part before a trailing `#[cfg(test)] mod … {`.
fn production(text: &str) -> &str {
    let mut rest = 0;
    while let Some(at) = text[rest..].find("#[cfg(test)]") {
        let after = text[rest + at..].trim_start_matches("#[cfg(test)]").trim_start();
        if after.starts_with("mod ") && after.lines().next().is_some_and(|line| line.ends_with('{')) {
            return &text[..rest + at];
        }
        rest += at + 1;
    }
    text
}

#[test]
fn pure_rooms_are_pure() {
    let mut findings = Vec::new();
    for path in
        sources().into_iter().filter(|path| PURE.iter().any(|room| path.starts_with(room)) && !is_test(path))
    {
        let text = read(&path);
        for (number, line) in production(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in IMPURE.iter().filter(|word| code.contains(**word)) {
                findings.push(format!("{}:{}: {word}", path.display(), number + 1));
            }
        }
    }
    none("a pure room touches the world", findings);
}

#[test]
fn every_file_says_its_purpose_in_its_first_line() {
    let silent = sources().into_iter().filter(|path| !read(path).starts_with("//! "));
    none("no `//! purpose` in the first line", silent.map(|path| path.display().to_string()).collect());
}

#[test]
fn files_stay_rooms() {
    let mut findings = Vec::new();
    for path in sources().into_iter().filter(|path| !is_test(path)) {
        let lines = production(&read(&path)).lines().count();
        if lines > LINES_MAX {
            findings.push(format!("{}: {lines} lines, at most {LINES_MAX}", path.display()));
        }
    }
    none("files that grew too large", findings);
}

#[test]
fn no_file_is_named_for_nothing() {
    let vague = ["util", "utils", "common", "misc", "helpers", "imp", "stuff"];
    let named =
        sources().into_iter().filter(|path| path.file_stem().is_some_and(|s| vague.iter().any(|v| s == *v)));
    none("files without a noun", named.map(|path| path.display().to_string()).collect());
}

#[test]
fn bincode_has_two_doors_and_sled_one() {
    let mut findings = Vec::new();
    for path in sources().into_iter().filter(|path| !is_test(path)) {
        let text = read(&path);
        if text.contains("bincode::")
            && path != Path::new("fleet-config/src/wire/codec.rs")
            && !path.starts_with("ledger/src/index")
        {
            findings.push(format!("{} uses bincode", path.display()));
        }
        if text.contains("sled::") && !path.starts_with("ledger/src/index") {
            findings.push(format!("{} uses sled", path.display()));
        }
    }
    none("only the codec and the index may", findings);
}

#[test]
fn children_are_started_in_one_room() {
    let rooms = [
        "agent-node/src/sandbox",
        "coordinator/src/cli/spawn.rs",
        "agent-node/build.rs",
        "coordinator/build.rs",
    ];
    let mut findings = Vec::new();
    for path in sources().into_iter().filter(|path| !is_test(path) && !path.starts_with("agent-node/tests")) {
        let text = read(&path);
        let found = production(&text)
            .lines()
            .any(|line| line.split("//").next().is_some_and(|code| code.contains("Command::new(")));
        if found && !rooms.iter().any(|room| path.starts_with(room)) {
            findings.push(path.display().to_string());
        }
    }
    none("starts a child", findings);
}
