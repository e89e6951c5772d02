//! How strong is a task? Its fakes, and the share of faults in its own reference that its cases find.
//!
//! ```text
//! reference as the candidate ── must pass; what anybody could output without the work must fail
//! per mutant of its main file ── compiled alone ── equal code: equivalent ── validated by every stage ── killed, survived
//! ```
//! A mutant that does not compile, and one that this device cannot judge, is counted by name and in no score.

use super::compile::{self, Compiled};
use super::context::{Context, RunBudget, elapsed, milliseconds};
use super::fault::{Party, Stop};
use super::local::{self, PATIENCE, Shelf, assignment};
use super::prepare::{self, Prepared};
use super::residents::Residents;
use super::stages::Stages;
use super::validate::{Step, validate};
use super::words::Words;
use crate::backend::Failure;
use crate::backend::code::Program;
use crate::inventory::{Offer, Wish};
use crate::machine_lock::MachineLock;
use crate::mutation::{Mutant, Operator, mutants, spread};
use fleet_config::config::LoadedTask;
use fleet_config::domain::canonical::CanonicalError;
use fleet_config::domain::{
    Architecture, Blame, Candidate, CheckFinding, Fake, MeasurementPolicy, Milliseconds, Outcome,
    Picoseconds, Provenance, Stage, Status, Task,
};
use serde::Serialize;
use std::path::Path;

/// Largest main file that is mutated; larger ones are no kernels.
const SOURCE_MAX: usize = 1 << 20;
/// A mutant that runs this many times longer than the reference with all its cases hangs.
const PATIENCE_FACTOR: u64 = 10;
/// Shortest limit of a launch of a mutant: a busy machine must not kill it.
const LAUNCH_MIN: Milliseconds = Milliseconds(2_000);

/// What became of one mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    Killed,
    Survived,
    /// The compiler makes the same program of it.
    Equivalent,
    DidNotCompile,
    /// The fleet's or the device's fault; says nothing.
    NotJudged,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MutantLine {
    pub line: u32,
    pub operator: Operator,
    pub change: String,
    pub fate: Fate,
    /// The stage that killed it; empty for the others.
    pub by: String,
    /// The first cause, in short.
    pub detail: String,
}

/// One fake and what the task makes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FakeLine {
    pub fake: Fake,
    pub finding: FakeFinding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FakeFinding {
    Fails,
    Allowed,
}

/// How strong a task is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Strength {
    pub task: String,
    pub architecture: Architecture,
    /// `ok`, or why the task has no score: it does not hold together, or a fake passes.
    pub outcome: Outcome,
    pub fakes: Vec<FakeLine>,
    /// The reference's main file.
    pub file: String,
    /// Mutants that can be made.
    pub made: usize,
    pub killed: usize,
    pub survived: usize,
    pub equivalent: usize,
    pub did_not_compile: usize,
    pub not_judged: usize,
    /// Killed of killed and survived, in thousandths; nothing without any.
    pub score: Option<usize>,
    pub mutants: Vec<MutantLine>,
}

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
pub enum StrengthError {
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    #[error("the check was cancelled")]
    Cancelled,
    #[error("{0}")]
    Source(String),
}

/// Scores `loaded` on the device of `offer` by `most` mutants. `told` hears how far it is.
pub fn task_strength(
    loaded: LoadedTask,
    offer: &Offer,
    wish: &Wish,
    folder: &Path,
    most: usize,
    told: &dyn Fn(usize, usize),
) -> Result<Strength, StrengthError> {
    // Sealed cases stay out: what search never touches says nothing about what search is told.
    let LoadedTask { task, blobs, holdout: _, warnings: _ } = loaded;
    let mut shelf = Shelf::of(blobs);
    let candidate = reference(&task);
    let assignment = assignment(&task, &candidate, &MeasurementPolicy::cpu_paired(), offer, &mut shelf)?;
    let (node, machine) = (local::node(wish), MachineLock::of_this_machine());
    let residents = Residents::on(&offer.description);
    let context = local::context(&assignment, &node, offer, &shelf, &residents, &machine, folder);
    let file = candidate.source.main.clone();
    let mut strength = empty(&task, offer, file);
    match score(&context, candidate, most, told, &mut strength) {
        Ok(()) => Ok(strength),
        Err(Halt::Stopped(Stop::Cancelled)) => Err(StrengthError::Cancelled),
        Err(Halt::Stopped(Stop::Failed(failure))) => {
            strength.outcome = *failure.outcome;
            Ok(strength)
        }
        Err(Halt::Source(message)) => Err(StrengthError::Source(message)),
    }
}

