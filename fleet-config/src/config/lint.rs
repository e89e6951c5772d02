//! The judgement on a task draft: what makes it unfit, and what makes it weak. Pure; a zero or untouched output
//! that passes needs execution and is found by a node.

use super::declaration::{Declaration, Passing};
use super::plan_check::{PlanFrame, check_plan, is_identifier};
use super::{CaseDraft, ImplementationDraft, InputDraft, TaskDraft, check_path};
use crate::domain::{CaseKind, Expression, Input, Param, ParamKind, Role, shape};
use crate::generator;
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Most parameters, dimensions and cases of a task; bounds every loop over them.
const PARAMS_MAX: usize = 64;
const DIMS_MAX: usize = 64;
const CASES_MAX: usize = 256;
/// Most timed cases of a task: each has a line of some 350 bytes in the record of a result, and the record is signed as
/// one entry of at most 32 KiB, written out in base64.
pub const TIMED_MAX: usize = 40;
/// Longest name of a task or case in bytes.
const NAME_MAX: usize = 64;

/// What a lint finds. Refusals make the task unusable; warnings do not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Findings {
    pub refusals: Vec<Refusal>,
    pub warnings: Vec<Refusal>,
}

impl Findings {
    fn refuse(&mut self, code: &'static str, place: String, cause: impl Into<String>, next: &str) {
        self.refusals.push(Refusal::new(code, place, cause, next));
    }
    fn warn(&mut self, code: &'static str, place: String, cause: impl Into<String>, next: &str) {
        self.warnings.push(Refusal::new(code, place, cause, next));
    }
}

/// Judges a draft without looking at any file beside it. Refusals: `task/name`, `task/duplicate`,
/// `task/limits`, `task/signature`, `task/param`, `task/no-output`, `task/no-performance-case`, `task/case`,
/// `task/shape`, `task/sweep`, `task/memory`, `task/input`, `task/launch`, `source/path`, `task/holdout-file`. Warnings:
/// `task/constant-input`, `task/one-author`, `task/no-licence`, `task/no-odd-case`, `task/no-holdout`.
pub fn lint(draft: &TaskDraft) -> Findings {
    let mut findings = Findings::default();
    names(draft, &mut findings);
    signature(draft, &mut findings);
    cases(draft, &mut findings);
    for case in draft.cases.iter().chain(&draft.holdout) {
        sizes(draft, case, &mut findings);
    }
    inputs(draft, &mut findings);
    validation(draft, &mut findings);
    implementation(draft, &draft.reference, "reference", &mut findings);
    implementation(draft, &draft.baseline, "baseline", &mut findings);
    weaknesses(draft, &mut findings);
    findings
}

fn names(draft: &TaskDraft, findings: &mut Findings) {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = &draft.name.value;
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(legal) {
        let cause = format!("the name `{name}` is not 1 to {NAME_MAX} of a-z, 0-9 and -");
        findings.refuse("task/name", draft.at(draft.name.line), cause, "Rename the task.");
    }
    for dim in &draft.dims.value {
        let plain = dim.parse::<Expression>().is_ok_and(|e| e.names().contains(dim.as_str()));
        if !plain || dim.contains('.') {
            let cause = format!("the dimension `{dim}` is no name in lower case");
            findings.refuse("task/name", draft.at(draft.dims.line), cause, "Rename the dimension.");
        }
    }
    for param in draft.params.iter().filter(|param| !is_identifier(&param.value.name)) {
        let cause = format!("the parameter `{}` is no C identifier", param.value.name);
        findings.refuse("task/name", draft.at(param.line), cause, "Rename the parameter.");
    }
    for case in draft.cases.iter().chain(&draft.holdout) {
        let fits = !case.name.is_empty() && case.name.len() <= NAME_MAX;
        if !fits || case.name.chars().any(char::is_control) {
            let cause = format!("a case name has not 1 to {NAME_MAX} bytes without control characters");
            findings.refuse("task/name", draft.at(case.line), cause, "Rename the case.");
        }
    }
    let dims = draft.dims.value.iter().map(|dim| (dim, draft.dims.line));
    let params = draft.params.iter().map(|param| (&param.value.name, param.line));
    let cases = draft.cases.iter().chain(&draft.holdout).map(|case| (&case.name, case.line));
    duplicates(draft, "dimension", dims, DIMS_MAX, findings);
    duplicates(draft, "parameter", params, PARAMS_MAX, findings);
    duplicates(draft, "case", cases, CASES_MAX, findings);
}

