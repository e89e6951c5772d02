//! The steps of one attempt: prepare, compile, validate (with screens), time, sign.
//!
//! ```text
//! Assign ─► prepare ─► compile ─► validate ─► time ─► sign ─► outbox
//!              │          │  machine shared │    │ alone
//!              └──────────┴────────┴─────────┴─► an outcome other than ok, signed all the same
//! ```
//! An attempt always ends in a signed result unless it was cancelled. Whatever the fleet does wrong, a panic
//! included, is `infrastructure`: tried again and never charged to a candidate.

mod ahead;
mod bench;
mod beyond;
mod blame;
mod bound;
mod compile;
pub mod context;
pub mod fault;
mod hint;
mod holdout;
mod label;
mod local;
mod machine;
mod oracle;
mod order;
mod pair;
mod prepare;
pub mod rehearsal;
mod residents;
mod resolve;
pub mod runner;
mod scalar;
pub mod score;
mod screen;
pub mod service;
mod sign;
mod stages;
mod strength;
mod stress;
mod survey;
mod sweep;
mod time;
mod trial;
pub mod tryout;
mod validate;
mod words;

#[cfg(test)]
mod tests;
#[cfg(test)]
use tests::tests_task;

pub use context::{Assignment, BlobFault, BlobSource, Context, Hold, Machine, Node};
pub use fault::{Party, Stop};
pub use residents::Residents;
pub(crate) use resolve::{entries, resolved};
pub use sign::{FinishedAttempt, SignError};

use crate::backend::Failure;
use context::{RunBudget, elapsed};
use fault::infrastructure;
use fleet_config::domain::{Blame, CheckEvidence, DeviceKind, Picoseconds, Stage, Status, ValidationStage};
use ledger::entry::predicate::{CaseEvidence, HoldoutVerdict};
use residents::Visit;
use sign::Findings;
use stages::Stages;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use validate::Step;
use words::Words;

/// An outcome as it goes into a record, for the fuzzer.
#[doc(hidden)]
pub fn bounded(outcome: fleet_config::domain::Outcome) -> fleet_config::domain::Outcome {
    bound::outcome(outcome)
}

/// Why an attempt has no result.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    #[error("the attempt was cancelled")]
    Cancelled,
    /// The candidate's document could not be had, so that there is nothing to make a statement about.
    #[error("the attempt cannot begin: {0}")]
    Unprepared(String),
    #[error(transparent)]
    Sign(#[from] SignError),
}

/// Runs one attempt from its assignment to its signed result. Blocks for as long as it takes.
pub fn attempt(context: &Context<'_>) -> Result<FinishedAttempt, AttemptError> {
    let started_on = context.clock.date();
    (context.progress)(Stage::Prepare, "");
    let from = context.clock.now();
    let candidate = match prepare::candidate(context) {
        Ok(candidate) => candidate,
        Err(Stop::Cancelled) => return Err(AttemptError::Cancelled),
        Err(Stop::Failed(failure)) => {
            let cause = failure.outcome.cause.map(|cause| cause.message);
            return Err(AttemptError::Unprepared(cause.unwrap_or_default()));
        }
    };
    let mut findings = Findings::of(candidate);
    findings.holdout = context.assignment.sealed.as_ref().map(|_| HoldoutVerdict::NotReached);
    findings.times.transfer = elapsed(from, context.clock.now());
    let (stage, words) = (Cell::new(Stage::Prepare), Words::default());
    let ended = catch_unwind(AssertUnwindSafe(|| steps(context, &mut findings, &words, &stage)));
    let failure = match ended {
        Ok(Ok(())) => None,
        Ok(Err(Stop::Cancelled)) => return Err(AttemptError::Cancelled),
        // A wait that was cut short by the cancel says that of itself; nobody wants to read it.
        Ok(Err(Stop::Failed(_))) if context.interrupt.asked() => return Err(AttemptError::Cancelled),
        Ok(Err(Stop::Failed(failure))) => Some(failure),
        Err(payload) => Some(sign::panicked(stage.get(), payload.as_ref())),
    };
    let failure = failure.map(|failure| exonerated(context, stage.get(), failure));
    let is_sealed = findings.holdout == Some(HoldoutVerdict::Failed);
    let failure = if is_sealed { failure.map(holdout::told) } else { failure };
    if let Some(failure) = failure.as_ref().filter(|_| !is_sealed) {
        findings.stages.ended(failure, context.clock.now());
    }
    // A candidate that has seen sealed cases could print them.
    let has_opened = matches!(findings.holdout, Some(HoldoutVerdict::Failed | HoldoutVerdict::Passed));
    findings.printed = if has_opened { None } else { words.of(failure.as_ref()) };
    (context.progress)(Stage::Sign, "");
    Ok(sign::sign(context, findings, failure, started_on)?)
}

/// A fault that the device itself had a hand in is the fleet's: tried again, and charged to nobody.
fn exonerated(context: &Context<'_>, stage: Stage, failure: Failure) -> Failure {
    match failure.outcome.status {
        Status::RuntimeError | Status::Timeout | Status::WorkerLost => match (context.hardware)() {
            Some(report) => {
                let was = failure.outcome.cause.as_ref().map_or("", |cause| cause.message.as_str());
                let message = format!("the driver reports trouble of the device ({report}); {was}");
                Failure { log: failure.log, ..infrastructure(stage, "device/hardware", message) }
            }
            None => failure,
        },
        Status::Ok
        | Status::WrongResult
        | Status::ContractViolation
        | Status::Suspicious
        | Status::TaskWeak
        | Status::Rejected
        | Status::CompileError
        | Status::CompileTimeout
        | Status::LaunchError
        | Status::OutOfMemory
        | Status::UnsupportedOnDevice
        | Status::Infrastructure => failure,
    }
}

