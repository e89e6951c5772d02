//! Between right and timed: screens, which look for faults that a right answer can hide.
//!
//! ```text
//! validated ──► the policy's screens on the smallest case ── fault found ──► the outcome that it means
//!                                                         ── no fault found, not run ──► evidence, and on
//! not validated ──► the same screens, to say why ──► the verdict stands, with their words as its hint
//!               ──► a fence or a fault without a place ──► `address`, for buffer, byte, thread and line
//! ```
//! A screen never makes a verdict better: a pass is "no fault found" and nothing else.

use super::bench::poison;
use super::compile;
use super::context::{Hold, elapsed, milliseconds};
use super::fault::{Party, Stop};
use super::oracle::{Draw, Inputs, Outputs, draws};
use super::resolve::shapes;
use super::validate::{Step, evaluate};
use crate::backend::screen::{Finding, Missing, ScreenRequest, ScreenRun, Screening};
use crate::backend::{BufferUse, Failure, WorkerOptions};
use fleet_config::domain::{
    Blame, CheckEvidence, CheckFinding, FaultKind, Milliseconds, Outcome, Picoseconds, Role, Screen, Status,
};
use std::sync::Arc;

/// Runs the policy's screens; `evidence` grows by each, also by the one that finds a fault and ends the attempt.
pub(super) fn screens(
    step: Step<'_>,
    waited: &mut Picoseconds,
    evidence: &mut Vec<CheckEvidence>,
) -> Result<(), Stop> {
    let wanted = &step.prepared.policy.screens;
    if wanted.is_empty() {
        return Ok(());
    }
    let _held = step.hold(Hold::Shared, waited)?;
    let bench = Bench::new(step, step.smallest())?;
    for screen in wanted {
        step.context.go_on()?;
        if let Some(failure) = bench.run(*screen, evidence)? {
            return Err(failure.into());
        }
    }
    Ok(())
}

/// Makes the outcome of a validation that failed more exact.
pub(super) fn examine(
    step: Step<'_>,
    stop: Stop,
    waited: &mut Picoseconds,
    evidence: &mut Vec<CheckEvidence>,
) -> Stop {
    let Stop::Failed(failure) = stop else { return stop };
    let held = step.hold(Hold::Shared, waited);
    let examined = match (&held, failure.outcome.blame) {
        (Ok(_), Blame::Candidate) => explain(step, failure, evidence),
        (Ok(_) | Err(_), _) => failure,
    };
    Stop::Failed(examined)
}

/// What cannot be found out leaves the outcome as it was.
fn explain(step: Step<'_>, failure: Failure, evidence: &mut Vec<CheckEvidence>) -> Failure {
    let Some(cause) = failure.outcome.cause.clone() else { return failure };
    let named = |case: &String| step.prepared.task.cases.iter().position(|each| each.name == *case);
    let place = cause.case.as_ref().and_then(named).unwrap_or_else(|| step.smallest());
    if let Some(screen) = seen_by(&failure.outcome) {
        evidence.push(CheckEvidence {
            check: screen.check(),
            cases: 1,
            draws: 1,
            launches: 1,
            case: cause.case.clone().unwrap_or_default(),
            finding: CheckFinding::FaultFound,
            detail: clip(&format!("while validating: {}", cause.message)),
            took: Milliseconds(0),
        });
    }
    let is_memory = failure.outcome.status == Status::ContractViolation && cause.memory.is_some()
        || cause.fault == Some(FaultKind::IllegalAddress);
    let has_place = cause.source.is_some() && cause.memory.is_some_and(|memory| memory.place.is_some());
    if is_memory && !has_place {
        let found = Bench::new(step, place).and_then(|bench| Ok(bench.run(Screen::Address, evidence)?));
        return found.ok().flatten().unwrap_or(failure);
    }
    if failure.outcome.status == Status::WrongResult {
        return told_why(step, place, failure, evidence);
    }
    failure
}

