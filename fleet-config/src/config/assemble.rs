//! A task draft and the bytes of its files, joined into a task, its blobs and its sealed section.

use super::{CaseDraft, ImplementationDraft, InputDraft, Placed, TaskDraft, check_path, check_source};
use crate::domain::{
    BlobRef, Bytes, Case, HoldoutSection, Implementation, Input, Param, SourceFile, SourceTree, Task,
};
use crate::refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the files beside a task or candidate file, by the paths that it names them with.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A task, ready to be added.
#[derive(Debug)]
pub struct LoadedTask {
    pub task: Task,
    /// Every blob that [`Task::blobs`] names, each once.
    pub blobs: Vec<(BlobRef, Vec<u8>)>,
    /// To be sealed away with the salt; `None` when the task has no sealed cases.
    pub holdout: Option<HoldoutSection>,
    /// What is weak about the task; [`assemble`] leaves it empty for the lint's answer.
    pub warnings: Vec<Refusal>,
}

impl TaskDraft {
    /// Paths of all source files.
    pub fn sources(&self) -> BTreeSet<&str> {
        let sides = [&self.reference, &self.baseline];
        let files = sides.into_iter().flat_map(|side| [&side.file].into_iter().chain(&side.files));
        files.chain(&self.headers).map(String::as_str).collect()
    }

    /// Paths of all input files.
    pub fn data(&self) -> BTreeSet<&str> {
        let own = self.cases.iter().flat_map(|case| case.inputs.values());
        self.inputs
            .values()
            .chain(own)
            .filter_map(|input| match &input.value {
                InputDraft::File(path) => Some(path.as_str()),
                InputDraft::Drawn(_) => None,
            })
            .collect()
    }
}

/// Joins `draft` with `files`; `salt` seals the holdout (32 random bytes, to be kept with the section; unused
/// when there is none). Errors: a file that is not in `files` (`task/missing-file`), a source that is none
/// (`source/…`), an input file of the wrong size (`task/input-size`), an integer beyond 2^53
/// (`task/canonical`).
pub fn assemble(draft: &TaskDraft, files: &Files, salt: &[u8; 32]) -> Result<LoadedTask, Vec<Refusal>> {
    let mut joiner = Joiner { draft, files, blobs: BTreeMap::new(), refusals: Vec::new() };
    let reference = joiner.implementation(&draft.reference);
    let baseline = joiner.implementation(&draft.baseline);
    let mut headers = Vec::new();
    if let Some(first) = draft.headers.first() {
        headers.push(joiner.tree(first, &draft.headers[1..], &draft.file));
    }
    let inputs = joiner.inputs(&draft.inputs);
    let cases: Vec<Case> = draft.cases.iter().map(|case| joiner.case(case)).collect();
    joiner.data_sizes();
    let sealed: Vec<Case> = draft.holdout.iter().map(|case| joiner.case(case)).collect();
    let section = (!sealed.is_empty()).then(|| HoldoutSection::new(sealed));
    let holdout = match section.as_ref().map(|section| section.holdout(salt)).transpose() {
        Ok(holdout) => holdout,
        Err(_) => {
            joiner.refuse("task/canonical", &draft.file, "a sealed case has an integer of 2^53 or more");
            None
        }
    };
    let validation = draft.validation.as_ref().map(|section| section.value.clone());
    let task = Task {
        format: Task::format_for(validation.as_ref()).to_owned(),
        name: draft.name.value.clone(),
        summary: draft.summary.clone(),
        entry: draft.entry.value.clone(),
        signature: draft.signature.value.clone(),
        dims: draft.dims.value.clone(),
        params: draft.params.iter().map(|param| param.value.clone()).collect::<Vec<Param>>(),
        inputs,
        cases,
        tolerance: draft.tolerance.clone(),
        limits: draft.limits.clone(),
        reference,
        baseline,
        headers,
        holdout,
        licence: draft.licence.clone(),
        provenance: draft.provenance.clone(),
        validation,
    };
    if let Err(error) = task.document() {
        joiner.refuse("task/canonical", &draft.file, &error.to_string());
    }
    if joiner.refusals.is_empty() {
        let blobs = joiner.blobs.into_iter().map(|(blob, path)| (blob, files[path].clone())).collect();
        Ok(LoadedTask { task, blobs, holdout: section, warnings: Vec::new() })
    } else {
        Err(joiner.refusals)
    }
}

