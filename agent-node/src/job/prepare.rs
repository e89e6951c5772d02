//! Step one: documents and sources, fetched, parsed and checked before any compiler sees them.

use super::context::Context;
use super::fault::{Party, Stop, cause, infrastructure};
use super::resolve::{Setting, resolve};
use crate::backend::{Evaluation, Failure, Sources};
use fleet_config::domain::{
    Blame, BlobRef, Candidate, CaseKind, Cause, DeviceKind, Digest, LaunchPlan, MeasurementPolicy, Outcome,
    SourcePlace, SourceTree, Stage, Status, Task, canonical,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Component, Path};
use std::sync::Arc;

/// Largest document (task, candidate, policy): far above any real one.
const DOCUMENT_MAX: u64 = 4 << 20;

/// Everything that the later steps read.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub task: Task,
    pub candidate: Candidate,
    pub policy: MeasurementPolicy,
    pub sources: BTreeMap<Party, Sources>,
    pub headers: Vec<Sources>,
    /// Binary inputs by digest.
    pub files: Arc<BTreeMap<Digest, Vec<u8>>>,
    /// Every case of the task as numbers, by party, in the order of the task.
    pub evaluations: BTreeMap<Party, Vec<Evaluation>>,
}

impl Prepared {
    /// The launch plan of `party`; a candidate without one is launched as the baseline is.
    pub(super) fn plan(&self, party: Party) -> &LaunchPlan {
        plan(&self.task, &self.candidate, party)
    }
    /// Whether baseline and reference are the same implementation, so that one run stands for both.
    pub(super) fn baseline_is_reference(&self) -> bool {
        let (reference, baseline) = (&self.task.reference, &self.task.baseline);
        reference.source == baseline.source && reference.plan == baseline.plan
    }
}

fn plan<'a>(task: &'a Task, candidate: &'a Candidate, party: Party) -> &'a LaunchPlan {
    match party {
        Party::Reference => &task.reference.plan,
        Party::Baseline => &task.baseline.plan,
        Party::Candidate => candidate.plan.as_ref().unwrap_or(&task.baseline.plan),
    }
}

/// Fetches the candidate's document. Comes first: without it a result has no subject and cannot be signed.
pub(super) fn candidate(context: &Context<'_>) -> Result<Candidate, Stop> {
    document(context, "candidate", &context.assignment.candidate)
}

fn check_format(what: &str, format: &str, known: &str) -> Result<(), Failure> {
    if format == known {
        return Ok(());
    }
    let message = format!("the {what} has the format `{format}`; this node reads `{known}`");
    Err(infrastructure(Stage::Prepare, "prepare/format", message))
}

fn document<T: DeserializeOwned>(context: &Context<'_>, what: &str, blob: &BlobRef) -> Result<T, Stop> {
    if blob.size > DOCUMENT_MAX {
        let message = format!("the {what} has {} bytes, limit {DOCUMENT_MAX}", blob.size);
        return Err(infrastructure(Stage::Prepare, "prepare/document-size", message).into());
    }
    let bytes = fetch(context, blob)?;
    // The coordinator accepted this document: if it does not read here, the two disagree, which is no fault of
    // whoever wrote it.
    canonical::from_bytes(&bytes).map_err(|error| {
        infrastructure(Stage::Prepare, "prepare/document", format!("the {what} document: {error}")).into()
    })
}

/// Fetches the other documents, sources and inputs, checks sources, resolves every case for every party.
pub(super) fn prepare(context: &Context<'_>, candidate: Candidate) -> Result<Prepared, Stop> {
    if context.assignment.seeds.is_empty() {
        let message = "the assignment has no seed to draw inputs from";
        return Err(infrastructure(Stage::Prepare, "prepare/no-seed", message).into());
    }
    let task: Task = document(context, "task", &context.assignment.task)?;
    let policy: MeasurementPolicy = document(context, "policy", &context.assignment.policy)?;
    check_format("candidate", &candidate.format, Candidate::FORMAT)?;
    check_format("task", &task.format, Task::format_for(task.validation.as_ref()))?;
    check_format("policy", &policy.format, policy.form())?;
    if !task.cases.iter().any(|case| case.kind == CaseKind::Performance) {
        let cause = cause("prepare/no-performance-case", "the task has no performance case to time");
        let hint = "give the task a performance case";
        return Err(Failure::new(Outcome::failed(
            Status::TaskWeak,
            Stage::Prepare,
            Blame::Task,
            cause,
            hint,
        ))
        .into());
    }
    let mut evaluations = BTreeMap::new();
    // What only compiles launches nothing, and does not know what a board would answer to a plan.
    let parties: &[Party] = match context.device.kind {
        DeviceKind::Cpu | DeviceKind::Gpu => &[Party::Reference, Party::Baseline, Party::Candidate],
        DeviceKind::Compile => &[],
    };
    for &party in parties {
        let resolved: Result<Vec<Evaluation>, Failure> = task
            .cases
            .iter()
            .map(|case| {
                let setting = Setting { task: &task, case, attributes: &context.device.attributes, party };
                resolve(setting, plan(&task, &candidate, party))
            })
            .collect();
        evaluations.insert(party, resolved?);
    }
    let mut sources = BTreeMap::new();
    sources.insert(Party::Reference, tree(context, Party::Reference, &task.reference.source, u64::MAX)?);
    sources.insert(Party::Baseline, tree(context, Party::Baseline, &task.baseline.source, u64::MAX)?);
    let limit = task.limits.source.0;
    sources.insert(Party::Candidate, tree(context, Party::Candidate, &candidate.source, limit)?);
    let mut headers = Vec::new();
    for header in &task.headers {
        headers.push(tree(context, Party::Reference, header, u64::MAX)?);
    }
    let mut files = BTreeMap::new();
    let inputs = task.inputs.values().chain(task.cases.iter().flat_map(|case| case.inputs.values()));
    for blob in inputs.filter_map(|input| input.blob()) {
        if let Entry::Vacant(place) = files.entry(blob.blake3) {
            place.insert(fetch(context, &blob)?);
        }
    }
    let files = Arc::new(files);
    Ok(Prepared { task, candidate, policy, sources, headers, files, evaluations })
}