/// Prepares, compiles and validates without timing or signing anything: whether a task holds together on this device
/// is found out by giving it its own baseline as the candidate.
pub fn rehearse(context: &Context<'_>) -> Result<Rehearsed, Stop> {
    let prepared = prepare::prepare(context, prepare::candidate(context)?)?;
    let mut waited = Picoseconds(0);
    let compiled = compile::compile(context, &prepared, &mut waited)?;
    let budget = RunBudget::new(prepared.task.limits.run);
    let step = Step {
        context,
        prepared: &prepared,
        compiled: &compiled,
        budget: &budget,
        words: &Words::default(),
        stage: Stage::Validate,
    };
    let _visit = Visit(context.residents);
    let (mut evidence, mut stages) = (Vec::new(), Stages::default());
    validate::validate(step, &mut waited, &mut evidence, &mut stages)?;
    Ok(Rehearsed { cases: evidence, checks: stages.evidence() })
}

/// What a rehearsal saw.
#[derive(Debug)]
pub struct Rehearsed {
    pub cases: Vec<CaseEvidence>,
    pub checks: Vec<CheckEvidence>,
}

fn steps(
    context: &Context<'_>,
    findings: &mut Findings,
    words: &Words,
    stage: &Cell<Stage>,
) -> Result<(), Stop> {
    let clock = context.clock;
    let enter = |next: Stage| -> Result<Picoseconds, Stop> {
        stage.set(next);
        (context.progress)(next, "");
        context.go_on()?;
        Ok(clock.now())
    };

    let from = clock.now();
    let prepared = prepare::prepare(context, findings.candidate.clone());
    add(&mut findings.times.transfer, elapsed(from, clock.now()));
    if let Err(Stop::Failed(failure)) = &prepared
        && failure.outcome.blame == Blame::Candidate
    {
        findings.stages.enter(ValidationStage::Contract, clock.now());
    }
    let prepared = prepared?;

    if context.device.kind == DeviceKind::Compile {
        enter(Stage::Compile)?;
        return compile_only(context, &prepared, findings);
    }

    let from = enter(Stage::Compile)?;
    let mut waited = Picoseconds(0);
    let compiled = compile::compile(context, &prepared, &mut waited);
    findings.times.compile = elapsed(waited, elapsed(from, clock.now()));
    add(&mut findings.times.waited, waited);
    let compiled = compiled?;
    findings.artefact = compiled.artefacts.get(&Party::Candidate).cloned();
    findings.labels = label::labels(&prepared, &compiled);

    let from = enter(Stage::Validate)?;
    let _visit = Visit(context.residents);
    let limit = prepared.task.limits.run.min(context.assignment.run);
    let budget = RunBudget::new(limit);
    let step = Step {
        context,
        prepared: &prepared,
        compiled: &compiled,
        budget: &budget,
        words,
        stage: Stage::Validate,
    };
    let mut waited = Picoseconds(0);
    let validated = validate::validate(step, &mut waited, &mut findings.evidence, &mut findings.stages);
    let validated = match validated {
        Ok(()) => screen::screens(step, &mut waited, &mut findings.screens),
        Err(stop) => {
            if let Stop::Failed(failure) = &stop {
                findings.stages.ended(failure, clock.now());
            }
            let stop = survey::told(step, stop, &mut waited);
            Err(screen::examine(step, stop, &mut waited, &mut findings.screens))
        }
    };
    findings.times.validate = elapsed(waited, elapsed(from, clock.now()));
    add(&mut findings.times.waited, waited);
    validated?;
    holdout::judge(step, &mut findings.holdout)?;
    context.residents.dismiss();

    let from = enter(Stage::Time)?;
    let step = Step { stage: Stage::Time, ..step };
    let mut waited = Picoseconds(0);
    let timed = time::time(step, &mut waited, &mut findings.volatile, &mut findings.stages);
    findings.times.time = elapsed(waited, elapsed(from, clock.now()));
    add(&mut findings.times.waited, waited);
    let timed = timed?;
    (findings.timings, findings.samples) = (timed.timings, timed.samples);
    if findings.timings.is_empty() {
        return Err(infrastructure(Stage::Time, "time/nothing", "no case was timed").into());
    }
    Ok(())
}

/// All that a device without a device does: the candidate's artefact is the result.
fn compile_only(
    context: &Context<'_>,
    prepared: &prepare::Prepared,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let from = context.clock.now();
    let mut waited = Picoseconds(0);
    let artefact = compile::candidate(context, prepared, &mut waited);
    findings.times.compile = elapsed(waited, elapsed(from, context.clock.now()));
    add(&mut findings.times.waited, waited);
    findings.artefact = Some(artefact?);
    Ok(())
}

fn add(total: &mut Picoseconds, more: Picoseconds) {
    total.0 = total.0.saturating_add(more.0);
}
