//! The task file, typed: everything a task holds, with paths where the task will hold blobs.

use super::document::{Room, line, parse, place};
use super::launch::{LaunchRoom, plan};
use super::text::{
    CaseText, DecimalText, ImplementationText, InputText, LimitsText, ParamText, PoisonText, ScalarText,
    SweepText, TaskText, ToleranceText, ValidationText,
};
use crate::domain::{
    Bytes, CaseKind, Decimal, Expression, Fit, Input, LaunchPlan, Limits, Milliseconds, NanRule, Param,
    ParamKind, Provenance, Stress, SweepRange, Tolerance, Validation,
};
use crate::refusal::Refusal;
use std::collections::BTreeMap;
use toml::Spanned;

/// Something with the line of the task file that it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<T> {
    pub value: T,
    /// From 1.
    pub line: u32,
}

/// A parsed task file. Its values have their types; whether they agree with one another is [`super::lint()`]'s
/// question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDraft {
    /// Name of the file, for refusals.
    pub file: String,
    pub name: Placed<String>,
    pub summary: String,
    pub entry: Placed<String>,
    /// Trimmed.
    pub signature: Placed<String>,
    pub dims: Placed<Vec<String>>,
    pub params: Vec<Placed<Param>>,
    pub inputs: BTreeMap<String, Placed<InputDraft>>,
    pub cases: Vec<CaseDraft>,
    pub tolerance: Tolerance,
    pub limits: Limits,
    pub reference: ImplementationDraft,
    pub baseline: ImplementationDraft,
    /// Paths of files that reference, baseline and candidates may include.
    pub headers: Vec<String>,
    /// Cases that are sealed away; empty when the task has none.
    pub holdout: Vec<CaseDraft>,
    pub licence: String,
    pub provenance: Provenance,
    pub validation: Option<Placed<Validation>>,
}

/// An input, with a path where the task will hold a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputDraft {
    /// Never [`Input::File`].
    Drawn(Input),
    /// Path of a file of little-endian elements.
    File(String),
}

/// A case, with drafts of its own inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseDraft {
    pub name: String,
    pub kind: CaseKind,
    pub dims: BTreeMap<String, i64>,
    pub inputs: BTreeMap<String, Placed<InputDraft>>,
    pub line: u32,
}

/// A source tree by paths, with its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImplementationDraft {
    /// The file that is compiled.
    pub file: String,
    /// Further files that it includes.
    pub files: Vec<String>,
    pub author: String,
    pub plan: LaunchPlan,
    pub line: u32,
}

impl TaskDraft {
    /// `file:line`, for refusals; the file alone where the line is 0, which means unknown.
    pub fn at(&self, line: u32) -> String {
        if line == 0 { self.file.clone() } else { format!("{}:{line}", self.file) }
    }
}

/// Parses the text of a task file that people know as `file`. Errors, each with file and line:
/// `task/syntax`, `task/unknown-key`, `task/missing-key`, `task/value`, `task/size`, `task/tolerance`,
/// `task/input`, `task/param`, `task/launch`, `task/limits`. Blobs and agreement are not looked at.
pub fn parse_task(text: &str, file: &str) -> Result<TaskDraft, Refusal> {
    let raw: TaskText = parse(text, file, Room::Task)?;
    let reader = Reader { text, file };
    let entry = reader.placed(raw.entry);
    let params = raw.param.into_iter().map(|param| reader.param(param)).collect::<Result<_, _>>()?;
    let holdout = raw.holdout.map_or(Ok(Vec::new()), |section| reader.cases(section.case))?;
    Ok(TaskDraft {
        file: file.to_owned(),
        name: reader.placed(raw.name),
        summary: raw.summary,
        signature: reader.trimmed(raw.signature),
        dims: reader.placed(raw.dims),
        params,
        inputs: reader.inputs(raw.inputs)?,
        cases: reader.cases(raw.case)?,
        tolerance: reader.tolerance(raw.tolerance)?,
        limits: reader.limits(&raw.limits)?,
        reference: reader.implementation(raw.reference, &entry.value)?,
        baseline: reader.implementation(raw.baseline, &entry.value)?,
        headers: raw.headers,
        holdout,
        licence: raw.licence,
        provenance: Provenance {
            author: raw.provenance.author,
            agent: raw.provenance.agent,
            model: raw.provenance.model,
            parent: None,
            cost: None,
            origin: raw.provenance.origin,
        },
        validation: raw.validation.map(|section| reader.placed(section)).map(validation),
        entry,
    })
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
}