enum Halt {
    Stopped(Stop),
    Source(String),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Stopped(failure.into())
    }
}

fn empty(task: &Task, offer: &Offer, file: String) -> Strength {
    Strength {
        task: task.name.clone(),
        architecture: offer.description.architecture.clone(),
        outcome: Outcome::ok(),
        fakes: Vec::new(),
        file,
        made: 0,
        killed: 0,
        survived: 0,
        equivalent: 0,
        did_not_compile: 0,
        not_judged: 0,
        score: None,
        mutants: Vec::new(),
    }
}

/// The reference as a candidate.
fn reference(task: &Task) -> Candidate {
    Candidate {
        format: Candidate::FORMAT.to_owned(),
        name: "reference".to_owned(),
        source: task.reference.source.clone(),
        plan: Some(task.reference.plan.clone()),
        family: None,
        provenance: Provenance::default(),
        licence: String::new(),
    }
}

fn score(
    context: &Context<'_>,
    candidate: Candidate,
    most: usize,
    told: &dyn Fn(usize, usize),
    strength: &mut Strength,
) -> Result<(), Halt> {
    let mut prepared = prepare::prepare(context, candidate)?;
    let mut compiled = compile::compile(context, &prepared, &mut Picoseconds(0))?;
    let from = context.clock.now();
    run(context, &prepared, &compiled, &mut Stages::default())?;
    let took = milliseconds(elapsed(from, context.clock.now()));
    let allowed = prepared.task.validation.as_ref().map(|section| section.allow.clone()).unwrap_or_default();
    let finding = |fake| if allowed.contains(&fake) { FakeFinding::Allowed } else { FakeFinding::Fails };
    strength.fakes = Fake::ALL.map(|fake| FakeLine { fake, finding: finding(fake) }).to_vec();

    // Read now: a mutant is compiled into the same file.
    let original = compiled.artefacts.get(&Party::Candidate).and_then(Program::of);
    let text = main_text(&prepared).map_err(Halt::Source)?;
    let all = mutants(&text);
    strength.made = all.len();
    let chosen = spread(all, most);
    let launch = Milliseconds(took.0.saturating_mul(PATIENCE_FACTOR)).max(LAUNCH_MIN);
    prepared.task.limits.launch = prepared.task.limits.launch.min(launch);
    let count = chosen.len();
    for (number, mutant) in chosen.iter().enumerate() {
        told(number, count);
        put(&mut prepared, &mutant.applied(&text));
        let (fate, by, detail) = fate(context, &prepared, &mut compiled, original.as_ref())?;
        match fate {
            Fate::Killed => strength.killed += 1,
            Fate::Survived => strength.survived += 1,
            Fate::Equivalent => strength.equivalent += 1,
            Fate::DidNotCompile => strength.did_not_compile += 1,
            Fate::NotJudged => strength.not_judged += 1,
        }
        let Mutant { operator, line, .. } = mutant;
        let change = mutant.change(&text);
        strength.mutants.push(MutantLine { line: *line, operator: *operator, change, fate, by, detail });
    }
    told(count, count);
    let counted = strength.killed + strength.survived;
    strength.score = (strength.killed * 1000).checked_div(counted);
    Ok(())
}

