//! Step three: is it right? Every case, every draw, before anything is timed.
//!
//! ```text
//! per case   reference worker ── all draws ── killed      expected values stay in this process
//!            weak task?  zero and untouched outputs must fail
//!            baseline worker ── all draws ── killed ── compared
//! per draw   candidate worker ── one launch ── fences, inputs, outputs read ── killed ── compared
//! ```
//! A candidate's process starts after the reference's is gone and is gone before anything is compared, so that it
//! can neither read an expected value nor see a verdict. It meets each draw in a new process.

use super::bench::{Bench, Run, poison};
use super::compile::Compiled;
use super::context::{Context, Hold, RunBudget};
use super::fault::{Party, Stop};
use super::oracle::{Draw, Inputs, Outputs, Question, draws};
use super::prepare::Prepared;
use super::resolve::shapes;
use fleet_config::domain::{CaseKind, Picoseconds, Stage};
use ledger::entry::predicate::CaseEvidence;
use std::collections::BTreeMap;

/// What later steps need from a validation that passed.
#[derive(Debug, Default)]
pub(super) struct Validated {
    /// Expected outputs of the first draw of every timed case, by the case's place in the task.
    pub expected: BTreeMap<usize, Outputs>,
}

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
}

/// Validates baseline and candidate; `evidence` grows by what was seen, also when the verdict is bad.
pub(super) fn validate(
    step: Step<'_>,
    waited: &mut Picoseconds,
    evidence: &mut Vec<CaseEvidence>,
) -> Result<Validated, Stop> {
    let context = step.context;
    let _held = context.hold(Hold::Shared, step.stage, waited)?;
    // The budget starts when the machine is ours: waiting for it is nobody's spending.
    let step = Step { budget: RunBudget { since: context.clock.now(), ..step.budget }, ..step };
    let draws = draws(&context.assignment.seeds, step.prepared.policy.draws);
    let mut validated = Validated::default();
    for (place, case) in step.prepared.task.cases.iter().enumerate() {
        let shapes = shapes(&step.prepared.task, case)?;
        let question = Question { prepared: step.prepared, case, shapes: &shapes, stage: step.stage };
        let inputs: Vec<Inputs> =
            draws.iter().map(|draw| question.inputs(*draw)).collect::<Result<_, _>>()?;
        (context.progress)(step.stage, &format!("{}: reference", case.name));
        let mut expected = evaluate(step, Party::Reference, place, &inputs, 0)?;
        for (number, (inputs, expected)) in inputs.iter().zip(&expected).enumerate() {
            question.check_strength(inputs, expected, poison(number))?;
        }
        if !step.prepared.baseline_is_reference() {
            (context.progress)(step.stage, &format!("{}: baseline", case.name));
            for (outputs, expected) in
                evaluate(step, Party::Baseline, place, &inputs, 0)?.iter().zip(&expected)
            {
                if let Some(mismatch) = question.mismatch(expected, outputs)? {
                    return Err(question.wrong_result(Party::Baseline, mismatch).into());
                }
            }
        }
        for (number, draw) in draws.iter().enumerate() {
            let detail = format!("{}: draw {} of {}", case.name, number + 1, draws.len());
            (context.progress)(step.stage, &detail);
            candidate(step, question, place, number, *draw, &inputs[number], &expected[number], evidence)?;
        }
        if case.kind == CaseKind::Performance {
            validated.expected.insert(place, expected.swap_remove(0));
        }
    }
    Ok(validated)
}

#[expect(clippy::too_many_arguments, reason = "one draw of one case has this many parts, and one caller")]
fn candidate(
    step: Step<'_>,
    question: Question<'_>,
    place: usize,
    number: usize,
    draw: Draw,
    inputs: &Inputs,
    expected: &Outputs,
    evidence: &mut Vec<CaseEvidence>,
) -> Result<(), Stop> {
    let mut outputs = evaluate(step, Party::Candidate, place, std::slice::from_ref(inputs), number)?;
    let outputs = outputs.pop().expect("invariant: one draw gives one set of outputs");
    evidence.push(CaseEvidence {
        case: question.case.name.clone(),
        seed: draw.seed,
        inputs: inputs.digests(),
        outputs: outputs.digests(),
        expected: expected.digests(),
        absolute_error_max: question.largest_error(expected, &outputs)?,
    });
    match question.mismatch(expected, &outputs)? {
        None => Ok(()),
        Some(mismatch) => Err(question.wrong_result(Party::Candidate, mismatch).into()),
    }
}

/// One worker over the given draws, each in fresh buffers; the first has number `first`. The process is gone when
/// this returns.
fn evaluate(
    step: Step<'_>,
    party: Party,
    place: usize,
    draws: &[Inputs],
    first: usize,
) -> Result<Vec<Outputs>, Stop> {
    let mut bench: Option<Bench<'_>> = None;
    let mut outputs = Vec::with_capacity(draws.len());
    for (offset, inputs) in draws.iter().enumerate() {
        step.check(party, place)?;
        let poison = poison(first + offset);
        let bench = match bench.as_mut() {
            Some(bench) => {
                bench.reload(inputs, poison)?;
                bench
            }
            None => bench.insert(Bench::open(step.context, step.run(party, place), inputs, poison)?),
        };
        bench.launch()?;
        bench.check_contract()?;
        outputs.push(bench.outputs()?);
    }
    if let Some(bench) = bench {
        bench.finish();
    }
    Ok(outputs)
}
