//! Documents name only files that exist.

use super::{files, none, read, root};
use std::path::Path;

/// Words in back quotes that look like paths of this checkout.
fn paths(text: &str) -> Vec<String> {
    let prefixes = [
        "clients/",
        "fleet-config/",
        "ledger/",
        "coordinator/",
        "agent-node/",
        "tests/",
        "scripts/",
        "docs/",
        ".ci/",
    ];
    let quoted = text.split('`').skip(1).step_by(2);
    let words =
        quoted.flat_map(str::split_whitespace).filter(|word| prefixes.iter().any(|p| word.starts_with(p)));
    words
        .filter(|word| !word.contains(['<', '*', '{', '…', '$']))
        .map(|w| w.trim_end_matches([',', '.', ':']).to_owned())
        .collect()
}

/// Whether a word that looks like a path is an error code of a source file.
fn is_code(word: &str, sources: &str) -> bool {
    sources.contains(&format!("\"{word}\""))
}

#[test]
fn every_path_in_the_documents_exists() {
    let mut findings = Vec::new();
    let rust = files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
    let sources: String = rust.map(|path| read(&path)).collect();
    let documents = files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "md"));
    for document in documents.filter(|path| path != Path::new("CHANGELOG.md")) {
        for path in paths(&read(&document)) {
            let file = path.split('#').next().unwrap_or(&path);
            if !root().join(file).exists() && !is_code(file, &sources) {
                findings.push(format!("{}: `{path}`", document.display()));
            }
        }
    }
    none("documents name files that do not exist", findings);
}

/// The texts that sources hand to clap as help, as they stand there.
fn helps(source: &str) -> impl Iterator<Item = &str> {
    let after = source.split("_help = \"").skip(1);
    after.map(|rest| {
        let end = rest.match_indices('"').find(|(at, _)| !rest[..*at].ends_with('\\'));
        end.map_or(rest, |(at, _)| &rest[..at])
    })
}

/// An example that cannot be run as it stands teaches nothing. A path with a star counts up to its folder.
#[test]
fn every_path_in_the_help_of_a_command_exists() {
    let mut findings = Vec::new();
    let mut seen = 0;
    for source in files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        let text = read(&source);
        let words = helps(&text).flat_map(|help| help.split([' ', '\\', '`', ',', ')', '\n']));
        let named = words.filter(|word| ["scripts/", "tests/", "docs/"].iter().any(|p| word.starts_with(p)));
        for word in named.filter(|word| !word.contains(['<', '{', '$'])) {
            seen += 1;
            let path = Path::new(word.trim_end_matches(['.', ':', ';']));
            let found = if word.contains('*') { path.parent().unwrap_or(path) } else { path };
            if !root().join(found).exists() {
                findings.push(format!("{}: {word}", source.display()));
            }
        }
    }
    assert!(seen > 5, "the helps of this house name files: {seen}");
    none("help texts name files that do not exist", findings);
}

#[test]
fn the_pages_of_the_house_are_there() {
    let pages = [
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "docs/ARCHITECTURE.md",
        "docs/PROTOCOL.md",
        "docs/LEDGER.md",
        "docs/STYLE.md",
    ];
    none(
        "missing pages",
        pages.iter().filter(|page| !root().join(page).exists()).map(|p| (*p).into()).collect(),
    );
}
