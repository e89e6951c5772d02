//! The stages smoke, cases and determinism over one group of cases after another.

use super::bench::poison;
use super::fault::{Party, Stop, cause};
use super::oracle::{Draw, Inputs, Outputs, Question};
use super::stages::{Looked, Stages};
use super::strength::Fakes;
use super::validate::{Launched, Step, Work, evaluate, launches};
use crate::backend::Failure;
use fleet_config::domain::{
    Cause, Determinism, OptionalStage, Outcome, Picoseconds, Status, Task, Validation, ValidationStage,
};
use ledger::entry::predicate::CaseEvidence;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One case with its draws.
pub(super) struct Sheet {
    pub place: usize,
    pub shapes: BTreeMap<String, Vec<u64>>,
    pub inputs: Vec<Arc<Inputs>>,
    pub expected: Vec<Outputs>,
}

/// What the groups share.
pub(super) struct Trial<'t> {
    draws: &'t [Draw],
    determinism: Determinism,
    fakes: Fakes,
    has_smoked: bool,
    /// The group in hand is the last.
    pub is_last: bool,
    /// Cases whose repeated launch gave other bits, and all.
    repeats: [usize; 2],
}

impl<'t> Trial<'t> {
    pub(super) fn new(validation: &Option<Validation>, draws: &'t [Draw], task: &Task) -> Self {
        Self {
            draws,
            determinism: validation.as_ref().map(|section| section.determinism).unwrap_or_default(),
            fakes: Fakes::of(task),
            has_smoked: false,
            is_last: false,
            repeats: [0, 0],
        }
    }

    /// Reference, baseline and candidate over the cases of `sheets`.
    pub(super) fn group(
        &mut self,
        step: Step<'_>,
        sheets: &mut [Sheet],
        evidence: &mut Vec<CaseEvidence>,
        stages: &mut Stages,
    ) -> Result<(), Stop> {
        let work: Vec<Work> = sheets.iter().map(|sheet| (sheet.place, sheet.inputs.clone())).collect();
        (step.context.progress)(step.stage, "reference");
        for (sheet, expected) in sheets.iter_mut().zip(evaluate(step, Party::Reference, &work)?) {
            sheet.expected = expected;
            let question = step.question(sheet.place, &sheet.shapes);
            for (number, (inputs, expected)) in sheet.inputs.iter().zip(&sheet.expected).enumerate() {
                question.check_strength(inputs, expected, poison(number))?;
            }
            self.fakes.meet(&question, &sheet.inputs, &sheet.expected)?;
        }
        if self.is_last {
            self.fakes.verdict(step.stage, &step.prepared.task.tolerance)?;
        }
        if !step.prepared.baseline_is_reference() {
            (step.context.progress)(step.stage, "baseline");
            for (sheet, outputs) in sheets.iter().zip(evaluate(step, Party::Baseline, &work)?) {
                let question = step.question(sheet.place, &sheet.shapes);
                for (outputs, expected) in outputs.iter().zip(&sheet.expected) {
                    if let Some(mismatch) = question.mismatch(expected, outputs)? {
                        return Err(question.wrong_result(Party::Baseline, mismatch).into());
                    }
                }
            }
        }
        if !std::mem::replace(&mut self.has_smoked, true)
            && step.prepared.policy.runs(OptionalStage::Smoke)
            && let Some(sheet) = sheets.first()
        {
            self.smoke(step, sheet, evidence, stages)?;
        }
        for sheet in sheets.iter() {
            self.case(step, sheet, evidence, stages)?;
        }
        Ok(())
    }

    /// The task's first case under one draw, before anything that costs more.
    fn smoke(
        &self,
        step: Step<'_>,
        sheet: &Sheet,
        evidence: &mut Vec<CaseEvidence>,
        stages: &mut Stages,
    ) -> Result<(), Stop> {
        let (Some(draw), Some(inputs), Some(expected)) =
            (self.draws.first(), sheet.inputs.first(), sheet.expected.first())
        else {
            return Ok(());
        };
        let clock = step.context.clock;
        stages.enter(ValidationStage::Smoke, clock.now());
        let question = step.question(sheet.place, &sheet.shapes);
        (step.context.progress)(step.stage, ValidationStage::Smoke.name());
        stages.looked(ValidationStage::Smoke, Looked { cases: 1, draws: 1, launches: 1 });
        stages.at(ValidationStage::Smoke, &question.case.name);
        let mut launched = launches(step, Party::Candidate, &[(sheet.place, vec![Arc::clone(inputs)])])?;
        guarded(&launched, stages);
        let outputs = launched.pop().and_then(|mut draws| draws.pop()).map(|one| one.outputs);
        let outputs = outputs.unwrap_or_default();
        if let Some(mismatch) = question.mismatch(expected, &outputs)? {
            evidence.push(seen(question, *draw, inputs, expected, &outputs)?);
            return Err(question.wrong_result(Party::Candidate, mismatch).into());
        }
        stages.enter(ValidationStage::Cases, clock.now());
        Ok(())
    }