fn main_text(prepared: &Prepared) -> Result<String, String> {
    let sources = prepared.sources.get(&Party::Candidate);
    let bytes =
        sources.and_then(|sources| sources.files.get(&sources.main)).map(Vec::as_slice).unwrap_or_default();
    if bytes.len() > SOURCE_MAX {
        return Err(format!(
            "the reference has {} bytes, and mutants are made of {SOURCE_MAX} at most",
            bytes.len()
        ));
    }
    String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())
}

fn put(prepared: &mut Prepared, text: &str) {
    if let Some(sources) = prepared.sources.get_mut(&Party::Candidate) {
        sources.files.insert(sources.main.clone(), text.as_bytes().to_vec());
    }
}

/// Compiles and validates the mutant that stands in the candidate's place.
fn fate(
    context: &Context<'_>,
    prepared: &Prepared,
    compiled: &mut Compiled,
    original: Option<&Program>,
) -> Result<(Fate, String, String), Stop> {
    let artefact = match compile::one(context, prepared, Party::Candidate) {
        Ok(artefact) => artefact,
        Err(Stop::Cancelled) => return Err(Stop::Cancelled),
        Err(Stop::Failed(failure)) => return Ok(unjudged(&failure, Fate::DidNotCompile)),
    };
    let is_same = original.is_some() && Program::of(&artefact).as_ref() == original;
    compiled.artefacts.insert(Party::Candidate, artefact);
    if is_same {
        return Ok((Fate::Equivalent, String::new(), "the compiler makes the same program of it".to_owned()));
    }
    let mut stages = Stages::default();
    match run(context, prepared, compiled, &mut stages) {
        Ok(()) => Ok((Fate::Survived, String::new(), String::new())),
        Err(Stop::Cancelled) => Err(Stop::Cancelled),
        Err(Stop::Failed(failure)) if failure.outcome.blame == Blame::Candidate => {
            stages.ended(&failure, context.clock.now());
            let found = stages.evidence().into_iter().find(|one| one.finding == CheckFinding::FaultFound);
            let by = found.map(|one| one.check.name().to_owned()).unwrap_or_default();
            let detail = format!("{}: {}", failure.outcome.status, first_words(&failure));
            Ok((Fate::Killed, by, detail))
        }
        Err(Stop::Failed(failure)) => Ok(unjudged(&failure, Fate::NotJudged)),
    }
}

/// A failure that is not held against the task: `fate`, unless it is the fleet's.
fn unjudged(failure: &Failure, fate: Fate) -> (Fate, String, String) {
    let fate = match failure.outcome.status {
        Status::Infrastructure | Status::WorkerLost | Status::UnsupportedOnDevice => Fate::NotJudged,
        Status::Ok
        | Status::WrongResult
        | Status::ContractViolation
        | Status::Suspicious
        | Status::TaskWeak
        | Status::Rejected
        | Status::CompileError
        | Status::CompileTimeout
        | Status::LaunchError
        | Status::RuntimeError
        | Status::Timeout
        | Status::OutOfMemory => fate,
    };
    (fate, String::new(), first_words(failure))
}

/// Longest cause in the table.
const DETAIL_CHARS: usize = 160;

fn first_words(failure: &Failure) -> String {
    let message = failure.outcome.cause.as_ref().map(|cause| cause.message.as_str()).unwrap_or_default();
    let plain = message.split_whitespace().collect::<Vec<_>>().join(" ");
    plain.chars().take(DETAIL_CHARS).collect()
}

fn run(
    context: &Context<'_>,
    prepared: &Prepared,
    compiled: &Compiled,
    stages: &mut Stages,
) -> Result<(), Stop> {
    let budget = RunBudget::new(prepared.task.limits.run.min(PATIENCE));
    let words = &Words::default();
    let step = Step { context, prepared, compiled, budget: &budget, words, stage: Stage::Validate };
    validate(step, &mut Picoseconds(0), &mut Vec::new(), stages)
}