impl Reader<'_> {
    fn line<T>(&self, spanned: &Spanned<T>) -> u32 {
        line(self.text, spanned.span().start)
    }

    fn at<T>(&self, spanned: &Spanned<T>) -> String {
        place(self.text, self.file, spanned.span().start)
    }

    fn placed<T>(&self, spanned: Spanned<T>) -> Placed<T> {
        Placed { line: self.line(&spanned), value: spanned.into_inner() }
    }

    fn trimmed(&self, spanned: Spanned<String>) -> Placed<String> {
        Placed { line: self.line(&spanned), value: spanned.get_ref().trim().to_owned() }
    }

    fn param(&self, spanned: Spanned<ParamText>) -> Result<Placed<Param>, Refusal> {
        let (at, line) = (self.at(&spanned), self.line(&spanned));
        let ParamText { name, element, role, shape, value } = spanned.into_inner();
        let refuse = |cause: String| Refusal::new("task/param", at.clone(), cause, "Correct the parameter.");
        let kind = match (role, shape, value) {
            (Some(role), Some(shape), None) => {
                ParamKind::Buffer { role, shape: shape.into_iter().map(|side| side.0).collect() }
            }
            (None, None, Some(value)) => {
                scalar(value, element.is_exact()).map_err(|cause| refuse(format!("`{name}`: {cause}")))?
            }
            (_, _, _) => {
                let cause = format!("`{name}` needs `role` and `shape` (a buffer) or `value` (a scalar)");
                return Err(refuse(cause));
            }
        };
        Ok(Placed { value: Param { name, element, kind }, line })
    }

    fn inputs(
        &self,
        texts: BTreeMap<String, Spanned<InputText>>,
    ) -> Result<BTreeMap<String, Placed<InputDraft>>, Refusal> {
        texts
            .into_iter()
            .map(|(name, spanned)| {
                let (at, line) = (self.at(&spanned), self.line(&spanned));
                let value = input(spanned.into_inner()).map_err(|cause| {
                    Refusal::new("task/input", at, format!("`{name}`: {cause}"), INPUT_NEXT)
                })?;
                Ok((name, Placed { value, line }))
            })
            .collect()
    }

    fn cases(&self, texts: Vec<Spanned<CaseText>>) -> Result<Vec<CaseDraft>, Refusal> {
        texts
            .into_iter()
            .map(|spanned| {
                let line = self.line(&spanned);
                let CaseText { name, kind, dims, inputs } = spanned.into_inner();
                Ok(CaseDraft { name, kind, dims, inputs: self.inputs(inputs)?, line })
            })
            .collect()
    }

    fn tolerance(&self, spanned: Option<Spanned<ToleranceText>>) -> Result<Tolerance, Refusal> {
        let next = "Write `absolute` and `relative` as numbers of 0 or more.";
        let Some(spanned) = spanned else {
            return Err(Refusal::new("task/tolerance", self.file, "the table `[tolerance]` is absent", next));
        };
        let at = self.at(&spanned);
        let ToleranceText { absolute, relative, nan } = spanned.into_inner();
        let read = |text: Option<Spanned<DecimalText>>, name: &str| {
            let Some(text) = text else {
                return Err(Refusal::new("task/tolerance", at.clone(), format!("`{name}` is absent"), next));
            };
            let value = text.get_ref().0;
            let wrong = if value.is_nan() {
                "is NaN: every output would differ"
            } else if value < 0.0 {
                "is negative"
            } else if value.is_infinite() {
                "is infinite: every output would pass"
            } else {
                return decimal(value)
                    .map_err(|cause| Refusal::new("task/tolerance", self.at(&text), cause, next));
            };
            Err(Refusal::new("task/tolerance", self.at(&text), format!("`{name}` {wrong}"), next))
        };
        Ok(Tolerance {
            absolute: read(absolute, "absolute")?,
            relative: read(relative, "relative")?,
            nan: nan.unwrap_or(NanRule::Never),
        })
    }

    fn limits(&self, text: &LimitsText) -> Result<Limits, Refusal> {
        let read = |value: &Option<Spanned<u64>>, name: &str, default: u64, most: u64| match value {
            None => Ok(default),
            Some(value) if (1..=most).contains(value.get_ref()) => Ok(*value.get_ref()),
            Some(value) => {
                let cause = format!("`{name}` is {}, which is not from 1 to {most}", value.get_ref());
                Err(Refusal::new("task/limits", self.at(value), cause, "Choose a limit in that range."))
            }
        };
        Ok(Limits {
            compile: Milliseconds(read(&text.compile_ms, "compile_ms", 60_000, 3_600_000)?),
            launch: Milliseconds(read(&text.launch_ms, "launch_ms", 10_000, 600_000)?),
            run: Milliseconds(read(&text.run_ms, "run_ms", 120_000, 3_600_000)?),
            memory: Bytes(read(&text.memory_bytes, "memory_bytes", 1 << 30, 1 << 40)?),
            source: Bytes(read(&text.source_bytes, "source_bytes", 1 << 20, 1 << 26)?),
        })
    }

    fn implementation(
        &self,
        spanned: Spanned<ImplementationText>,
        entry: &str,
    ) -> Result<ImplementationDraft, Refusal> {
        let (at, line) = (self.at(&spanned), self.line(&spanned));
        let ImplementationText { file, files, author, launch } = spanned.into_inner();
        let plan = plan(launch, entry, LaunchRoom::Task, &at)?;
        Ok(ImplementationDraft { file, files, author, plan, line })
    }
}