/// A wrong answer stays one; the first screen that finds a fault says where it may come from.
fn told_why(
    step: Step<'_>,
    place: usize,
    mut failure: Failure,
    evidence: &mut Vec<CheckEvidence>,
) -> Failure {
    // Orders and poisons show that an answer changes, which a wrong one may do.
    let telling = |screen: &Screen| match screen {
        Screen::Fences
        | Screen::UninitialisedShared
        | Screen::ShuffleMasks
        | Screen::UninitialisedMemory
        | Screen::Address
        | Screen::RacesInBlock
        | Screen::RacesBetweenBlocks => true,
        Screen::Orders | Screen::DivergentBarriers => false,
    };
    let mut wanted = step.prepared.policy.screens.iter().filter(|screen| telling(screen)).peekable();
    if wanted.peek().is_none() {
        return failure;
    }
    let smallest = step.smallest();
    let places = if smallest == place { vec![place] } else { vec![smallest, place] };
    let Some(bench) = places.into_iter().find_map(|place| Bench::new(step, place).ok()) else {
        return failure;
    };
    for screen in wanted {
        let Ok(Some(found)) = bench.run(*screen, evidence) else { continue };
        let message = found.outcome.cause.map(|cause| cause.message).unwrap_or_default();
        failure.outcome.hint = format!("the screen {} found this: {message}", screen.name());
        failure.log = found.log;
        break;
    }
    failure
}

/// The screen that would have seen what validation saw.
fn seen_by(outcome: &Outcome) -> Option<Screen> {
    let cause = outcome.cause.as_ref()?;
    match (outcome.status, cause.fault) {
        (Status::ContractViolation, _) if cause.memory.is_some() => Some(Screen::Fences),
        (_, Some(FaultKind::IllegalAddress)) => Some(Screen::Fences),
        (_, Some(FaultKind::BarrierDivergence)) if cause.code == "launch/shuffle-mask" => {
            Some(Screen::ShuffleMasks)
        }
        (_, Some(FaultKind::BarrierDivergence)) => Some(Screen::DivergentBarriers),
        (_, _) => None,
    }
}

