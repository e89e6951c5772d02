//! After a wrong answer: on which sizes is this kernel wrong? For the report alone; the verdict stands.

use super::context::Hold;
use super::fault::{Party, Stop};
use super::hint::{Tried, sizes};
use super::oracle::{Inputs, draws};
use super::prepare::Prepared;
use super::validate::{Step, Work, evaluate};
use super::{resolve, sweep};
use crate::backend::{Evaluation, Failure, ResolvedStep};
use fleet_config::domain::{Blame, Case, Picoseconds, Status};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sizes that one survey runs: each costs two launches of some milliseconds.
const SIZES_MAX: usize = 24;

/// `stop`, and if it is a wrong answer of the candidate, with what is known of sizes added to its message.
pub(super) fn told(step: Step<'_>, stop: Stop, waited: &mut Picoseconds) -> Stop {
    let Stop::Failed(mut failure) = stop else { return stop };
    let is_wrong = failure.outcome.status == Status::WrongResult && failure.outcome.blame == Blame::Candidate;
    let code = failure.outcome.cause.as_ref().map(|cause| cause.code.as_str());
    if is_wrong && code == Some("validate/mismatch") {
        // What cannot be found out leaves the report as it was.
        let tried = step.hold(Hold::Shared, waited).and_then(|_held| tried(step)).unwrap_or_default();
        if let (Some(hint), Some(cause)) = (sizes(&tried, block(step)), &mut failure.outcome.cause) {
            cause.message = format!("{}; {hint}", cause.message);
        }
    }
    Stop::Failed(failure)
}

/// Threads of a block of the candidate's first kernel.
fn block(step: Step<'_>) -> Option<i64> {
    let steps = &step.prepared.evaluations.get(&Party::Candidate)?.first()?.steps;
    steps.iter().find_map(|step| match step {
        ResolvedStep::Kernel { block, .. } => i64::try_from(block.iter().product::<u64>()).ok(),
        ResolvedStep::Memset { .. } => None,
    })
}

/// Right and wrong over the task's cases and, where the task allows more sizes, over some beside warps and blocks.
fn tried(step: Step<'_>) -> Result<Vec<Tried>, Stop> {
    let draws = draws(&step.context.assignment.seeds, 1);
    let Some(draw) = draws.first().copied() else { return Ok(Vec::new()) };
    let task = &step.prepared.task;
    let mut cases: Vec<Case> =
        task.cases.iter().filter(|case| sweep::is_small(task, &case.dims)).cloned().collect();
    if let Some(validation) = &task.validation {
        cases.extend(sweep::survey(task, validation, SIZES_MAX));
    }
    cases.truncate(SIZES_MAX);
    let prepared = surveyed(step, cases);
    let step = Step { prepared: &prepared, ..step };
    let mut work: Vec<Work> = Vec::new();
    let mut shapes = Vec::new();
    for (place, case) in prepared.task.cases.iter().enumerate() {
        let of_case = resolve::shapes(&prepared.task, case)?;
        let inputs: Arc<Inputs> = Arc::new(step.question(place, &of_case).inputs(draw)?);
        work.push((place, vec![inputs]));
        shapes.push(of_case);
    }
    let expected = evaluate(step, Party::Reference, &work)?;
    let got = evaluate(step, Party::Candidate, &work)?;
    let mut all = Vec::new();
    for (place, (expected, got)) in expected.iter().flatten().zip(got.iter().flatten()).enumerate() {
        let (Some(case), Some(shapes)) = (prepared.task.cases.get(place), shapes.get(place)) else {
            continue;
        };
        let is_right = step.question(place, shapes).mismatch(expected, got)?.is_none();
        all.push(Tried { dims: case.dims.clone(), is_right });
    }
    Ok(all)
}

/// The attempt with `cases` in place of the task's, as far as both sides can be launched on them.
fn surveyed(step: Step<'_>, mut cases: Vec<Case>) -> Prepared {
    let attributes = &step.context.device.attributes;
    let resolved = |party: Party, case: &Case| -> Result<Evaluation, Failure> {
        let setting = resolve::Setting { task: &step.prepared.task, case, attributes, party };
        resolve::resolve(setting, step.prepared.plan(party))
    };
    let parties = [Party::Reference, Party::Candidate];
    cases.retain(|case| parties.iter().all(|party| resolved(*party, case).is_ok()));
    let of = |party: Party| cases.iter().filter_map(|case| resolved(party, case).ok()).collect::<Vec<_>>();
    let evaluations: BTreeMap<Party, Vec<Evaluation>> =
        parties.into_iter().map(|party| (party, of(party))).collect();
    let mut prepared = step.prepared.clone();
    prepared.evaluations = evaluations;
    prepared.task.cases = cases;
    prepared
}
