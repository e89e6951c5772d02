//! Step three: is it right? In named stages, before anything is timed.
//!
//! ```text
//! contract     signature, sizes and launch limits: settled before this step, told here
//! per group of cases, in the task's order
//!   reference worker ── all draws of all its cases ── ended             expected values stay in this process
//!   weak task?  what anybody could output without the work must fail (strength.rs)
//!   baseline worker  ── the same draws ── ended ── compared
//!   smoke        candidate worker ── first case, one draw ── killed ── compared        (first group only)
//!   cases        candidate worker for each case ── per draw: fresh buffers, one launch, fences, inputs, outputs read
//!   determinism  the same worker, the first draw once more in other poison              ── killed ── compared
//! shapes       sizes that the task allows and no case has                                       (beyond.rs)
//! stress       hard values on the smallest case                                                 (beyond.rs)
//! determinism  where a device can: the smallest case with threads in other orders                (order.rs)
//! post-run     guards and inputs, after every launch of all of these
//! ```
//! On a CPU a candidate's process starts after the reference's is gone and is gone before anything is compared, so that it
//! can neither read an expected value nor see a verdict. It meets each case in a new process. On a GPU the device's own
//! walls stand between processes, and no code of a candidate runs outside of its launches: there workers lie idle between
//! their questions (`residents.rs`), and a candidate meets each case in a newly loaded module. Each draw has buffers at new
//! addresses.

use super::bench::{Bench, Run, poison};
use super::compile::Compiled;
use super::context::{Context, Hold, RunBudget, elapsed};
use super::fault::{Party, Stop};
use super::oracle::{Inputs, Outputs, Question, draws};
use super::prepare::Prepared;
use super::resolve::shapes;
use super::stages::{Looked, Stages};
use super::trial::{Sheet, Trial};
use super::words::Words;
use super::{beyond, order};
use crate::backend::{Duty, Evaluation, Worker};
use fleet_config::domain::{CaseKind, ClockOfRecord, OptionalStage, Picoseconds, Stage, ValidationStage};
use ledger::entry::predicate::CaseEvidence;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Cases are judged in groups of about this many bytes of inputs, so that the reference of a task of small cases is
/// started once, and the values kept for a task of large ones stay few.
const GROUP_BYTES: usize = 64 << 20;

/// One step's view of the attempt.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub context: &'a Context<'a>,
    pub prepared: &'a Prepared,
    pub compiled: &'a Compiled,
    pub budget: &'a RunBudget,
    pub words: &'a Words,
    pub stage: Stage,
}

impl<'a> Step<'a> {
    /// How `party` runs the case at `place`.
    pub(super) fn run(&self, party: Party, place: usize) -> Run<'a> {
        let limits = &self.prepared.task.limits;
        Run {
            party,
            stage: self.stage,
            artefact: &self.compiled.artefacts[&party],
            evaluation: &self.prepared.evaluations[&party][place],
            launch_limit: limits.launch,
            memory: limits.memory.0,
        }
    }

    /// Stops the attempt when it is cancelled or has used up its time.
    pub(super) fn check(&self, party: Party, place: usize) -> Result<(), Stop> {
        self.budget.check(self.context, party, self.stage, &self.prepared.task.cases[place].name)
    }

    /// Waits for the machine and for the device. A device with a clock of its own, to which launches are queued, needs
    /// no machine for itself, so that the devices of a machine are timed at once; its device it has alone.
    pub(super) fn hold(&self, hold: Hold, waited: &mut Picoseconds) -> Result<Box<dyn Send>, Stop> {
        let (machine, duty) = match (hold, self.prepared.policy.clock) {
            (Hold::Shared, _) => (Hold::Shared, Duty::Validating),
            (Hold::Alone, ClockOfRecord::DeviceEventsCold) => (Hold::Shared, Duty::Timing),
            (
                Hold::Alone,
                ClockOfRecord::SupervisorMonotonic
                | ClockOfRecord::DeviceEvents
                | ClockOfRecord::DeviceEventsHot,
            ) => (Hold::Alone, Duty::Timing),
        };
        let held = self.context.hold(machine, self.stage, self.budget.left(), waited)?;
        let claimed = self.context.claim(duty, self.stage, self.budget.left(), waited)?;
        // Let go in this order, the reverse of taking.
        Ok(Box::new((claimed, held)))
    }

    /// The place of the smallest case that only has to be right, else of the smallest of all.
    pub(super) fn smallest(&self) -> usize {
        let evaluations = &self.prepared.evaluations[&Party::Candidate];
        let bytes = |evaluation: &Evaluation| {
            evaluation.buffers.iter().fold(0_u64, |all, buffer| all.saturating_add(buffer.bytes))
        };
        let ranked = self.prepared.task.cases.iter().zip(evaluations).enumerate().map(
            |(place, (case, evaluation))| (case.kind != CaseKind::Correctness, bytes(evaluation), place),
        );
        ranked.min().map_or(0, |(_, _, place)| place)
    }

    pub(super) fn question<'q>(&self, place: usize, shapes: &'q BTreeMap<String, Vec<u64>>) -> Question<'q>
    where
        'a: 'q,
    {
        Question {
            prepared: self.prepared,
            case: &self.prepared.task.cases[place],
            shapes,
            stage: self.stage,
        }
    }
}

