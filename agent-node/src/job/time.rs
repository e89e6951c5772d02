//! Step four: how long does it take? Alone on the machine, baseline and candidate in turn.
//!
//! Baseline and candidate live in a process each and hold the same inputs. Before each launch, outside of what is
//! timed, outputs are poisoned; after it, and without the candidate's knowledge, some outputs are kept. They are
//! compared when both processes are gone.

use super::bench::{Bench, poison};
use super::context::{Hold, RunBudget, elapsed};
use super::fault::{Party, Stop, infrastructure};
use super::oracle::{Outputs, Question, draws};
use super::resolve::shapes;
use super::validate::{Step, Validated};
use crate::measure::plan::{Next, Order, PairPlan, Picks, Side};
use fleet_config::domain::{BlobRef, CaseTiming, Picoseconds, SampleSeries};
use ledger::entry::predicate::VolatileFacts;
use ledger::entry::{case_timing, encode_samples};

/// What timing gave.
#[derive(Debug, Default)]
pub(super) struct Timed {
    pub timings: Vec<CaseTiming>,
    /// The sample blobs that `timings` name.
    pub samples: Vec<(BlobRef, Vec<u8>)>,
}

/// Times every case whose expected outputs validation kept. `volatile` is filled as far as it got.
pub(super) fn time(
    step: Step<'_>,
    validated: &Validated,
    waited: &mut Picoseconds,
    volatile: &mut VolatileFacts,
) -> Result<Timed, Stop> {
    let context = step.context;
    let _held = context.hold(Hold::Alone, step.stage, waited)?;
    let step = Step { budget: RunBudget { since: context.clock.now(), ..step.budget }, ..step };
    let mut timed = Timed::default();
    volatile.before = context.backend.volatile(&context.device.id);
    for (place, expected) in &validated.expected {
        let case = &step.prepared.task.cases[*place];
        (context.progress)(step.stage, &case.name);
        let measured = measure(step, *place, volatile)?;
        let shapes = shapes(&step.prepared.task, case)?;
        let question = Question { prepared: step.prepared, case, shapes: &shapes, stage: step.stage };
        for (party, kept) in [(Party::Baseline, &measured.baseline), (Party::Candidate, &measured.candidate)]
        {
            for outputs in kept {
                if let Some(mismatch) = question.mismatch(expected, outputs)? {
                    return Err(question.wrong_result(party, mismatch).into());
                }
            }
        }
        record(step, &measured.series, &mut timed)?;
    }
    volatile.after = context.backend.volatile(&context.device.id);
    Ok(timed)
}

fn record(step: Step<'_>, series: &SampleSeries, timed: &mut Timed) -> Result<(), Stop> {
    let bytes = encode_samples(series)
        .map_err(|error| infrastructure(step.stage, "time/samples", format!("the samples: {error}")))?;
    let samples = BlobRef::of(&bytes);
    timed.timings.push(case_timing(series, samples));
    timed.samples.push((samples, bytes));
    Ok(())
}

/// Samples of one case and the outputs that were kept of either side.
struct Measured {
    series: SampleSeries,
    baseline: Vec<Outputs>,
    candidate: Vec<Outputs>,
}

fn measure(step: Step<'_>, place: usize, volatile: &mut VolatileFacts) -> Result<Measured, Stop> {
    let context = step.context;
    let policy = &step.prepared.policy;
    let case = &step.prepared.task.cases[place];
    let shapes = shapes(&step.prepared.task, case)?;
    let question = Question { prepared: step.prepared, case, shapes: &shapes, stage: step.stage };
    // The first draw is the one whose expected outputs validation kept.
    let draw = draws(&context.assignment.seeds, 1);
    let draw = *draw.first().ok_or_else(|| infrastructure(step.stage, "prepare/no-seed", "no seed"))?;
    let inputs = question.inputs(draw)?;
    let mut benches = Pair {
        baseline: Bench::open(context, step.run(Party::Baseline, place), &inputs, poison(0))?,
        candidate: Bench::open(context, step.run(Party::Candidate, place), &inputs, poison(0))?,
    };
    let picks = Picks::new(context.assignment.nonce, &case.name, policy.checked_launches);
    let mut plan = PairPlan::of(policy);
    let mut measured = Measured {
        series: SampleSeries {
            format: SampleSeries::FORMAT.to_owned(),
            case: case.name.clone(),
            baseline: Vec::new(),
            candidate: Vec::new(),
            warmups: policy.warmups,
        },
        baseline: Vec::new(),
        candidate: Vec::new(),
    };
    let start = context.clock.now();
    loop {
        match plan.next(elapsed(start, context.clock.now())) {
            Next::WarmUp(order) => {
                benches.launch(step, place, order)?;
            }
            Next::Pair { index, order } => {
                if index == 0 {
                    // Once a case, warm and between launches: reading sensors must not stand beside a timed one.
                    volatile.during.push(context.backend.volatile(&context.device.id));
                }
                let times = benches.launch(step, place, order)?;
                measured.series.baseline.push(times.baseline);
                measured.series.candidate.push(times.candidate);
                if let Some(slot) = picks.slot(index) {
                    keep(&mut measured.baseline, slot, benches.baseline.outputs()?);
                    keep(&mut measured.candidate, slot, benches.candidate.outputs()?);
                }
            }
            Next::Done => break,
        }
    }
    benches.baseline.check_contract()?;
    benches.candidate.check_contract()?;
    benches.baseline.finish();
    benches.candidate.finish();
    Ok(measured)
}

fn keep(kept: &mut Vec<Outputs>, slot: usize, outputs: Outputs) {
    match kept.get_mut(slot) {
        Some(place) => *place = outputs,
        None => kept.push(outputs),
    }
}

struct Times {
    baseline: Picoseconds,
    candidate: Picoseconds,
}

/// The two workers of a case.
struct Pair<'a> {
    baseline: Bench<'a>,
    candidate: Bench<'a>,
}

impl Pair<'_> {
    /// Launches each side once in `order`.
    fn launch(&mut self, step: Step<'_>, place: usize, order: Order) -> Result<Times, Stop> {
        let mut times = Times { baseline: Picoseconds(0), candidate: Picoseconds(0) };
        for side in order {
            let (party, bench, time) = match side {
                Side::Baseline => (Party::Baseline, &mut self.baseline, &mut times.baseline),
                Side::Candidate => (Party::Candidate, &mut self.candidate, &mut times.candidate),
            };
            step.check(party, place)?;
            bench.restore()?;
            *time = bench.launch()?;
        }
        Ok(times)
    }
}
