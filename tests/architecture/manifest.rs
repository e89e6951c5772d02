//! Top level and package arrows, read from the folder and the manifests.

use super::{files, none, read};
use std::collections::BTreeSet;
use std::path::Path;

const TOP_LEVEL: [&str; 19] = [
    ".ci",
    ".gitignore",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "agent-node",
    "clients",
    "clippy.toml",
    "coordinator",
    "deny.toml",
    "docs",
    "fleet-config",
    "ledger",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "scripts",
    "tests",
];

/// Who may depend on whom inside the house.
const ARROWS: [(&str, &[&str]); 5] = [
    ("fleet-config", &[]),
    ("ledger", &["fleet-config"]),
    ("coordinator", &["fleet-config", "ledger"]),
    ("agent-node", &["fleet-config", "ledger"]),
    ("tests", &["fleet-config", "ledger", "coordinator", "agent-node"]),
];

/// Packages named for the house, each in use for what it is for.
const NAMED: [(&str, &str); 10] = [
    ("tokio", "coordinator/Cargo.toml"),
    ("quinn", "coordinator/Cargo.toml"),
    ("rustls", "coordinator/Cargo.toml"),
    ("cudarc", "agent-node/Cargo.toml"),
    ("sled", "ledger/Cargo.toml"),
    ("serde", "fleet-config/Cargo.toml"),
    ("bincode", "fleet-config/Cargo.toml"),
    ("blake3", "fleet-config/Cargo.toml"),
    ("nvml-wrapper", "agent-node/Cargo.toml"),
    ("tracing", "coordinator/Cargo.toml"),
];

fn dependencies(manifest: &str) -> BTreeSet<String> {
    let names = manifest.lines().filter_map(|line| line.split([' ', '.', '=']).next());
    names.filter(|name| !name.is_empty() && !name.starts_with(['#', '['])).map(str::to_owned).collect()
}

#[test]
fn the_top_level_is_exactly_the_list() {
    let found: BTreeSet<String> = files()
        .iter()
        .filter_map(|path| path.components().next())
        .map(|first| first.as_os_str().to_string_lossy().into_owned())
        .collect();
    let strangers = found.iter().filter(|name| !TOP_LEVEL.contains(&name.as_str())).cloned().collect();
    none("not part of the top level", strangers);
}

#[test]
fn packages_depend_only_downwards() {
    let mut findings = Vec::new();
    for (package, allowed) in ARROWS {
        let names = dependencies(&read(&Path::new(package).join("Cargo.toml")));
        for (other, _) in ARROWS {
            if names.contains(other) && !allowed.contains(&other) {
                findings.push(format!("{package} depends on {other}"));
            }
        }
    }
    none("forbidden arrows", findings);
}

#[test]
fn the_contract_knows_no_runtime() {
    let names = dependencies(&read(Path::new("fleet-config/Cargo.toml")));
    let forbidden = ["tokio", "quinn", "sled", "axum", "rustls"];
    none(
        "fleet-config depends on",
        forbidden.iter().filter(|n| names.contains(**n)).map(|n| (*n).into()).collect(),
    );
}

#[test]
fn all_ten_named_packages_are_in_use() {
    let mut findings = Vec::new();
    for (name, manifest) in NAMED {
        if !dependencies(&read(Path::new(manifest))).contains(name) {
            findings.push(format!("{name} is missing from {manifest}"));
        }
        let used = name.replace('-', "_");
        let sources = files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
        if !sources
            .into_iter()
            .any(|path| !path.starts_with("tests") && read(&path).contains(&format!("{used}::")))
        {
            findings.push(format!("{name} is declared and nowhere used"));
        }
    }
    none("named packages", findings);
}
