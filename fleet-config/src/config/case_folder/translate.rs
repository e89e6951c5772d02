//! A case as a task folder of ours: task file, sources, input files where nothing else will do, and the candidates with
//! their own launches.
//!
//! * A number that is the same in every config is written as it is; one that differs becomes a dimension.
//! * A buffer that is only written and starts as anything but poison is `inout`: the kernel may count on its start.
//! * Every config gates. Of the visible ones those with at least half of the largest one's bytes are timed.
//! * The reference is the baseline too, so that a speed-up is that of the candidate over the reference.

use super::read::{Argument, ArgumentKind, CaseFolder, Config, Language, StartValue};
use super::write::{Written, write};
use crate::config::lint::TIMED_MAX;
use crate::config::{Files, check_path};
use crate::domain::Role;
use crate::refusal::Refusal;

/// Of the visible configs those of at least one part in so many of the largest one's bytes are timed.
const TIMED_PART: u64 = 2;
/// What becomes of configs that are not visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// A sealed holdout: for a task that people write candidates for.
    Sealed,
    /// Cases that gate like the others: for judging a candidate that is there already.
    Open,
}

/// The files of a task folder by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFolder {
    pub name: String,
    pub files: Files,
    /// Paths of the candidates' sources.
    pub candidates: Vec<String>,
    /// Names of the timed cases, the other open ones, and the sealed ones.
    pub timed: Vec<String>,
    pub gating: Vec<String>,
    pub sealed: Vec<String>,
    pub warnings: Vec<Refusal>,
}

/// Translates `case`; `sources` holds the files that it names, byte for byte. Errors: `case/language`,
/// `case/config-differs`, `case/no-visible`, `case/missing-file`, `case/file-name`, `case/range`.
pub fn translate(case: &CaseFolder, sources: &Files, hidden: Hidden) -> Result<TaskFolder, Refusal> {
    match case.language {
        Language::Cuda => {}
        Language::Python => {
            let next = "Import a case in CUDA C.";
            return Err(Refusal::new(
                "case/language",
                "case.json: language",
                "a case in Python has no task yet",
                next,
            ));
        }
    }
    let mut files = Files::new();
    let reference = source(sources, &case.reference)?;
    files.insert("reference.cu".to_owned(), reference.clone());
    let columns = columns(case)?;
    let kinds = kinds(case, hidden)?;
    let Written { task, launch, data } = write(case, &columns, &kinds, &String::from_utf8_lossy(reference))?;
    files.extend(data);
    files.insert("task.toml".to_owned(), task.into_bytes());
    let mut candidates = Vec::new();
    for name in &case.candidates {
        let path = format!("candidates/{name}");
        if name == "task.toml" || name.ends_with(".toml") || name.contains('/') {
            let cause = "a candidate's file name is plain and does not end in .toml";
            return Err(Refusal::new("case/file-name", "case.json: candidates", cause, "Rename the file."));
        }
        let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
        files.insert(path.clone(), source(sources, name)?.clone());
        files.insert(format!("candidates/{stem}.toml"), format!("{launch}\n").into_bytes());
        candidates.push(path);
    }
    Ok(summary(case, &kinds, files, candidates))
}

fn summary(case: &CaseFolder, kinds: &[Kind], files: Files, candidates: Vec<String>) -> TaskFolder {
    let of = |wanted: Kind| {
        let named = case.configs.iter().zip(kinds).filter(|(_, kind)| **kind == wanted);
        named.map(|(config, _)| config.name.clone()).collect::<Vec<_>>()
    };
    let unknown = |key: &String| {
        Refusal::new(
            "case/unknown-key",
            key.clone(),
            "a key that this reader does not know",
            "Check what it means.",
        )
    };
    TaskFolder {
        name: task_name(&case.name),
        files,
        candidates,
        timed: of(Kind::Timed),
        gating: of(Kind::Gating),
        sealed: of(Kind::Sealed),
        warnings: case.unknown.iter().map(unknown).collect(),
    }
}

/// What a config becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Timed,
    Gating,
    Sealed,
}

fn source<'a>(sources: &'a Files, name: &str) -> Result<&'a Vec<u8>, Refusal> {
    check_path(name)?;
    sources.get(name).ok_or_else(|| {
        let cause = format!("the file `{name}` is missing");
        Refusal::new("case/missing-file", "case.json", cause, "Put it beside case.json.")
    })
}

