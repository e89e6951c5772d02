//! The sealed cases of a final verification: opened here, in the supervisor's memory, judged like the others, and told
//! to nobody.
//!
//! What a failure there says is cut down to its status: a message, a log or a time would carry sizes and values of what
//! is sealed into a record that everybody may read, and a candidate that sees a sealed size while it runs could print it.
//! So the cases lose their names before anything runs, and evidence, stages, log and time of this step are dropped.

use super::context::RunBudget;
use super::fault::{Party, Stop, cause, infrastructure};
use super::prepare::Prepared;
use super::resolve::{Setting, resolve};
use super::stages::Stages;
use super::validate::{Step, validate};
use crate::backend::{Evaluation, Failure};
use fleet_config::domain::{Blame, CaseKind, HoldoutSection, Picoseconds, Stage, Task, Validation};
use ledger::entry::predicate::HoldoutVerdict;
use std::collections::BTreeMap;

/// Runs the candidate on the holdout of this lease, if it has one. `verdict` is `failed` until all of it has passed, so
/// that whatever ends the step early is not told either.
pub(super) fn judge(step: Step<'_>, verdict: &mut Option<HoldoutVerdict>) -> Result<(), Stop> {
    let Some(sealed) = &step.context.assignment.sealed else { return Ok(()) };
    let fault = |code: &str, message: &str| infrastructure(Stage::Validate, code, message);
    let Some(holdout) = &step.prepared.task.holdout else {
        return Err(fault("holdout/none", "the task seals no holdout").into());
    };
    let section = HoldoutSection::open(&sealed.section, &sealed.salt, holdout)
        .map_err(|error| fault("holdout/section", &error.to_string()))?;
    *verdict = Some(HoldoutVerdict::Failed);
    let prepared = prepared(step, section)?;
    let budget = RunBudget::new(prepared.task.limits.run.min(step.context.assignment.run));
    let step = Step { prepared: &prepared, budget: &budget, ..step };
    // The time is not kept: a candidate could spell out what it sees by how long it takes.
    let (mut waited, mut evidence, mut stages) = (Picoseconds(0), Vec::new(), Stages::default());
    validate(step, &mut waited, &mut evidence, &mut stages)?;
    *verdict = Some(HoldoutVerdict::Passed);
    Ok(())
}

/// The attempt with the sealed cases in place of the task's. They gate and are not timed; the stages beyond the cases
/// had their turn with the open ones.
fn prepared(step: Step<'_>, section: HoldoutSection) -> Result<Prepared, Failure> {
    let mut prepared = step.prepared.clone();
    let mut cases = section.cases;
    for (number, case) in (1..).zip(&mut cases) {
        case.name = format!("sealed {number}");
        case.kind = CaseKind::Correctness;
    }
    let Task { validation, .. } = &mut prepared.task;
    *validation = validation.take().map(|section| Validation {
        determinism: section.determinism,
        allow: section.allow,
        sweep: BTreeMap::new(),
        stress: Vec::new(),
    });
    prepared.task.cases = cases;
    let attributes = &step.context.device.attributes;
    let mut evaluations = BTreeMap::new();
    for party in [Party::Reference, Party::Baseline, Party::Candidate] {
        let resolved = |case| {
            let setting = Setting { task: &prepared.task, case, attributes, party };
            resolve(setting, prepared.plan(party))
        };
        let all: Result<Vec<Evaluation>, Failure> = prepared.task.cases.iter().map(resolved).collect();
        evaluations.insert(party, all?);
    }
    prepared.evaluations = evaluations;
    Ok(prepared)
}

/// What may be told of a failure among sealed cases: status, stage, blame, and that there was one.
pub(super) fn told(failure: Failure) -> Failure {
    let Failure { mut outcome, log: _ } = failure;
    let (code, message, hint) = match outcome.blame {
        Blame::Candidate => (
            "holdout/failed",
            "a sealed case fails; which one and how is not told",
            "look for what holds for the open cases alone: sizes, alignment, values that are written into the code",
        ),
        Blame::Task => (
            "holdout/task",
            "the task itself cannot answer a sealed case",
            "mend the task: `muster task lint` finds this",
        ),
        Blame::Device => {
            ("holdout/device", "this device cannot run a sealed case", "verify on another device class")
        }
        Blame::Fleet | Blame::Nobody => (
            "holdout/interrupted",
            "the fleet could not finish the sealed cases",
            "this is the fleet's own fault; the attempt is tried again",
        ),
    };
    let mut kept = cause(code, message);
    kept.unsupported = outcome.cause.take().and_then(|cause| cause.unsupported);
    outcome.cause = Some(kept);
    outcome.log = None;
    hint.clone_into(&mut outcome.hint);
    Failure { outcome, log: None }
}

/// A date of an attempt that opened a holdout, to the minute: to the millisecond begin and end would tell how long the
/// sealed cases took, and a candidate could spell out what it sees by that.
pub(super) fn to_the_minute(date: &str) -> String {
    match date.get(.."2026-11-30T12:00".len()) {
        Some(minute) => format!("{minute}:00.000Z"),
        None => date.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::{Cause, Outcome, Status};

    #[test]
    fn dates_tell_of_sealed_cases_no_more_than_the_minute() {
        assert_eq!(to_the_minute("2026-11-30T23:59:58.123Z"), "2026-11-30T23:59:00.000Z");
        assert_eq!(to_the_minute("another form"), "another form");
    }

    #[test]
    fn a_failure_among_sealed_cases_tells_its_status_and_nothing_of_the_case() {
        for blame in [Blame::Candidate, Blame::Task, Blame::Device, Blame::Fleet] {
            let told_of = Cause {
                case: Some("n 123321".to_owned()),
                ..cause("validate/mismatch", "element 123321 differs")
            };
            let outcome = Outcome::failed(Status::WrongResult, Stage::Validate, blame, told_of, "n 123321");
            let failure = Failure { log: Some(b"n 123321".to_vec()), ..Failure::new(outcome) };
            let kept = told(failure);
            assert_eq!((kept.outcome.status, kept.outcome.blame), (Status::WrongResult, blame));
            assert!(kept.log.is_none());
            let text = serde_json::to_string(&*kept.outcome).unwrap();
            assert!(!text.contains("123321"), "{text}");
        }
    }
}
