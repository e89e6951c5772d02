//! The rest of determinism, where a device can choose who goes first: the answer on the smallest case must not depend on
//! the order in which threads and blocks begin, and what atomics update nothing else may update beside them.
//!
//! One schedule of a CPU hides both: threads that never wait run one after another, so that nothing is ever lost.

use super::context::Hold;
use super::fault::{Party, Stop, cause};
use super::screen::Bench;
use super::stages::{Looked, Stages};
use super::validate::Step;
use crate::backend::Failure;
use crate::backend::code::words_like;
use crate::backend::screen::{Finding, Missing, ScreenRun, Screening};
use fleet_config::domain::{Cause, Determinism, Outcome, Picoseconds, Screen, Status, ValidationStage};

const STAGE: ValidationStage = ValidationStage::Determinism;

/// What is said to whoever must find the cause.
const HINT: &str =
    "the answer depends on the order in which threads run: look for a missing barrier or atomic";

/// Runs the smallest case in other orders, and looks for lost updates where atomics are used. A screen of the policy that
/// does the same anyway is left to it; a device that cannot do it says nothing.
pub(super) fn orders(step: Step<'_>, waited: &mut Picoseconds, stages: &mut Stages) -> Result<(), Stop> {
    let offers = step.context.backend.screens();
    let screens = &step.prepared.policy.screens;
    let can = |screen: Screen| {
        !screens.contains(&screen)
            && offers.iter().any(|offer| offer.screen == screen && offer.missing.is_none())
    };
    let wanted = [can(Screen::Orders), can(Screen::RacesInBlock) && uses_atomics(step)];
    if wanted == [false, false] {
        return Ok(());
    }
    let clock = step.context.clock;
    stages.leave(clock.now());
    let _held = step.hold(Hold::Shared, waited)?;
    stages.enter(STAGE, clock.now());
    (step.context.progress)(step.stage, STAGE.name());
    let bench = Bench::new(step, step.smallest())?;
    if wanted[0] {
        in_other_orders(step, &bench, stages)?;
    }
    if wanted[1] {
        beside_atomics(step, &bench, stages)?;
    }
    Ok(())
}

/// Whether updates by atomics are part of the work: then one that is none is suspect.
fn uses_atomics(step: Step<'_>) -> bool {
    let parties = [Party::Candidate, Party::Baseline, Party::Reference];
    let sources = parties.iter().filter_map(|party| step.prepared.sources.get(party));
    sources.into_iter().any(|sources| !words_like(sources, |word| word.starts_with("atomic")).is_empty())
}

fn in_other_orders(step: Step<'_>, bench: &Bench<'_>, stages: &mut Stages) -> Result<(), Stop> {
    let Screening { finding, detail, runs, .. } = bench.screening(Screen::Orders)?;
    stages.looked(STAGE, Looked { cases: 1, draws: 1, launches: runs.len() });
    match finding {
        Finding::NotRun(Missing { cause, .. }) => {
            stages.say(STAGE, format!("other orders not run: {cause}"));
            return Ok(());
        }
        Finding::Fault(failure) => return Err((*failure).into()),
        Finding::NoFaultFound => stages.say(STAGE, detail),
    }
    if let Some(mut failure) = bench.unexpected(&runs)? {
        if let Some(cause) = &mut failure.outcome.cause {
            cause.code = "determinism/order".to_owned();
        }
        return Err(failure.into());
    }
    let determinism = step.prepared.task.validation.as_ref().map(|section| section.determinism);
    match determinism.unwrap_or_default() {
        Determinism::Tolerance => Ok(()),
        Determinism::Bitwise => bitwise(step, bench, &runs),
    }
}

fn bitwise(step: Step<'_>, bench: &Bench<'_>, runs: &[ScreenRun]) -> Result<(), Stop> {
    let Some((first, others)) = runs.split_first() else { return Ok(()) };
    let usual = bench.outputs(first);
    let Some(other) = others.iter().find(|run| bench.outputs(run) != usual) else { return Ok(()) };
    let case = bench.case();
    let message =
        format!("case `{case}`: outputs differ where {}, and the task asks for the same bits", other.label);
    let cause = Cause { case: Some(case.to_owned()), ..cause("determinism/differs", message) };
    let outcome = Outcome::failed(Status::WrongResult, step.stage, Party::Candidate.blame(), cause, HINT);
    Err(Failure::new(outcome).into())
}

/// An update that is read, changed and written while another thread of the block may do the same loses one of both.
fn beside_atomics(step: Step<'_>, bench: &Bench<'_>, stages: &mut Stages) -> Result<(), Stop> {
    let Screening { finding, lost_update, .. } = bench.screening(Screen::RacesInBlock)?;
    stages.looked(STAGE, Looked { cases: 1, draws: 1, launches: 1 });
    if let Some(mut failure) = lost_update {
        failure.outcome.stage = step.stage;
        if let Some(cause) = &mut failure.outcome.cause {
            cause.code = "determinism/lost-update".to_owned();
        }
        return Err((*failure).into());
    }
    match finding {
        Finding::NotRun(Missing { cause, .. }) => {
            stages.say(STAGE, format!("lost updates not looked for: {cause}"));
        }
        // Other races are for the screen, which a policy asks for: many kernels rely on some that do no harm.
        Finding::Fault(_) | Finding::NoFaultFound => {
            stages.say(STAGE, "no update lost beside atomics in a block");
        }
    }
    Ok(())
}