fn kinds(case: &CaseFolder, hidden: Hidden) -> Result<Vec<Kind>, Refusal> {
    let all_hidden = case.configs.iter().all(|config| !config.visible);
    if all_hidden && hidden == Hidden::Sealed {
        let next = "Show at least one config.";
        return Err(Refusal::new("case/no-visible", "case.json: configs", "no config is visible", next));
    }
    let is_open = |config: &&Config| config.visible || all_hidden;
    let largest = case.configs.iter().filter(is_open).map(bytes).max().unwrap_or(0);
    let kind = |config: &Config| match (is_open(&config), hidden) {
        (true, _) if bytes(config).saturating_mul(TIMED_PART) >= largest => Kind::Timed,
        (true, _) | (false, Hidden::Open) => Kind::Gating,
        (false, Hidden::Sealed) => Kind::Sealed,
    };
    let mut kinds: Vec<Kind> = case.configs.iter().map(kind).collect();
    // Of more timed configs than a task may have the first ones are timed; the others gate.
    let timed = kinds.iter_mut().filter(|kind| **kind == Kind::Timed);
    timed.skip(TIMED_MAX).for_each(|kind| *kind = Kind::Gating);
    Ok(kinds)
}

/// Bytes of a config's buffers together.
pub(super) fn bytes(config: &Config) -> u64 {
    let size = |argument: &Argument| match &argument.kind {
        ArgumentKind::Buffer { shape, role: _, start: _ } => {
            count(shape).saturating_mul(argument.element.bytes().unwrap_or(1))
        }
        ArgumentKind::Integer(_) | ArgumentKind::Float(_) => 0,
    };
    config.arguments.iter().map(size).fold(0, u64::saturating_add)
}

/// Elements of a shape; none where a side is not positive.
pub(super) fn count(shape: &[i64]) -> u64 {
    shape.iter().fold(1_u64, |count, side| count.saturating_mul(u64::try_from(*side).unwrap_or(0)))
}

/// One argument through all configs.
pub(super) struct Column<'a> {
    pub arguments: Vec<&'a Argument>,
    /// `None` for scalars.
    pub role: Option<Role>,
}

impl<'a> Column<'a> {
    pub(super) fn first(&self) -> &'a Argument {
        self.arguments[0]
    }
}

/// The arguments by position; every config must have the same ones.
fn columns(case: &CaseFolder) -> Result<Vec<Column<'_>>, Refusal> {
    let differ = |config: &Config, cause: String| {
        let place = format!("case.json: config `{}`", config.name);
        Refusal::new("case/config-differs", place, cause, "Give every config the same arguments.")
    };
    let first = &case.configs[0];
    for config in &case.configs {
        if config.arguments.len() != first.arguments.len() {
            return Err(differ(config, format!("it has {} arguments", config.arguments.len())));
        }
        for (own, other) in config.arguments.iter().zip(&first.arguments) {
            let same_kind = match (&own.kind, &other.kind) {
                (ArgumentKind::Integer(_), ArgumentKind::Integer(_))
                | (ArgumentKind::Float(_), ArgumentKind::Float(_)) => true,
                (ArgumentKind::Buffer { role: own, .. }, ArgumentKind::Buffer { role: other, .. }) => {
                    own == other
                }
                (ArgumentKind::Integer(_) | ArgumentKind::Float(_) | ArgumentKind::Buffer { .. }, _) => false,
            };
            if own.name != other.name || own.element != other.element || !same_kind {
                return Err(differ(config, format!("its argument `{}` is another one", own.name)));
            }
        }
    }
    let column = |at: usize| {
        let arguments: Vec<&Argument> = case.configs.iter().map(|config| &config.arguments[at]).collect();
        let counts_on_start = arguments.iter().any(|argument| match &argument.kind {
            ArgumentKind::Buffer { role: Role::Out, start, shape: _ } => {
                start.value != StartValue::Poison || !start.specials.is_empty()
            }
            ArgumentKind::Buffer { .. } | ArgumentKind::Integer(_) | ArgumentKind::Float(_) => false,
        });
        let role = match &arguments[0].kind {
            ArgumentKind::Buffer { .. } if counts_on_start => Some(Role::Inout),
            ArgumentKind::Buffer { role, .. } => Some(*role),
            ArgumentKind::Integer(_) | ArgumentKind::Float(_) => None,
        };
        Column { arguments, role }
    };
    Ok((0..first.arguments.len()).map(column).collect())
}

/// The name of the task: what a task's name may have of the case's.
pub(super) fn task_name(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().take(64).map(legal).collect();
    if name.is_empty() { "case".to_owned() } else { name }
}