/// Validates baseline and candidate; `evidence` and `stages` grow by what was seen, also when the verdict is bad.
pub(super) fn validate(
    step: Step<'_>,
    waited: &mut Picoseconds,
    evidence: &mut Vec<CaseEvidence>,
    stages: &mut Stages,
) -> Result<(), Stop> {
    let clock = step.context.clock;
    let task = &step.prepared.task;
    stages.enter(ValidationStage::Contract, clock.now());
    stages.looked(ValidationStage::Contract, Looked { cases: task.cases.len(), draws: 0, launches: 0 });
    stages.say(ValidationStage::Contract, "signature, sizes and launch limits; its time is in preparing");
    stages.leave_out(&step.prepared.policy);
    let draws = draws(&step.context.assignment.seeds, step.prepared.policy.draws);
    let mut trial = Trial::new(&task.validation, &draws, task);
    let mut next = 0;
    while next < task.cases.len() {
        stages.leave(clock.now());
        let _held = step.hold(Hold::Shared, waited)?;
        stages.enter(ValidationStage::Cases, clock.now());
        let mut sheets = Vec::new();
        let mut bytes = 0;
        while next < task.cases.len() && bytes < GROUP_BYTES {
            let shapes = shapes(task, &task.cases[next])?;
            let question = step.question(next, &shapes);
            let inputs: Vec<Arc<Inputs>> =
                draws.iter().map(|draw| question.inputs(*draw).map(Arc::new)).collect::<Result<_, _>>()?;
            bytes += inputs.iter().map(|inputs| inputs.bytes()).sum::<usize>();
            sheets.push(Sheet { place: next, shapes, inputs, expected: Vec::new() });
            next += 1;
        }
        if next == task.cases.len() {
            trial.is_last = true;
        }
        trial.group(step, &mut sheets, evidence, stages)?;
    }
    trial.tell(stages);
    let policy = &step.prepared.policy;
    if policy.runs(OptionalStage::Shapes) {
        beyond::shapes(step, &draws, waited, stages)?;
    }
    if policy.runs(OptionalStage::Stress) {
        beyond::stress(step, &draws, waited, stages)?;
    }
    if policy.runs(OptionalStage::Determinism) {
        order::orders(step, waited, stages)?;
    }
    stages.leave(clock.now());
    stages.say(
        ValidationStage::PostRun,
        "guards and inputs after each of these launches; its time is in theirs too",
    );
    Ok(())
}

/// A case by its place in the task, and the inputs that it is run with.
pub(super) type Work = (usize, Vec<Arc<Inputs>>);

/// What one launch gave and cost.
pub(super) struct Launched {
    pub outputs: Outputs,
    /// From making its buffers to reading its outputs.
    pub took: Picoseconds,
    /// Guards and inputs, part of `took`.
    pub guards: Picoseconds,
}

/// One worker over the given cases, each launch in fresh buffers, by case and draw. When this returns the process is gone,
/// or waits as a resident for another question. Where a resident of the task's own fails, a new worker is asked the same: it
/// is from another attempt, and the device may have lost it since.
pub(super) fn launches(step: Step<'_>, party: Party, work: &[Work]) -> Result<Vec<Vec<Launched>>, Stop> {
    let resident = work.first().and_then(|(place, _)| {
        step.context.residents.take(&step.run(party, *place), &step.context.interrupt)
    });
    let is_resident = resident.is_some();
    let launched = launches_in(step, party, work, resident);
    match (&launched, party) {
        (Err(Stop::Failed(failure)), Party::Reference | Party::Baseline)
            if is_resident && !step.context.interrupt.asked() =>
        {
            let cause = failure.outcome.cause.as_ref().map_or("", |cause| cause.message.as_str());
            tracing::debug!(cause, party = party.name(), "a resident failed; a new worker is asked");
            launches_in(step, party, work, None)
        }
        (_, Party::Reference | Party::Baseline | Party::Candidate) => launched,
    }
}

/// The same in `worker`, or in a new one.
fn launches_in(
    step: Step<'_>,
    party: Party,
    work: &[Work],
    worker: Option<Box<dyn Worker>>,
) -> Result<Vec<Vec<Launched>>, Stop> {
    let mut bench: Option<Bench<'_>> = None;
    let launched = launch_all(step, party, work, worker, &mut bench);
    if let Some(mut bench) = bench {
        step.words.hear(party, || bench.printed());
        match launched {
            Ok(_) => bench.leave(step.context),
            Err(_) => bench.finish(),
        }
    }
    launched
}

fn launch_all<'a>(
    step: Step<'a>,
    party: Party,
    work: &[Work],
    mut worker: Option<Box<dyn Worker>>,
    bench: &mut Option<Bench<'a>>,
) -> Result<Vec<Vec<Launched>>, Stop> {
    let clock = step.context.clock;
    let mut all = Vec::with_capacity(work.len());
    for (place, draws) in work {
        let run = step.run(party, *place);
        let mut launched = Vec::with_capacity(draws.len());
        for (number, inputs) in draws.iter().enumerate() {
            step.check(party, *place)?;
            let from = clock.now();
            let (inputs, poison) = (Arc::clone(inputs), poison(number));
            let bench = match bench.as_mut() {
                Some(bench) => {
                    bench.reload(run, inputs, poison)?;
                    bench
                }
                None => {
                    let opened = match worker.take() {
                        Some(worker) => Bench::resume(worker, run, inputs, poison),
                        None => Bench::open(step.context, run, inputs, poison),
                    };
                    bench.insert(opened?)
                }
            };
            bench.launch()?;
            let checked = clock.now();
            bench.check_contract()?;
            let guards = elapsed(checked, clock.now());
            let outputs = bench.outputs()?;
            let took = elapsed(from, clock.now());
            step.budget.spend(party, took);
            launched.push(Launched { outputs, took, guards });
        }
        all.push(launched);
    }
    Ok(all)
}

/// The same, outputs alone.
pub(super) fn evaluate(step: Step<'_>, party: Party, work: &[Work]) -> Result<Vec<Vec<Outputs>>, Stop> {
    let all = launches(step, party, work)?;
    Ok(all.into_iter().map(|case| case.into_iter().map(|launched| launched.outputs).collect()).collect())
}