fn duplicates<'a>(
    draft: &TaskDraft,
    what: &str,
    names: impl Iterator<Item = (&'a String, u32)>,
    most: usize,
    findings: &mut Findings,
) {
    let mut seen = BTreeSet::new();
    for (count, (name, line)) in names.enumerate() {
        if !seen.insert(name) {
            let cause = format!("the {what} `{name}` is given twice");
            findings.refuse("task/duplicate", draft.at(line), cause, "Remove or rename one of the two.");
        }
        if count == most {
            let cause = format!("more than {most} entries of kind {what}");
            findings.refuse("task/limits", draft.at(line), cause, "Split the task.");
        }
    }
}

fn signature(draft: &TaskDraft, findings: &mut Findings) {
    let at = draft.at(draft.signature.line);
    let next = "Make signature and parameters agree.";
    let declaration = match Declaration::parse(&draft.signature.value) {
        Ok(declaration) => declaration,
        Err(error) => {
            let next = "Write it as `extern \"C\" __global__ void name(parameters)`.";
            return findings.refuse("task/signature", at, error.to_string(), next);
        }
    };
    if declaration.entry != draft.entry.value {
        let cause =
            format!("the signature declares `{}`, but `entry` is `{}`", declaration.entry, draft.entry.value);
        findings.refuse("task/signature", draft.at(draft.entry.line), cause, next);
    }
    let (declared, listed) = (declaration.parameters.len(), draft.params.len());
    if declared != listed {
        let cause = format!("the signature has {declared} parameters, but {listed} are described");
        return findings.refuse("task/signature", at, cause, next);
    }
    for (position, (declared, param)) in declaration.parameters.iter().zip(&draft.params).enumerate() {
        let mut refuse = |what: String| {
            let cause = format!("parameter {} (`{}`) {what}", position + 1, declared.text);
            findings.refuse("task/signature", draft.at(param.line), cause, next);
        };
        let Param { name, element, kind } = &param.value;
        if !declared.name.is_empty() && declared.name != *name {
            refuse(format!("is described as `{name}`"));
        }
        if !declared.elements.contains(element) {
            refuse(format!("is described as {element}"));
        }
        match (kind, declared.passing) {
            (ParamKind::Buffer { role: Role::In, shape: _ }, Passing::Pointer) => {
                refuse("has the role `in`, so its elements must be `const`".to_owned());
            }
            (ParamKind::Buffer { role: Role::Out | Role::Inout, shape: _ }, Passing::ConstPointer) => {
                refuse("is written to, so its elements must not be `const`".to_owned());
            }
            (ParamKind::Buffer { role: _, shape: _ }, Passing::Value) => {
                refuse("is passed by value, but described as a buffer".to_owned());
            }
            (
                ParamKind::Integer { value: _ } | ParamKind::Float { value: _ },
                Passing::Pointer | Passing::ConstPointer,
            ) => refuse("is a pointer, but described as a scalar".to_owned()),
            (ParamKind::Buffer { role: Role::In, shape: _ }, Passing::ConstPointer)
            | (ParamKind::Buffer { role: Role::Out | Role::Inout, shape: _ }, Passing::Pointer)
            | (ParamKind::Integer { value: _ } | ParamKind::Float { value: _ }, Passing::Value) => {}
        }
    }
}

fn cases(draft: &TaskDraft, findings: &mut Findings) {
    if !draft.cases.iter().any(|case| case.kind == CaseKind::Performance) {
        let next = "Add a `[[case]]` with kind = \"performance\".";
        findings.refuse("task/no-performance-case", draft.file.clone(), "no case of kind performance", next);
    }
    let timed = draft.cases.iter().filter(|case| case.kind == CaseKind::Performance);
    if let Some(beyond) = timed.into_iter().nth(TIMED_MAX) {
        let cause =
            format!("more than {TIMED_MAX} cases of kind performance do not fit the record of a result");
        let next = "Let some of them gate only, with kind = \"correctness\".";
        findings.refuse("task/limits", draft.at(beyond.line), cause, next);
    }
    let written =
        |param: &Param| matches!(param.kind, ParamKind::Buffer { role: Role::Out | Role::Inout, .. });
    if !draft.params.iter().any(|param| written(&param.value)) {
        let cause = "no parameter has the role `out` or `inout`: nothing could be checked";
        findings.refuse("task/no-output", draft.at(draft.signature.line), cause, "Mark the outputs.");
    }
    for case in draft.cases.iter().chain(&draft.holdout) {
        let at = draft.at(case.line);
        for dim in draft.dims.value.iter().filter(|dim| !case.dims.contains_key(*dim)) {
            let cause = format!("the case gives no value for the dimension `{dim}`");
            findings.refuse("task/case", at.clone(), cause, "Add it to `dims`.");
        }
        for (dim, value) in &case.dims {
            if !draft.dims.value.contains(dim) {
                let cause = format!("`{dim}` is no dimension of this task");
                findings.refuse("task/case", at.clone(), cause, "Remove it, or add it to the task's `dims`.");
            } else if *value <= 0 {
                let cause = format!("the dimension `{dim}` is not positive");
                findings.refuse("task/case", at.clone(), cause, "Give it a size of 1 or more.");
            }
        }
    }
}