    /// All draws of one case, the first of them twice where determinism is asked for: once more right after it, in buffers
    /// with another poison.
    fn case(
        &mut self,
        step: Step<'_>,
        sheet: &Sheet,
        evidence: &mut Vec<CaseEvidence>,
        stages: &mut Stages,
    ) -> Result<(), Stop> {
        let question = step.question(sheet.place, &sheet.shapes);
        (step.context.progress)(step.stage, &question.case.name);
        let mut inputs = sheet.inputs.clone();
        let repeats = step.prepared.policy.runs(OptionalStage::Determinism);
        if let Some(first) = inputs.first().filter(|_| repeats).cloned() {
            inputs.insert(1, first);
        }
        let looked = Looked { cases: 1, draws: self.draws.len(), launches: self.draws.len() };
        stages.looked(ValidationStage::Cases, looked);
        let mut launched = launches(step, Party::Candidate, &[(sheet.place, inputs)])?;
        guarded(&launched, stages);
        let mut launched = launched.pop().unwrap_or_default();
        let again = (repeats && launched.len() > 1).then(|| launched.remove(1));
        for (number, (draw, launched)) in self.draws.iter().zip(&launched).enumerate() {
            let (inputs, expected) = (&sheet.inputs[number], &sheet.expected[number]);
            evidence.push(seen(question, *draw, inputs, expected, &launched.outputs)?);
            if let Some(mismatch) = question.mismatch(expected, &launched.outputs)? {
                return Err(question.wrong_result(Party::Candidate, mismatch).into());
            }
        }
        if let (Some(again), Some(first), Some(expected)) = (again, launched.first(), sheet.expected.first())
        {
            stages.move_to(ValidationStage::Determinism, again.took);
            stages.looked(ValidationStage::Determinism, Looked { cases: 1, draws: 1, launches: 1 });
            self.repeats[1] += 1;
            if first.outputs != again.outputs {
                self.repeats[0] += 1;
                self.differing(question, &first.outputs, &again.outputs, expected)?;
            }
        }
        Ok(())
    }

    /// Whether the second launch of the same inputs may differ so from the first.
    fn differing(
        &self,
        question: Question<'_>,
        first: &Outputs,
        again: &Outputs,
        expected: &Outputs,
    ) -> Result<(), Failure> {
        match self.determinism {
            Determinism::Tolerance => match question.mismatch(expected, again)? {
                Some(mismatch) => {
                    let mut failure = question.wrong_result(Party::Candidate, mismatch);
                    if let Some(cause) = &mut failure.outcome.cause {
                        cause.code = "determinism/mismatch".to_owned();
                        cause.message = format!("launched again with the same inputs: {}", cause.message);
                    }
                    failure.outcome.hint = AGAIN.to_owned();
                    Err(failure)
                }
                None => Ok(()),
            },
            Determinism::Bitwise => {
                let mismatch = question.exactly(first, again)?;
                let place = mismatch.as_ref().map_or_else(
                    || "in the bits of zeros or NaN alone".to_owned(),
                    |found| {
                        format!(
                            "in {} of {} elements of `{}`; first at index {} {:?}: {} and then {}",
                            found.count,
                            found.total,
                            found.output,
                            found.index,
                            found.coordinates,
                            found.expected,
                            found.got
                        )
                    },
                );
                let message = format!(
                    "case `{}`: two launches with the same inputs differ, and the task asks for the same bits: {place}",
                    question.case.name
                );
                let cause = Cause {
                    case: Some(question.case.name.clone()),
                    mismatch,
                    ..cause("determinism/differs", message)
                };
                let blame = Party::Candidate.blame();
                Err(Failure::new(Outcome::failed(Status::WrongResult, question.stage, blame, cause, AGAIN)))
            }
        }
    }

    /// What the repeats came to.
    pub(super) fn tell(&self, stages: &mut Stages) {
        let [differing, all] = self.repeats;
        if all == 0 {
            return;
        }
        let rule = match self.determinism {
            Determinism::Tolerance => "within the tolerance is enough",
            Determinism::Bitwise => "every bit must agree",
        };
        let detail = format!("{differing} of {all} repeated launches gave other bits; {rule}");
        stages.say(ValidationStage::Determinism, detail);
    }
}

const AGAIN: &str =
    "look for races, atomics whose order matters, and memory that is read before it is written";

/// Adds the checks of guards and inputs after these launches.
pub(super) fn guarded(launched: &[Vec<Launched>], stages: &mut Stages) {
    for case in launched {
        let looked = Looked { cases: 1, draws: case.len(), launches: case.len() };
        stages.looked(ValidationStage::PostRun, looked);
        let took = case.iter().fold(0_u64, |took, one| took.saturating_add(one.guards.0));
        stages.spent(ValidationStage::PostRun, Picoseconds(took));
    }
}

fn seen(
    question: Question<'_>,
    draw: Draw,
    inputs: &Inputs,
    expected: &Outputs,
    outputs: &Outputs,
) -> Result<CaseEvidence, Failure> {
    Ok(CaseEvidence {
        case: question.case.name.clone(),
        seed: draw.seed,
        inputs: inputs.digests(),
        outputs: outputs.digests(),
        expected: expected.digests(),
        absolute_error_max: question.largest_error(expected, outputs)?,
    })
}