/// Lists in one order and without repeats, so that two spellings of one section are one task.
fn validation(section: Placed<ValidationText>) -> Placed<Validation> {
    let ValidationText { determinism, sweep, stress, mut allow } = section.value;
    let mut stress = stress.unwrap_or_else(|| Stress::ALL.to_vec());
    stress.sort_unstable();
    stress.dedup();
    allow.sort_unstable();
    allow.dedup();
    let range = |SweepText { low, high, multiple_of }| SweepRange {
        low,
        high,
        multiple_of: multiple_of.unwrap_or(1),
    };
    let sweep = sweep.into_iter().map(|(dim, text)| (dim, range(text))).collect();
    Placed { value: Validation { determinism, sweep, stress, allow }, line: section.line }
}

const INPUT_NEXT: &str = "Write one of normal, uniform, integers, arange, constant, poison and file.";

fn scalar(value: ScalarText, exact: bool) -> Result<ParamKind, String> {
    match (value, exact) {
        (ScalarText::Integer(value), true) => {
            Ok(ParamKind::Integer { value: Expression::from_integer(value) })
        }
        (ScalarText::Integer(value), false) => Ok(ParamKind::Float { value: decimal(value as f64)? }),
        (ScalarText::Float(_), true) => Err("an integer parameter cannot take a float".to_owned()),
        (ScalarText::Float(value), false) => Ok(ParamKind::Float { value: decimal(value)? }),
        (ScalarText::Text(text), false) if text.parse::<f64>().is_ok() => {
            Ok(ParamKind::Float { value: decimal(text.parse().unwrap_or(f64::NAN))? })
        }
        (ScalarText::Text(text), _) => {
            text.parse().map(|value| ParamKind::Integer { value }).map_err(|error| format!("{error}"))
        }
    }
}

/// The shortest spelling of a finite number; both zeros are `0`.
fn decimal(value: f64) -> Result<Decimal, String> {
    let value = if value == 0.0 { 0.0 } else { value };
    Decimal::from_f64(value).map_err(|error| error.to_string())
}

fn input(text: InputText) -> Result<InputDraft, String> {
    let InputText { normal, uniform, integers, arange, constant, poison, file, fit, specials } = text;
    let (fit, adapts) = (fit.unwrap_or(Fit::Exact), fit == Some(Fit::Cast) || !specials.is_empty());
    let adapted = |draw: Input| match adapts {
        true => Input::Adapted { draw: Box::new(draw), fit, specials: specials.clone() },
        false => draw,
    };
    let mut found = Vec::new();
    if let Some(text) = normal {
        let (mean, std) = (decimal(text.mean.0)?, decimal(text.std.0)?);
        found.push((
            InputDraft::Drawn(Input::Normal { mean, std, specials: specials.clone() }),
            Takes::Specials,
        ));
    }
    if let Some(text) = uniform {
        let (low, high) = (decimal(text.low.0)?, decimal(text.high.0)?);
        found.push((
            InputDraft::Drawn(Input::Uniform { low, high, specials: specials.clone() }),
            Takes::Specials,
        ));
    }
    if let Some(text) = integers {
        let draw = adapted(Input::Integers { low: text.low, high: text.high });
        found.push((InputDraft::Drawn(draw), Takes::Both));
    }
    if let Some(text) = arange {
        let draw = adapted(Input::Arange { start: text.start, step: text.step });
        found.push((InputDraft::Drawn(draw), Takes::Both));
    }
    if let Some(text) = constant {
        found.push((InputDraft::Drawn(adapted(Input::Constant { value: decimal(text.0)? })), Takes::Both));
    }
    if let Some(PoisonText {}) = poison {
        found.push((InputDraft::Drawn(Input::Poison), Takes::Nothing));
    }
    if let Some(path) = file {
        found.push((InputDraft::File(path), Takes::Nothing));
    }
    let (Some((draft, takes)), true) = (found.pop(), found.is_empty()) else {
        return Err(
            if found.is_empty() { "no draw is given" } else { "more than one draw is given" }.to_owned()
        );
    };
    match takes {
        Takes::Nothing if !specials.is_empty() => Err("`specials` do not go with poison and file".to_owned()),
        Takes::Nothing | Takes::Specials if fit == Fit::Cast => {
            Err("`fit` goes with integers, arange and constant alone".to_owned())
        }
        Takes::Nothing | Takes::Specials | Takes::Both => Ok(draft),
    }
}

/// What may stand beside a draw.
#[derive(Clone, Copy)]
enum Takes {
    Nothing,
    Specials,
    /// Specials and a fit.
    Both,
}