fn sizes(draft: &TaskDraft, case: &CaseDraft, findings: &mut Findings) {
    // Missing and non-positive dimensions were refused; evaluation would only repeat it.
    if draft.dims.value.iter().any(|dim| case.dims.get(dim).is_none_or(|value| *value <= 0)) {
        return;
    }
    let mut total: u64 = 0;
    for param in &draft.params {
        let Param { name, element, kind } = &param.value;
        let fault = match kind {
            ParamKind::Buffer { role: _, shape: _ } => match param.value.buffer_bytes(&case.dims) {
                Ok(bytes) => {
                    total = total.saturating_add(bytes.unwrap_or(0));
                    None
                }
                Err(error) => Some(error.to_string()),
            },
            ParamKind::Integer { value } => match value.evaluate(&case.dims) {
                Ok(value) => integer_fault(value, &param.value),
                Err(error) => Some(error.to_string()),
            },
            ParamKind::Float { value: _ } => {
                element.is_exact().then(|| format!("a float value for {element}"))
            }
        };
        if let Some(fault) = fault {
            let cause = format!("`{name}`, case on line {}: {fault}", case.line);
            findings.refuse("task/shape", draft.at(param.line), cause, "Correct the expression.");
        }
    }
    if total > draft.limits.memory.0 {
        let cause =
            format!("the buffers take {total} bytes, above limits.memory_bytes = {}", draft.limits.memory.0);
        findings.refuse("task/memory", draft.at(case.line), cause, "Shrink the case or raise the limit.");
    }
}

fn integer_fault(value: i64, param: &Param) -> Option<String> {
    generator::check_integer(value.into(), param.element).err().map(|error| error.to_string())
}

fn inputs(draft: &TaskDraft, findings: &mut Findings) {
    let of_buffer = |name: &str| {
        draft.params.iter().map(|param| &param.value).find_map(|param| match &param.kind {
            ParamKind::Buffer { role, shape } if param.name == name && *role != Role::Out => {
                Some((param.element, shape))
            }
            ParamKind::Buffer { .. } | ParamKind::Integer { .. } | ParamKind::Float { .. } => None,
        })
    };
    for (name, input) in draft.inputs.iter().filter(|(name, _)| of_buffer(name).is_none()) {
        let cause = format!("`{name}` is no parameter with the role `in` or `inout`");
        findings.refuse("task/input", draft.at(input.line), cause, "Correct the name.");
    }
    let own = draft.cases.iter().chain(&draft.holdout).flat_map(|case| &case.inputs);
    for (name, input) in own.filter(|(name, _)| of_buffer(name).is_none()) {
        if let Some(cause) = scalar_fault(draft, name, &input.value) {
            findings.refuse("task/input", draft.at(input.line), cause, "Correct the name or the value.");
        }
    }
    for case in draft.cases.iter().chain(&draft.holdout) {
        for param in &draft.params {
            let name = &param.value.name;
            let Some((element, sides)) = of_buffer(name) else { continue };
            let Some(input) = case.inputs.get(name).or_else(|| draft.inputs.get(name)) else {
                let cause =
                    format!("the buffer `{name}` has no input, neither for all cases nor for this one");
                findings.refuse("task/input", draft.at(case.line), cause, "Add an `[inputs.NAME]` table.");
                continue;
            };
            let InputDraft::Drawn(drawn) = &input.value else { continue };
            let Ok(count) = shape::element_count(sides, &case.dims) else { continue };
            if let Err(error) = generator::check(drawn, element, count) {
                let cause = format!("`{name}`, case on line {}: {error}", case.line);
                findings.refuse("task/input", draft.at(input.line), cause, "Correct the draw.");
            }
        }
    }
    let sealed = draft.holdout.iter().flat_map(|case| case.inputs.values());
    for input in sealed.filter(|input| matches!(input.value, InputDraft::File(_))) {
        let cause = "a sealed case has a file input, but files are blobs that every node may read";
        findings.refuse("task/holdout-file", draft.at(input.line), cause, "Draw the input from a seed.");
    }
}

/// Why a case cannot give `input` to `name`, which is no buffer that is read: a scalar takes a constant of its type.
fn scalar_fault(draft: &TaskDraft, name: &str, input: &InputDraft) -> Option<String> {
    let param = draft.params.iter().map(|param| &param.value).find(|param| param.name == name);
    let scalar = param.filter(|param| match param.kind {
        ParamKind::Integer { value: _ } | ParamKind::Float { value: _ } => true,
        ParamKind::Buffer { .. } => false,
    });
    let Some(param) = scalar else {
        return Some(format!("`{name}` is no parameter with the role `in` or `inout`, and no scalar"));
    };
    let InputDraft::Drawn(input @ Input::Constant { value: _ }) = input else {
        return Some(format!("the scalar `{name}` takes a constant alone"));
    };
    generator::check(input, param.element, 1).err().map(|error| format!("`{name}`: {error}"))
}

