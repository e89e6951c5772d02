//! The judgement on a task that arrives as a document: what a lint says of its draft, and what only a parser
//! would have refused.

use super::{CaseDraft, Findings, ImplementationDraft, InputDraft, Placed, TaskDraft, check_path, lint};
use crate::domain::{Case, Implementation, Input, LaunchPlan, SourceTree, Task};
use crate::refusal::Refusal;
use std::collections::BTreeMap;

/// Most header trees of a task.
const HEADERS_MAX: usize = 64;

/// Judges a task that a client sent, without its blobs. Codes are those of [`lint()`], with `task/format`,
/// `task/tolerance`, `task/limits`, `task/launch`, `task/input-size` and `source/path`; places name the task
/// alone, as a document has no lines. The warning `task/no-holdout` follows the task's commitment.
pub fn check_task(task: &Task) -> Findings {
    let name: String = task.name.chars().take(64).collect();
    let mut refusals: Vec<Refusal> = faults(task)
        .into_iter()
        .map(|(code, cause)| {
            Refusal::new(code, name.clone(), cause, "Correct the task file and add it again.")
        })
        .collect();
    let trees = [&task.reference.source, &task.baseline.source].into_iter().chain(&task.headers);
    for tree in trees {
        refusals.extend(tree.files.iter().filter_map(|file| check_path(&file.path).err()));
    }
    // Beyond its limits a task is not looked at any closer.
    if refusals.is_empty() {
        let findings = lint(&draft(task, name));
        let sealed = task.holdout.is_some();
        let warnings =
            findings.warnings.into_iter().filter(|warning| !(sealed && warning.code == "task/no-holdout"));
        return Findings { refusals: findings.refusals, warnings: warnings.collect() };
    }
    Findings { refusals, warnings: Vec::new() }
}

fn faults(task: &Task) -> Vec<(&'static str, String)> {
    let mut faults = Vec::new();
    let format = Task::format_for(task.validation.as_ref());
    if task.format != format {
        faults.push(("task/format", format!("the format is not {format}")));
    }
    for (what, value) in [("absolute", &task.tolerance.absolute), ("relative", &task.tolerance.relative)] {
        if value.value() < 0.0 {
            faults.push(("task/tolerance", format!("`{what}` is negative")));
        }
    }
    let limits = &task.limits;
    let ranges = [
        (limits.compile.0, 3_600_000),
        (limits.launch.0, 600_000),
        (limits.run.0, 3_600_000),
        (limits.memory.0, 1 << 40),
        (limits.source.0, 1 << 26),
    ];
    if ranges.iter().any(|(value, most)| !(1..=*most).contains(value)) {
        faults.push(("task/limits", "a limit is zero or beyond what tasks may ask for".to_owned()));
    }
    for (what, side) in [("reference", &task.reference), ("baseline", &task.baseline)] {
        if side.plan.steps.len() > LaunchPlan::STEPS_MAX || side.plan.scratch.len() > LaunchPlan::SCRATCH_MAX
        {
            faults
                .push(("task/launch", format!("the {what} has more steps or scratch than a plan may have")));
        }
    }
    let trees = [&task.reference.source, &task.baseline.source].into_iter().chain(&task.headers);
    let unfit = |tree: &&SourceTree| {
        tree.files.len() > SourceTree::FILES_MAX || !tree.files.iter().any(|file| file.path == tree.main)
    };
    if task.headers.len() > HEADERS_MAX || trees.filter(unfit).count() > 0 {
        faults.push(("source/path", "a source tree has too many files or lacks its main one".to_owned()));
    }
    faults.extend(file_sizes(task));
    faults
}

/// A file input must have exactly the bytes of its buffer.
fn file_sizes(task: &Task) -> Vec<(&'static str, String)> {
    let mut faults = Vec::new();
    for case in &task.cases {
        for param in &task.params {
            let name = &param.name;
            let blob = case.inputs.get(name).or_else(|| task.inputs.get(name)).and_then(Input::blob);
            let wanted = param.buffer_bytes(&case.dims).ok().flatten();
            if let (Some(blob), Some(wanted)) = (blob, wanted)
                && blob.size != wanted
            {
                let cause = format!("the file of `{name}` has {} bytes instead of {wanted}", blob.size);
                faults.push(("task/input-size", cause));
            }
        }
    }
    faults
}

/// The draft that a task could have come from; line 0 stands for no line.
fn draft(task: &Task, file: String) -> TaskDraft {
    TaskDraft {
        file,
        name: placed(task.name.clone()),
        summary: task.summary.clone(),
        entry: placed(task.entry.clone()),
        signature: placed(task.signature.clone()),
        dims: placed(task.dims.clone()),
        params: task.params.iter().cloned().map(placed).collect(),
        inputs: inputs(&task.inputs),
        cases: task.cases.iter().map(case).collect(),
        tolerance: task.tolerance.clone(),
        limits: task.limits.clone(),
        reference: implementation(&task.reference),
        baseline: implementation(&task.baseline),
        headers: task.headers.iter().flat_map(|tree| &tree.files).map(|file| file.path.clone()).collect(),
        holdout: Vec::new(),
        licence: task.licence.clone(),
        provenance: task.provenance.clone(),
        validation: task.validation.clone().map(placed),
    }
}

fn placed<T>(value: T) -> Placed<T> {
    Placed { value, line: 0 }
}

fn inputs(inputs: &BTreeMap<String, Input>) -> BTreeMap<String, Placed<InputDraft>> {
    let draft = |input: &Input| match input.blob() {
        Some(blob) => InputDraft::File(blob.blake3.to_string()),
        None => InputDraft::Drawn(input.clone()),
    };
    inputs.iter().map(|(name, input)| (name.clone(), placed(draft(input)))).collect()
}

fn case(case: &Case) -> CaseDraft {
    CaseDraft {
        name: case.name.clone(),
        kind: case.kind,
        dims: case.dims.clone(),
        inputs: inputs(&case.inputs),
        line: 0,
    }
}

fn implementation(side: &Implementation) -> ImplementationDraft {
    ImplementationDraft {
        file: side.source.main.clone(),
        files: side.source.files.iter().map(|file| file.path.clone()).collect(),
        author: side.author.clone(),
        plan: side.plan.clone(),
        line: 0,
    }
}