struct Joiner<'a> {
    draft: &'a TaskDraft,
    files: &'a Files,
    blobs: BTreeMap<BlobRef, &'a str>,
    refusals: Vec<Refusal>,
}

impl Joiner<'_> {
    fn refuse(&mut self, code: &'static str, place: &str, cause: &str) {
        self.refusals.push(Refusal::new(code, place, cause, "Correct the task file or the file beside it."));
    }

    /// The blob of `path`. What stands for a missing one is never used: its refusal is recorded.
    fn blob(&mut self, path: &str, place: &str, check: Check) -> BlobRef {
        let Some((path, bytes)) = self.files.get_key_value(path) else {
            self.refuse("task/missing-file", place, &format!("the file `{path}` is missing"));
            return BlobRef::of(&[]);
        };
        let checked = match check {
            Check::Source => check_source(bytes, path, self.draft.limits.source),
            Check::Data => check_path(path),
        };
        if let Err(refusal) = checked {
            self.refusals.push(refusal);
        }
        let blob = BlobRef::of(bytes);
        self.blobs.insert(blob, path.as_str());
        blob
    }

    fn tree(&mut self, main: &str, others: &[String], place: &str) -> SourceTree {
        let paths: BTreeSet<&str> = [main].into_iter().chain(others.iter().map(String::as_str)).collect();
        let files: Vec<SourceFile> = paths
            .into_iter()
            .map(|path| SourceFile { path: path.to_owned(), blob: self.blob(path, place, Check::Source) })
            .collect();
        if files.len() > SourceTree::FILES_MAX {
            self.refuse("source/size", place, "the source tree has too many files");
        }
        SourceTree { main: main.to_owned(), files }
    }

    fn implementation(&mut self, side: &ImplementationDraft) -> Implementation {
        let place = self.draft.at(side.line);
        Implementation {
            source: self.tree(&side.file, &side.files, &place),
            plan: side.plan.clone(),
            author: side.author.clone(),
        }
    }

    fn inputs(&mut self, drafts: &BTreeMap<String, Placed<InputDraft>>) -> BTreeMap<String, Input> {
        drafts
            .iter()
            .map(|(name, input)| {
                let place = self.draft.at(input.line);
                let input = match &input.value {
                    InputDraft::Drawn(input) => input.clone(),
                    InputDraft::File(path) => Input::File { blob: self.blob(path, &place, Check::Data) },
                };
                (name.clone(), input)
            })
            .collect()
    }

    fn case(&mut self, case: &CaseDraft) -> Case {
        Case {
            name: case.name.clone(),
            kind: case.kind,
            dims: case.dims.clone(),
            inputs: self.inputs(&case.inputs),
        }
    }

    /// A file input must have exactly the bytes of its buffer, in every case that uses it.
    fn data_sizes(&mut self) {
        for case in self.draft.cases.iter().chain(&self.draft.holdout) {
            for param in &self.draft.params {
                let name = &param.value.name;
                let Some(input) = case.inputs.get(name).or_else(|| self.draft.inputs.get(name)) else {
                    continue;
                };
                let InputDraft::File(path) = &input.value else { continue };
                let (Some(bytes), Ok(Some(wanted))) =
                    (self.files.get(path), param.value.buffer_bytes(&case.dims))
                else {
                    continue;
                };
                if bytes.len() as u64 != wanted {
                    let cause = format!(
                        "`{path}` has {} bytes where `{name}` of the case on line {} takes {wanted}",
                        bytes.len(),
                        case.line
                    );
                    self.refuse("task/input-size", &self.draft.at(input.line), &cause);
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Check {
    Source,
    Data,
}

/// Source bytes of a tree together, against the limit of a task.
pub(super) fn check_tree_size(tree: &SourceTree, limit: Bytes) -> Result<(), Refusal> {
    let total = tree.blobs().fold(0_u64, |sum, blob| sum.saturating_add(blob.size));
    if total <= limit.0 {
        return Ok(());
    }
    let cause = format!("the source tree has {total} bytes, above the {} that the task allows", limit.0);
    Err(Refusal::new("source/size", tree.main.clone(), cause, "Send a smaller source."))
}
