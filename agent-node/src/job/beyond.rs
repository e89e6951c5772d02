//! The stages shapes and stress: what the task allows beyond its cases.
//!
//! Here the reference answers to what its author never ran. Where it or the baseline cannot, nothing is held against a
//! candidate: the stage says what was not judged. Tolerances are the task's own.

use super::context::Hold;
use super::fault::{Party, Stop};
use super::oracle::{Draw, Inputs, Outputs, Question, buffers};
use super::prepare::Prepared;
use super::resolve;
use super::stages::{Looked, Stages};
use super::trial::guarded;
use super::validate::{Step, Work, evaluate, launches};
use super::{stress as values, sweep};
use crate::backend::{Evaluation, Failure};
use fleet_config::domain::{Blame, Case, Picoseconds, Role, Stress, ValidationStage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs the candidate on sizes that no case has.
pub(super) fn shapes(
    step: Step<'_>,
    draws: &[Draw],
    waited: &mut Picoseconds,
    stages: &mut Stages,
) -> Result<(), Stop> {
    const STAGE: ValidationStage = ValidationStage::Shapes;
    let task = &step.prepared.task;
    let Some(validation) = task.validation.as_ref().filter(|section| !section.sweep.is_empty()) else {
        stages.skip(STAGE, "the task gives no range for any dimension (`[validation.sweep]`)");
        return Ok(());
    };
    let cases = sweep::shapes(task, validation, step.context.assignment.nonce);
    stages.leave(step.context.clock.now());
    let _held = step.hold(Hold::Shared, waited)?;
    stages.enter(STAGE, step.context.clock.now());
    (step.context.progress)(step.stage, STAGE.name());
    let prepared = swept(step, cases)?;
    let step = Step { prepared: &prepared, ..step };
    if prepared.task.cases.is_empty() {
        stages.skip(STAGE, "no shape in the ranges is new, small enough and launchable");
        return Ok(());
    }
    let Some(asked) = borne(ask(step, draws, None), STAGE, stages)? else { return Ok(()) };
    let named: Vec<&str> = asked.iter().map(|one| one.label.as_str()).collect();
    stages.say(STAGE, named.join(", "));
    judge(step, &asked, STAGE, stages)
}

/// The attempt with `cases` in place of the task's; those that reference or baseline cannot be launched on are left out.
fn swept(step: Step<'_>, mut cases: Vec<Case>) -> Result<Prepared, Failure> {
    let attributes = &step.context.device.attributes;
    let resolved = |party: Party, case: &Case| {
        let setting = resolve::Setting { task: &step.prepared.task, case, attributes, party };
        resolve::resolve(setting, step.prepared.plan(party))
    };
    cases.retain(|case| {
        [Party::Reference, Party::Baseline].iter().all(|party| resolved(*party, case).is_ok())
    });
    let mut evaluations = BTreeMap::new();
    for party in [Party::Reference, Party::Baseline, Party::Candidate] {
        let all: Result<Vec<Evaluation>, Failure> = cases.iter().map(|case| resolved(party, case)).collect();
        evaluations.insert(
            party,
            all.map_err(|mut failure| {
                failure.outcome.stage = step.stage;
                failure
            })?,
        );
    }
    let mut prepared = step.prepared.clone();
    prepared.task.cases = cases;
    prepared.evaluations = evaluations;
    Ok(prepared)
}

/// Runs the candidate on hard values in the smallest case.
pub(super) fn stress(
    step: Step<'_>,
    draws: &[Draw],
    waited: &mut Picoseconds,
    stages: &mut Stages,
) -> Result<(), Stop> {
    const STAGE: ValidationStage = ValidationStage::Stress;
    let task = &step.prepared.task;
    let Some(validation) = &task.validation else {
        stages.skip(STAGE, "the task does not say that its inputs may be hard values (`[validation]`)");
        return Ok(());
    };
    let place = step.smallest();
    if validation.stress.is_empty() {
        stages.skip(STAGE, "the task opts out");
        return Ok(());
    }
    let case = &task.cases[place];
    let input = |name: &String| case.inputs.get(name).or_else(|| task.inputs.get(name));
    let applies = buffers(task).any(|(param, role)| {
        role != Role::Out && input(&param.name).is_some_and(|input| values::applies(param.element, input))
    });
    if !applies {
        stages.skip(STAGE, "no floating input is drawn");
        return Ok(());
    }
    stages.leave(step.context.clock.now());
    let _held = step.hold(Hold::Shared, waited)?;
    stages.enter(STAGE, step.context.clock.now());
    (step.context.progress)(step.stage, STAGE.name());
    stages.at(STAGE, &case.name);
    let asked = ask(step, draws, Some((place, &validation.stress)));
    let Some(asked) = borne(asked, STAGE, stages)? else { return Ok(()) };
    judge(step, &asked, STAGE, stages)
}

/// One launch beyond the cases, with what the reference says to it.
struct Asked {
    /// The shape, or the kind of values.
    label: String,
    place: usize,
    shapes: BTreeMap<String, Vec<u64>>,
    inputs: Arc<Inputs>,
    expected: Outputs,
}

/// Inputs and expected values: of every case once, or of one case for each kind of hard values. What the baseline gets
/// wrong is left out.
fn ask(step: Step<'_>, draws: &[Draw], hard: Option<(usize, &Vec<Stress>)>) -> Result<Vec<Asked>, Stop> {
    let Some(draw) = draws.first().copied() else { return Ok(Vec::new()) };
    let cases = &step.prepared.task.cases;
    let wanted: Vec<(usize, Option<Stress>)> = match hard {
        Some((place, kinds)) => kinds.iter().map(|kind| (place, Some(*kind))).collect(),
        None => (0..cases.len()).map(|place| (place, None)).collect(),
    };
    let mut asked = Vec::new();
    for (place, kind) in wanted {
        let shapes = resolve::shapes(&step.prepared.task, &cases[place])?;
        let inputs = step.question(place, &shapes).inputs(draw)?;
        let (label, inputs) = match kind {
            Some(kind) => (kind.name().to_owned(), hardened(step, place, inputs, kind)),
            None => (cases[place].name.clone(), inputs),
        };
        asked.push(Asked { label, place, shapes, inputs: Arc::new(inputs), expected: Outputs::default() });
    }
    let expected = evaluate(step, Party::Reference, &work(&asked))?;
    for (one, outputs) in asked.iter_mut().zip(expected) {
        one.expected = outputs.into_iter().next().unwrap_or_default();
    }
    if step.prepared.baseline_is_reference() {
        return Ok(asked);
    }
    let outputs = evaluate(step, Party::Baseline, &work(&asked))?;
    let mut kept = Vec::new();
    for (one, outputs) in asked.into_iter().zip(outputs) {
        let question = step.question(one.place, &one.shapes);
        let right = match outputs.first() {
            Some(outputs) => finite_mismatch(question, &one.expected, outputs)?.is_none(),
            None => false,
        };
        if right {
            kept.push(one);
        }
    }
    Ok(kept)
}

fn work(asked: &[Asked]) -> Vec<Work> {
    asked.iter().map(|one| (one.place, vec![Arc::clone(&one.inputs)])).collect()
}

fn hardened(step: Step<'_>, place: usize, drawn: Inputs, kind: Stress) -> Inputs {
    let task = &step.prepared.task;
    let case = &task.cases[place];
    let mut inputs = drawn;
    for (number, (param, role)) in (0_u64..).zip(buffers(task)) {
        let input = case.inputs.get(&param.name).or_else(|| task.inputs.get(&param.name));
        if role != Role::Out && input.is_some_and(|input| values::applies(param.element, input)) {
            let bytes = values::stressed(kind, param.element, inputs.of(&param.name), number);
            inputs.0.insert(param.name.clone(), bytes);
        }
    }
    inputs
}

/// The candidate over what was asked: one process, since here breadth counts.
fn judge(step: Step<'_>, asked: &[Asked], stage: ValidationStage, stages: &mut Stages) -> Result<(), Stop> {
    if asked.is_empty() {
        stages.skip(stage, "the task's baseline differs from its reference on all of it");
        return Ok(());
    }
    let looked = Looked { cases: asked.len(), draws: asked.len(), launches: asked.len() };
    stages.looked(stage, looked);
    let launched = launches(step, Party::Candidate, &work(asked)).map_err(|stop| under(stop, stage))?;
    guarded(&launched, stages);
    let mut judged = 0;
    for (one, launched) in asked.iter().zip(&launched) {
        let question = step.question(one.place, &one.shapes);
        let (_, finite, total) = question.finite(&one.expected);
        judged += finite;
        if finite < total {
            stages.say(stage, format!("{}: {finite} of {total} elements judged", one.label));
        }
        let Some(launched) = launched.first() else { continue };
        if let Some(mismatch) = finite_mismatch(question, &one.expected, &launched.outputs)? {
            let mut failure = question.wrong_result(Party::Candidate, mismatch);
            if let (Some(cause), ValidationStage::Stress) = (&mut failure.outcome.cause, stage) {
                cause.code = "stress/mismatch".to_owned();
                cause.message = format!("with {} inputs: {}", one.label, cause.message);
                failure.outcome.hint =
                    "the reference gives a finite answer there; look for overflow, underflow and division"
                        .to_owned();
            }
            return Err(failure.into());
        }
    }
    if judged == 0 {
        stages.skip(stage, "the reference is finite nowhere, so nothing was judged");
    }
    Ok(())
}

/// A failure says which stage met it; the case alone would not.
fn under(stop: Stop, stage: ValidationStage) -> Stop {
    let Stop::Failed(mut failure) = stop else { return stop };
    if let Some(cause) = &mut failure.outcome.cause {
        cause.message = format!("stage {}: {}", stage.name(), cause.message);
    }
    Stop::Failed(failure)
}

/// The first element that differs where the reference is finite. Where all of it is, this is the plain comparison.
fn finite_mismatch(
    question: Question<'_>,
    expected: &Outputs,
    got: &Outputs,
) -> Result<Option<fleet_config::domain::Mismatch>, Failure> {
    let (spots, finite, total) = question.finite(expected);
    if finite == total {
        return question.mismatch(expected, got);
    }
    let (expected, got) = (question.pick(expected, &spots), question.pick(got, &spots));
    question.spot_mismatch(&expected, &got, &spots, "where the reference is finite")
}

/// What was asked, or nothing where the task itself cannot answer.
fn borne<T>(result: Result<T, Stop>, stage: ValidationStage, stages: &mut Stages) -> Result<Option<T>, Stop> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Failed(failure)) if failure.outcome.blame == Blame::Task => {
            let message = failure.outcome.cause.map(|cause| cause.message).unwrap_or_default();
            stages.skip(stage, format!("the task cannot answer there: {message}"));
            Ok(None)
        }
        Err(stop) => Err(stop),
    }
}
