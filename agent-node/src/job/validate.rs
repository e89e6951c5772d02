//! Step three: is it right? Every case, every draw, before anything is timed.
//!
//! ```text
//! per group of cases   reference worker ── all draws of all its cases ── killed   expected values stay in this process
//!                      weak task?  zero and untouched outputs must fail
//!                      baseline worker ── the same draws ── killed ── compared
//! per case             candidate worker ── per draw: fresh buffers, one launch, fences, inputs, outputs read ── killed
//!                                                                                                          ── compared
//! ```
//! A candidate's process starts after the reference's is gone and is gone before anything is compared, so that it
//! can neither read an expected value nor see a verdict. It meets each case in a new process and each draw in buffers at
//! new addresses.

use super::bench::{Bench, Run, poison};
use super::compile::Compiled;
use super::context::{Context, Hold, RunBudget};
use super::fault::{Party, Stop};
use super::oracle::{Draw, Inputs, Outputs, Question, draws};
use super::prepare::Prepared;
use super::resolve::shapes;
use fleet_config::domain::{Picoseconds, Stage};
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
    pub budget: RunBudget,
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

    /// Waits for the machine and for the device; the budget goes on from when they are ours, since waiting is nobody's
    /// spending.
    pub(super) fn hold(&mut self, hold: Hold, waited: &mut Picoseconds) -> Result<Box<dyn Send>, Stop> {
        self.budget = self.budget.pause(self.context.clock.now());
        let held = self.context.hold(hold, self.stage, self.budget.left(), waited)?;
        let claimed = self.context.claim(self.stage, self.budget.left(), waited)?;
        self.budget.since = self.context.clock.now();
        // Let go in this order, the reverse of taking.
        Ok(Box::new((claimed, held)))
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

/// One case with its draws.
struct Sheet {
    place: usize,
    shapes: BTreeMap<String, Vec<u64>>,
    inputs: Vec<Arc<Inputs>>,
    expected: Vec<Outputs>,
}

/// Validates baseline and candidate; `evidence` grows by what was seen, also when the verdict is bad.
pub(super) fn validate(
    mut step: Step<'_>,
    waited: &mut Picoseconds,
    evidence: &mut Vec<CaseEvidence>,
) -> Result<(), Stop> {
    let draws = draws(&step.context.assignment.seeds, step.prepared.policy.draws);
    let mut next = 0;
    while next < step.prepared.task.cases.len() {
        let _held = step.hold(Hold::Shared, waited)?;
        let mut sheets = Vec::new();
        let mut bytes = 0;
        while next < step.prepared.task.cases.len() && bytes < GROUP_BYTES {
            let case = &step.prepared.task.cases[next];
            let shapes = shapes(&step.prepared.task, case)?;
            let question = step.question(next, &shapes);
            let inputs: Vec<Arc<Inputs>> =
                draws.iter().map(|draw| question.inputs(*draw).map(Arc::new)).collect::<Result<_, _>>()?;
            bytes += inputs.iter().map(|inputs| inputs.bytes()).sum::<usize>();
            sheets.push(Sheet { place: next, shapes, inputs, expected: Vec::new() });
            next += 1;
        }
        group(step, &mut sheets, &draws, evidence)?;
    }
    Ok(())
}

fn group(
    step: Step<'_>,
    sheets: &mut [Sheet],
    draws: &[Draw],
    evidence: &mut Vec<CaseEvidence>,
) -> Result<(), Stop> {
    let work: Vec<Work> = sheets.iter().map(|sheet| (sheet.place, sheet.inputs.clone())).collect();
    (step.context.progress)(step.stage, "reference");
    for (sheet, expected) in sheets.iter_mut().zip(evaluate(step, Party::Reference, &work)?) {
        sheet.expected = expected;
        let question = step.question(sheet.place, &sheet.shapes);
        for (number, (inputs, expected)) in sheet.inputs.iter().zip(&sheet.expected).enumerate() {
            question.check_strength(inputs, expected, poison(number))?;
        }
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
    for (sheet, work) in sheets.iter().zip(work) {
        let question = step.question(sheet.place, &sheet.shapes);
        (step.context.progress)(step.stage, &question.case.name);
        let outputs = evaluate(step, Party::Candidate, &[work])?.pop().unwrap_or_default();
        for (number, draw) in draws.iter().enumerate() {
            let (inputs, expected) = (&sheet.inputs[number], &sheet.expected[number]);
            judge(question, *draw, inputs, expected, &outputs[number], evidence)?;
        }
    }
    Ok(())
}

fn judge(
    question: Question<'_>,
    draw: Draw,
    inputs: &Inputs,
    expected: &Outputs,
    outputs: &Outputs,
    evidence: &mut Vec<CaseEvidence>,
) -> Result<(), Stop> {
    evidence.push(CaseEvidence {
        case: question.case.name.clone(),
        seed: draw.seed,
        inputs: inputs.digests(),
        outputs: outputs.digests(),
        expected: expected.digests(),
        absolute_error_max: question.largest_error(expected, outputs)?,
    });
    match question.mismatch(expected, outputs)? {
        None => Ok(()),
        Some(mismatch) => Err(question.wrong_result(Party::Candidate, mismatch).into()),
    }
}

/// A case by its place in the task, and the inputs that it is run with.
pub(super) type Work = (usize, Vec<Arc<Inputs>>);

/// One worker over the given cases, each launch in fresh buffers; the outputs by case and draw. The process is gone
/// when this returns.
pub(super) fn evaluate(step: Step<'_>, party: Party, work: &[Work]) -> Result<Vec<Vec<Outputs>>, Stop> {
    let mut bench: Option<Bench<'_>> = None;
    let mut all = Vec::with_capacity(work.len());
    for (place, draws) in work {
        let run = step.run(party, *place);
        let mut outputs = Vec::with_capacity(draws.len());
        for (number, inputs) in draws.iter().enumerate() {
            step.check(party, *place)?;
            let (inputs, poison) = (Arc::clone(inputs), poison(number));
            let bench = match bench.as_mut() {
                Some(bench) => {
                    bench.reload(run, inputs, poison)?;
                    bench
                }
                None => bench.insert(Bench::open(step.context, run, inputs, poison)?),
            };
            bench.launch()?;
            bench.check_contract()?;
            outputs.push(bench.outputs()?);
        }
        all.push(outputs);
    }
    if let Some(bench) = bench {
        bench.finish();
    }
    Ok(all)
}