/// One case with its inputs, under the screens.
pub(super) struct Bench<'a> {
    step: Step<'a>,
    place: usize,
    inputs: Arc<Inputs>,
    contents: Vec<Vec<u8>>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(step: Step<'a>, place: usize) -> Result<Self, Stop> {
        let case = &step.prepared.task.cases[place];
        let shapes = shapes(&step.prepared.task, case)?;
        let draw: Option<Draw> = draws(&step.context.assignment.seeds, 1).first().copied();
        let inputs = match draw {
            Some(draw) => step.question(place, &shapes).inputs(draw)?,
            None => Inputs::default(),
        };
        let evaluation = &step.prepared.evaluations[&Party::Candidate][place];
        let content = |buffer: &crate::backend::Buffer| match buffer.use_ {
            BufferUse::Parameter(Role::In | Role::Inout) => inputs.of(&buffer.name).to_vec(),
            BufferUse::Parameter(Role::Out) | BufferUse::Scratch => {
                vec![poison(0); usize::try_from(buffer.bytes).unwrap_or(0)]
            }
        };
        let contents = evaluation.buffers.iter().map(content).collect();
        Ok(Self { step, place, inputs: Arc::new(inputs), contents })
    }

    /// The case's name.
    pub(super) fn case(&self) -> &'a str {
        &self.step.prepared.task.cases[self.place].name
    }

    /// Runs `screen`, adds what it came to, and answers the fault that it found.
    fn run(&self, screen: Screen, evidence: &mut Vec<CheckEvidence>) -> Result<Option<Failure>, Failure> {
        let Self { step, .. } = self;
        let context = step.context;
        let case = self.case().to_owned();
        (context.progress)(step.stage, screen.name());
        let from = context.clock.now();
        let screening = if step.budget.check(context, Party::Candidate, step.stage, &case).is_ok() {
            self.screening(screen)?
        } else {
            Screening::not_run("the attempt's time on the device is used up", "raise `limits.run`")
        };
        let Screening { finding, detail, runs, lost_update: _ } = screening;
        let unexpected = self.unexpected(&runs)?.map(|mut failure| {
            if let Some(cause) = &mut failure.outcome.cause {
                cause.code = format!("screen/{}", screen.name());
            }
            failure
        });
        let finding = match (finding, unexpected) {
            (Finding::NoFaultFound, Some(failure)) => Finding::Fault(Box::new(failure)),
            (finding, _) => finding,
        };
        let (word, detail, fault) = match finding {
            Finding::NoFaultFound => (CheckFinding::NoFaultFound, detail, None),
            Finding::Fault(failure) => {
                let cause = failure.outcome.cause.as_ref();
                let message = cause.map(|cause| cause.message.clone()).unwrap_or_default();
                (CheckFinding::FaultFound, message, Some(*failure))
            }
            Finding::NotRun(Missing { cause, next }) => {
                (CheckFinding::NotRun, format!("{cause}; {next}"), None)
            }
        };
        let took = milliseconds(elapsed(from, context.clock.now()));
        let launches = u32::try_from(runs.len()).unwrap_or(u32::MAX);
        let check = screen.check();
        let (cases, draws, detail) = (1, 1, clip(&detail));
        evidence.push(CheckEvidence { check, case, cases, draws, launches, finding: word, detail, took });
        Ok(fault)
    }

    /// Runs `screen` and hands on what it came to.
    pub(super) fn screening(&self, screen: Screen) -> Result<Screening, Failure> {
        let Self { step, place, contents, .. } = self;
        let (context, prepared) = (step.context, step.prepared);
        let folder = format!("screen-{}", screen.name());
        let request = compile::request(context, prepared, Party::Candidate, &folder)?;
        let limits = &prepared.task.limits;
        let worker = WorkerOptions {
            folder: context.subfolder(&format!("run-{folder}"), step.stage)?,
            confinement: context.node.confinement,
            launch_limit: limits.launch,
            memory: limits.memory.0,
            interrupt: context.interrupt.clone(),
        };
        let request = ScreenRequest {
            screen,
            compile: &request,
            artefact: &step.compiled.artefacts[&Party::Candidate],
            evaluation: &prepared.evaluations[&Party::Candidate][*place],
            contents,
            worker: &worker,
        };
        let screening = context.backend.screen(&context.device.id, &request)?;
        Ok(screening)
    }

    /// The first run whose outputs are not what the reference says.
    pub(super) fn unexpected(&self, runs: &[ScreenRun]) -> Result<Option<Failure>, Failure> {
        let Self { step, place, inputs, .. } = self;
        if runs.is_empty() {
            return Ok(None);
        }
        let expected = evaluate(*step, Party::Reference, &[(*place, vec![Arc::clone(inputs)])]);
        let expected = match expected {
            Ok(mut cases) => cases.pop().and_then(|mut draws| draws.pop()).unwrap_or_default(),
            Err(Stop::Failed(failure)) => return Err(failure),
            // The caller sees the interrupt too.
            Err(Stop::Cancelled) => return Ok(None),
        };
        let shapes = shapes(&step.prepared.task, &step.prepared.task.cases[*place])?;
        let question = step.question(*place, &shapes);
        for run in runs {
            let outputs = self.outputs(run);
            if let Some(mismatch) = question.mismatch(&expected, &outputs)? {
                let mut failure = question.wrong_result(Party::Candidate, mismatch);
                if let Some(cause) = &mut failure.outcome.cause {
                    cause.message = format!("with {}: {}", run.label, cause.message);
                }
                failure.outcome.hint =
                    "the answer depends on the order in which threads run: look for a missing barrier or atomic"
                        .to_owned();
                return Ok(Some(failure));
            }
        }
        Ok(None)
    }

    /// What a run left in the outputs.
    pub(super) fn outputs(&self, run: &ScreenRun) -> Outputs {
        let evaluation = &self.step.prepared.evaluations[&Party::Candidate][self.place];
        let mut outputs = Outputs::default();
        for (buffer, bytes) in evaluation.buffers.iter().zip(&run.buffers) {
            match buffer.use_ {
                BufferUse::Parameter(Role::Out | Role::Inout) => outputs.insert(&buffer.name, bytes.clone()),
                BufferUse::Parameter(Role::In) | BufferUse::Scratch => {}
            }
        }
        outputs
    }
}

fn clip(text: &str) -> String {
    text.chars().take(CheckEvidence::DETAIL_MAX).collect()
}