/// A sweep chooses its shapes by searching the ranges; beyond this a multiple would be looked for too long.
const SWEEP_MAX: i64 = 1 << 40;

fn validation(draft: &TaskDraft, findings: &mut Findings) {
    let Some(section) = &draft.validation else { return };
    for (dim, range) in &section.value.sweep {
        let last = range.high - range.high % range.multiple_of.max(1);
        let fault = if !draft.dims.value.contains(dim) {
            "is no dimension of this task".to_owned()
        } else if range.low < 1 || range.high < range.low || range.high > SWEEP_MAX {
            format!("has no range from 1 to {SWEEP_MAX} with `low` up to `high`")
        } else if range.multiple_of < 1 || last < range.low {
            format!("has no multiple of {} in its range", range.multiple_of)
        } else {
            continue;
        };
        let cause = format!("`sweep.{dim}` {fault}");
        findings.refuse("task/sweep", draft.at(section.line), cause, "Correct the range.");
    }
    let files = draft.inputs.values().chain(draft.cases.iter().flat_map(|case| case.inputs.values()));
    if !section.value.sweep.is_empty()
        && files.into_iter().any(|input| matches!(input.value, InputDraft::File(_)))
    {
        let cause = "a file input has one size, so no other shape can be swept";
        findings.refuse("task/sweep", draft.at(section.line), cause, "Remove `sweep` or draw the input.");
    }
}

fn implementation(draft: &TaskDraft, side: &ImplementationDraft, what: &str, findings: &mut Findings) {
    let place = format!("{} ({what})", draft.at(side.line));
    findings.refusals.extend(check_plan(&side.plan, &PlanFrame::of_draft(draft), "task/launch", &place));
    for path in [&side.file].into_iter().chain(&side.files) {
        if let Err(mut refusal) = check_path(path) {
            refusal.place = format!("{place}: {}", refusal.place);
            findings.refusals.push(refusal);
        }
    }
}

fn weaknesses(draft: &TaskDraft, findings: &mut Findings) {
    let buffer = |name: &str| {
        draft
            .params
            .iter()
            .any(|param| param.value.name == name && matches!(param.value.kind, ParamKind::Buffer { .. }))
    };
    let own = draft.cases.iter().flat_map(|case| &case.inputs);
    for (name, input) in draft.inputs.iter().chain(own).filter(|(name, _)| buffer(name)) {
        if is_constant(&input.value) {
            let cause = format!("every element of `{name}` is the same: many wrong kernels would pass");
            findings.warn(
                "task/constant-input",
                draft.at(input.line),
                cause,
                "Draw normal or uniform values.",
            );
        }
    }
    let author = &draft.reference.author;
    if !author.is_empty() && *author == draft.baseline.author {
        let cause = format!("reference and baseline are both by `{author}`: they may share a mistake");
        let next = "Take a reference that somebody else wrote.";
        findings.warn("task/one-author", draft.at(draft.baseline.line), cause, next);
    }
    if draft.licence.is_empty() {
        let next = "Add `licence` as an SPDX expression.";
        findings.warn("task/no-licence", draft.file.clone(), "no licence is stated", next);
    }
    let odd = |case: &CaseDraft| {
        case.kind == CaseKind::Correctness && case.dims.values().any(|value| value % 2 == 1)
    };
    if !draft.cases.iter().any(odd) {
        let cause = "no correctness case has an odd size: remainders are never tested";
        findings.warn("task/no-odd-case", draft.file.clone(), cause, "Add one such as 31 × 37 × 29.");
    }
    if draft.holdout.is_empty() {
        let cause = "no sealed case: candidates could be fitted to the cases they see";
        findings.warn("task/no-holdout", draft.file.clone(), cause, "Add a `[[holdout.case]]`.");
    }
}

fn is_constant(input: &InputDraft) -> bool {
    match input {
        InputDraft::Drawn(Input::Constant { value: _ }) => true,
        InputDraft::Drawn(Input::Normal { mean: _, std, specials: _ }) => std.value() == 0.0,
        InputDraft::Drawn(Input::Integers { low, high }) => high.wrapping_sub(*low) == 1,
        InputDraft::Drawn(Input::Arange { start: _, step }) => *step == 0,
        InputDraft::Drawn(Input::Adapted { draw, fit: _, specials: _ }) => {
            is_constant(&InputDraft::Drawn((**draw).clone()))
        }
        InputDraft::Drawn(Input::Poison) => true,
        InputDraft::Drawn(Input::Uniform { .. } | Input::File { .. }) | InputDraft::File(_) => false,
    }
}
