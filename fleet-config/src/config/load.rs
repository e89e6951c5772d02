//! The only reader of files in this crate: task, candidate and settings files with what stands beside them.

use super::case_folder::{CaseFolder, Expected, parse_case, parse_expected};
use super::document::TEXT_MAX;
use super::{
    CandidateDraft, CoordinatorSettings, Files, Findings, LoadedCandidate, LoadedTask, NodeSettings,
    TaskDraft, assemble, assemble_candidate, check_path, lint, parse_candidates, parse_task,
};
use crate::domain::Bytes;
use crate::generator;
use crate::refusal::Refusal;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Reads, parses, lints and assembles the task file at `path`. `salt` seals its holdout: 32 fresh random bytes,
/// which the caller keeps with the section. Every refusal is in the error; warnings are there or in the task.
pub fn task(path: &Path, salt: &[u8; 32]) -> Result<LoadedTask, Findings> {
    let draft = task_draft(path).map_err(single)?;
    let mut findings = lint(&draft);
    if !findings.refusals.is_empty() {
        // Missing files are told together with the rest.
        findings.refusals.extend(task_files(&draft, path).err().unwrap_or_default());
        return Err(findings);
    }
    let warnings = findings.warnings;
    match task_files(&draft, path).and_then(|files| assemble(&draft, &files, salt)) {
        Ok(loaded) => Ok(LoadedTask { warnings, ..loaded }),
        Err(refusals) => Err(Findings { refusals, warnings }),
    }
}

/// Reads and parses the task file at `path`, without the files beside it.
pub fn task_draft(path: &Path) -> Result<TaskDraft, Refusal> {
    parse_task(&text(path, TASK)?, &shown(path))
}

/// Everything that a lint can say of the task file at `path` and its files, without running anything.
pub fn lint_task(path: &Path) -> Findings {
    match task(path, &[0; 32]) {
        Ok(loaded) => Findings { refusals: Vec::new(), warnings: loaded.warnings },
        Err(findings) => findings,
    }
}

/// Reads the candidates at `path`: a source file (with its sidecar `NAME.toml` where there is one), or a TOML
/// file. `entry` is the task's entry, `limit` its limit on sources. Errors: all that is wrong with all of them.
pub fn candidates(path: &Path, entry: &str, limit: Bytes) -> Result<Vec<LoadedCandidate>, Vec<Refusal>> {
    let drafts = candidate_drafts(path, entry).map_err(|refusal| vec![refusal])?;
    let (mut loaded, mut refusals) = (Vec::new(), Vec::new());
    for draft in drafts {
        let joined =
            candidate_files(&draft, path, limit).and_then(|files| assemble_candidate(&draft, &files, limit));
        match joined {
            Ok(candidate) => loaded.push(candidate),
            Err(refusal) => refusals.push(refusal),
        }
    }
    if refusals.is_empty() { Ok(loaded) } else { Err(refusals) }
}

/// Reads the case folder at `folder`: `case.json` and the sources that it names. Sources are bytes, whatever they hold.
pub fn case_folder(folder: &Path) -> Result<(CaseFolder, Files), Refusal> {
    let case = parse_case(&case_file(folder, "case.json")?)?;
    let mut sources = Files::new();
    for name in [&case.reference].into_iter().chain(&case.candidates) {
        check_path(name)?;
        match bytes(&folder.join(name), SOURCE_MAX) {
            Ok(bytes) => {
                sources.insert(name.clone(), bytes);
            }
            // The translation names what is missing.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable("case/unreadable-file", "case.json", name, &error)),
        }
    }
    Ok((case, sources))
}

/// Reads the answer of the case folder at `folder`.
pub fn case_expected(folder: &Path) -> Result<Expected, Refusal> {
    parse_expected(&case_file(folder, "expected.json")?)
}

/// Largest source of a case that is read, in bytes: beyond the limit of any task, so that its check can refuse it.
const SOURCE_MAX: u64 = 1 << 26;

fn case_file(folder: &Path, name: &'static str) -> Result<Vec<u8>, Refusal> {
    let path = folder.join(name);
    bytes(&path, TEXT_MAX as u64 * 16).map_err(|error| {
        let cause = format!("cannot be read: {error}");
        Refusal::new(
            "case/unreadable-file",
            path.display().to_string(),
            cause,
            "Put it into the case folder.",
        )
    })
}

/// Reads a node's settings.
pub fn node_settings(path: &Path) -> Result<NodeSettings, Refusal> {
    NodeSettings::parse(&text(path, NODE)?, &shown(path))
}