fn fetch(context: &Context<'_>, blob: &BlobRef) -> Result<Vec<u8>, Stop> {
    context.go_on()?;
    let bytes = context
        .blobs
        .fetch(blob)
        .map_err(|fault| infrastructure(Stage::Prepare, "prepare/missing-blob", fault.to_string()))?;
    if BlobRef::of(&bytes) == *blob {
        return Ok(bytes);
    }
    let message = format!("the blob {} does not hash to its name", blob.blake3);
    Err(infrastructure(Stage::Prepare, "prepare/corrupt-blob", message).into())
}

fn tree(context: &Context<'_>, party: Party, tree: &SourceTree, limit: u64) -> Result<Sources, Stop> {
    check_manifest(party, tree, limit)?;
    let mut files = BTreeMap::new();
    for file in &tree.files {
        let bytes = fetch(context, &file.blob)?;
        check_text(party, &file.path, &bytes)?;
        files.insert(file.path.clone(), bytes);
    }
    Ok(Sources { main: tree.main.clone(), files })
}

fn check_manifest(party: Party, tree: &SourceTree, limit: u64) -> Result<(), Failure> {
    if tree.files.len() > SourceTree::FILES_MAX {
        let message = format!("{} source files, limit {}", tree.files.len(), SourceTree::FILES_MAX);
        return Err(rejected(party, "prepare/too-many-files", message, None));
    }
    let size = tree.blobs().map(|blob| blob.size).fold(0_u64, u64::saturating_add);
    if size > limit {
        let message = format!("the source tree has {size} bytes, limit {limit}");
        return Err(rejected(party, "prepare/source-size", message, None));
    }
    for file in &tree.files {
        let plain = Path::new(&file.path).components().all(|part| matches!(part, Component::Normal(_)));
        if file.path.is_empty() || !plain || file.path.contains(['\\', '\0', '\n', '\r', '"']) {
            let message = format!("`{}` is no plain relative path", file.path.escape_debug());
            return Err(rejected(party, "prepare/source-path", message, None));
        }
    }
    if !tree.files.iter().any(|file| file.path == tree.main) {
        let message = format!("the main file `{}` is not among the source files", tree.main.escape_debug());
        return Err(rejected(party, "prepare/no-main", message, None));
    }
    let mut paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    if let Some(pair) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
        let message = format!("the file `{}` is listed twice", pair[0]);
        return Err(rejected(party, "prepare/source-path", message, None));
    }
    Ok(())
}

/// A byte order mark and CRLF are fine; NUL and invalid UTF-8 never reach a compiler.
fn check_text(party: Party, path: &str, bytes: &[u8]) -> Result<(), Failure> {
    let place = |offset: usize| {
        let before = &bytes[..offset];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        SourcePlace { file: path.to_owned(), line: number(line), column: number(column) }
    };
    if let Some(offset) = bytes.iter().position(|byte| *byte == 0) {
        let place = place(offset);
        let message = format!("`{path}` has a NUL byte at offset {offset} (line {})", place.line);
        return Err(rejected(party, "prepare/nul-byte", message, Some(place)));
    }
    if let Err(error) = std::str::from_utf8(bytes) {
        let offset = error.valid_up_to();
        let place = place(offset);
        let message = format!("`{path}` is not UTF-8 at offset {offset} (line {})", place.line);
        return Err(rejected(party, "prepare/not-utf8", message, Some(place)));
    }
    Ok(())
}

fn rejected(party: Party, code: &str, message: String, source: Option<SourcePlace>) -> Failure {
    let cause = Cause { source, ..cause(code, message) };
    let hint = "correct the source and submit it again";
    party.charge(Failure::new(Outcome::failed(Status::Rejected, Stage::Prepare, party.blame(), cause, hint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], code: Option<&str>) {
        let verdict = check_text(Party::Candidate, "a.cu", bytes).map_err(|failure| failure.outcome);
        let found = verdict.err().and_then(|outcome| outcome.cause).map(|cause| cause.code);
        assert_eq!(found.as_deref(), code, "{bytes:?}");
    }

    #[test]
    fn a_byte_order_mark_and_crlf_are_accepted_nul_and_invalid_utf8_are_not() {
        check(b"\xef\xbb\xbfint x;\r\n", None);
        check("// größe\n".as_bytes(), None);
        check(b"int x;\0", Some("prepare/nul-byte"));
        check(b"int x; // \xff", Some("prepare/not-utf8"));
    }

    #[test]
    fn paths_that_leave_the_tree_are_refused() {
        let tree = |path: &str| SourceTree {
            main: path.to_owned(),
            files: vec![fleet_config::domain::SourceFile { path: path.to_owned(), blob: BlobRef::of(b"") }],
        };
        assert!(check_manifest(Party::Candidate, &tree("sub/a.cu"), 10).is_ok());
        for bad in ["", "/etc/passwd", "../a.cu", "a/../../b", "a\0b", "a\nb"] {
            let failure = check_manifest(Party::Candidate, &tree(bad), 10).unwrap_err();
            assert_eq!(failure.outcome.status, Status::Rejected, "{bad:?}");
        }
    }
}