/// Reads a coordinator's settings.
pub fn coordinator_settings(path: &Path) -> Result<CoordinatorSettings, Refusal> {
    CoordinatorSettings::parse(&text(path, COORDINATOR)?, &shown(path))
}

/// Codes of a file that cannot be read and of one that is no text.
type Codes = [&'static str; 2];
const TASK: Codes = ["task/unreadable-file", "task/utf8"];
const CANDIDATE: Codes = ["candidate/unreadable-file", "candidate/utf8"];
const NODE: Codes = ["node/unreadable-file", "node/utf8"];
const COORDINATOR: Codes = ["coordinator/unreadable-file", "coordinator/utf8"];

fn candidate_drafts(path: &Path, entry: &str) -> Result<Vec<CandidateDraft>, Refusal> {
    if path.extension().is_some_and(|ending| ending == "toml") {
        return parse_candidates(&text(path, CANDIDATE)?, &shown(path), entry);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let sidecar = path.with_extension("toml");
    if !sidecar.is_file() {
        return Ok(vec![CandidateDraft::bare(&name)]);
    }
    let drafts = parse_candidates(&text(&sidecar, CANDIDATE)?, &shown(&sidecar), entry)?;
    let fits = |draft: &CandidateDraft| draft.file.as_ref().is_none_or(|file| *file == name);
    match <[CandidateDraft; 1]>::try_from(drafts) {
        Ok([draft]) if fits(&draft) => Ok(vec![CandidateDraft { file: Some(name), ..draft }]),
        Ok(_) | Err(_) => {
            let cause = format!("the sidecar of `{name}` describes another file");
            let next = "Submit the TOML file itself, or rename it.";
            Err(Refusal::new("candidate/sidecar", shown(&sidecar), cause, next))
        }
    }
}

fn candidate_files(draft: &CandidateDraft, path: &Path, limit: Bytes) -> Result<Files, Refusal> {
    let mut files = Files::new();
    for name in draft.file.iter().chain(&draft.files) {
        check_path(name)?;
        match bytes(&beside(path, name), limit.0) {
            Ok(bytes) => {
                files.insert(name.clone(), bytes);
            }
            // The assembly names what is missing.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable("candidate/unreadable-file", &draft.place, name, &error)),
        }
    }
    Ok(files)
}

fn task_files(draft: &TaskDraft, path: &Path) -> Result<Files, Vec<Refusal>> {
    let (mut files, mut refusals) = (Files::new(), Vec::new());
    let sources = draft.sources().into_iter().map(|name| (name, draft.limits.source.0));
    let data = draft.data().into_iter().map(|name| (name, generator::BYTES_MAX));
    for (name, limit) in sources.chain(data) {
        if let Err(refusal) = check_path(name) {
            refusals.push(refusal);
            continue;
        }
        match bytes(&beside(path, name), limit) {
            Ok(bytes) => {
                files.insert(name.to_owned(), bytes);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let cause = format!("the file `{name}` is missing");
                let next = "Correct the path, relative to the task file.";
                refusals.push(Refusal::new("task/missing-file", draft.file.clone(), cause, next));
            }
            Err(error) => refusals.push(unreadable("task/unreadable-file", &draft.file, name, &error)),
        }
    }
    if refusals.is_empty() { Ok(files) } else { Err(refusals) }
}

fn unreadable(code: &'static str, place: &str, name: &str, error: &std::io::Error) -> Refusal {
    Refusal::new(code, place, format!("the file `{name}` cannot be read: {error}"), "Make it readable.")
}

fn beside(path: &Path, name: &str) -> std::path::PathBuf {
    path.parent().unwrap_or(Path::new("")).join(name)
}

/// How people know the file: its name, without the folder.
fn shown(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The text of a TOML file, at most one byte more than is allowed, so that the parser refuses it.
fn text(path: &Path, [unreadable, utf8]: Codes) -> Result<String, Refusal> {
    let place = path.display().to_string();
    let bytes = bytes(path, TEXT_MAX as u64).map_err(|error| {
        Refusal::new(unreadable, place.clone(), format!("cannot be read: {error}"), "Check the path.")
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let cause = format!("invalid UTF-8 at offset {}", error.utf8_error().valid_up_to());
        Refusal::new(utf8, place, cause, "Save the file as UTF-8 text.")
    })
}

/// The bytes of a regular file, at most one more than `limit`, so that the check that follows can refuse it.
fn bytes(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    let no_file = || std::io::Error::new(ErrorKind::InvalidInput, "it is no regular file");
    // Looked at before it is opened too: opening a pipe waits for somebody who writes into it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(no_file());
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn single(refusal: Refusal) -> Findings {
    Findings { refusals: vec![refusal], warnings: Vec::new() }
}
