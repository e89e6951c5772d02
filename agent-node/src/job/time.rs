//! Step four: how long does it take? Alone on the machine, baseline and candidate in turn.
//!
//! ```text
//! per case   alone:   baseline worker, candidate worker ── pairs ── some elements of every launch, all of a few ── killed
//!                     a baseline that was slower than before the candidate's first launch: timed beside itself
//! then       shared:  reference worker ── the few, and what looked wrong ── killed ── compared
//!                     a baseline that was wrong in the candidate's context: asked alone
//! ```
//! Baseline and candidate live in a process each on a CPU and share one on a GPU (`pair.rs`). Each pair has inputs of its own that no earlier launch had, so that
//! nothing can be remembered; both sides of a pair get the same. Before a launch, outside of what is timed, inputs are
//! written and outputs poisoned; after it some elements are copied, and without the candidate's knowledge all of some
//! launches. They are compared when both processes are gone.

use super::ahead::ahead;
use super::bench::Bench;
use super::blame::{Incident, Ruling, against_candidate, is_slowed, rule, slowed};
use super::context::{Hold, elapsed};
use super::fault::{Party, Stop, infrastructure};
use super::oracle::{Inputs, Outputs, Question, draws};
use super::pair::{Benches, Halt, alone};
use super::resolve::shapes;
use super::stages::{Looked, Stages};
use super::validate::{Step, evaluate};
use crate::backend::Failure;
use crate::backend::pair::Company;
use crate::measure::disturbance;
use crate::measure::plan::{Next, PairPlan, Picks, Side};
use crate::probe::nvidia::Watch;
use fleet_config::domain::{
    BlobRef, CaseKind, CaseTiming, DeviceKind, Picoseconds, SampleSeries, Seed, ValidationStage,
};
use ledger::entry::predicate::VolatileFacts;
use ledger::entry::{case_timing, encode_samples};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pairs whose samples disagreed and that are put before the reference: one that is wrong is enough for a verdict.
const SUSPECTS_MAX: usize = 4;

/// Launches of the baseline beside itself, where its times are in doubt.
const CONTROL_LAUNCHES: u32 = 20;

/// Threads that draw the inputs of the pairs to come: a pair of inputs takes some milliseconds of one core.
const DRAWERS: usize = 4;

/// What timing gave.
#[derive(Debug, Default)]
pub(super) struct Timed {
    pub timings: Vec<CaseTiming>,
    /// The sample blobs that `timings` name.
    pub samples: Vec<(BlobRef, Vec<u8>)>,
}

/// Times every performance case. `volatile` is filled as far as it got. The machine is ours alone for one case at a
/// time: other nodes of it get their turn in between.
pub(super) fn time(
    step: Step<'_>,
    waited: &mut Picoseconds,
    volatile: &mut VolatileFacts,
    stages: &mut Stages,
) -> Result<Timed, Stop> {
    let context = step.context;
    let mut timed = Timed::default();
    let mut sheets = Vec::new();
    for (place, case) in step.prepared.task.cases.iter().enumerate() {
        if case.kind != CaseKind::Performance {
            continue;
        }
        stages.leave(context.clock.now());
        let held = step.hold(Hold::Alone, waited)?;
        stages.enter(ValidationStage::TimedLaunches, context.clock.now());
        if timed.timings.is_empty() {
            volatile.before = context.backend.volatile(&context.device.id);
        }
        (context.progress)(step.stage, &case.name);
        let shapes = shapes(&step.prepared.task, case)?;
        let watch = context.backend.watch(&context.device.id);
        let measured = measure(step, place, step.question(place, &shapes), volatile);
        volatile.during.extend(watch.map(Watch::end).unwrap_or_default());
        let measured = measured?;
        volatile.after = context.backend.volatile(&context.device.id);
        match context.device.kind {
            DeviceKind::Gpu => volatile.after.extend(disturbance::summary(volatile)),
            // Every other thread of the machine is a neighbour of a CPU; its own facts tell how many there were.
            DeviceKind::Cpu | DeviceKind::Compile => {}
        }
        drop(held);
        record(step, &measured.series, &mut timed)?;
        sheets.push(Sheet { place, shapes, measured });
    }
    if !sheets.is_empty() {
        stages.leave(context.clock.now());
        let _held = step.hold(Hold::Shared, waited)?;
        stages.enter(ValidationStage::TimedLaunches, context.clock.now());
        check(step, &sheets)?;
        tell(&sheets, stages);
    }
    stages.leave(context.clock.now());
    Ok(timed)
}

/// What of the timed launches was looked at, and how often guards and inputs were.
fn tell(sheets: &[Sheet], stages: &mut Stages) {
    let launches: usize = sheets
        .iter()
        .map(|sheet| sheet.measured.series.candidate.len() + warmups(&sheet.measured.series))
        .sum();
    let whole: usize = sheets.iter().map(|sheet| sheet.measured.kept.len()).sum();
    let sampled: usize = sheets.iter().map(|sheet| sheet.measured.spots.len()).sum();
    let looked = Looked { cases: sheets.len(), draws: sampled, launches };
    stages.looked(ValidationStage::TimedLaunches, looked);
    let detail = format!(
        "{whole} launches compared in whole, {sampled} in drawn elements; each with inputs of its own; timing is in its cost"
    );
    stages.say(ValidationStage::TimedLaunches, detail);
    let looked = Looked { cases: sheets.len(), draws: sheets.len(), launches: sheets.len() };
    stages.looked(ValidationStage::PostRun, looked);
}

fn warmups(series: &SampleSeries) -> usize {
    usize::try_from(series.warmups).unwrap_or(0)
}

fn record(step: Step<'_>, series: &SampleSeries, timed: &mut Timed) -> Result<(), Stop> {
    let bytes = encode_samples(series)
        .map_err(|error| infrastructure(step.stage, "time/samples", format!("the samples: {error}")))?;
    let samples = BlobRef::of(&bytes);
    timed.timings.push(case_timing(series, samples));
    timed.samples.push((samples, bytes));
    Ok(())
}

/// A case that was timed.
struct Sheet {
    place: usize,
    shapes: BTreeMap<String, Vec<u64>>,
    measured: Measured,
}

/// What both sides gave in one pair.
struct Pair<T> {
    number: u32,
    baseline: T,
    candidate: T,
}

impl<T> Pair<T> {
    /// The baseline first: a task whose own baseline is wrong judges nobody.
    fn sides(&self) -> [(Party, &T); 2] {
        [(Party::Baseline, &self.baseline), (Party::Candidate, &self.candidate)]
    }
}

/// Samples of one case and the outputs that were kept of either side.
struct Measured {
    series: SampleSeries,
    base: Inputs,
    seed: Seed,
    /// Whether the sides could reach each other.
    company: Company,
    /// Where they could: the baseline before the candidate's first launch.
    alone: Vec<Picoseconds>,
    /// Some elements of every pair.
    spots: Vec<Pair<Outputs>>,
    /// All of a few.
    kept: Vec<Pair<Outputs>>,
}

fn measure(
    step: Step<'_>,
    place: usize,
    question: Question<'_>,
    volatile: &mut VolatileFacts,
) -> Result<Measured, Stop> {
    let draw = draws(&step.context.assignment.seeds, 1);
    let draw = *draw.first().ok_or_else(|| infrastructure(step.stage, "prepare/no-seed", "no seed"))?;
    let base = question.inputs(draw)?;
    let series = SampleSeries {
        format: SampleSeries::FORMAT.to_owned(),
        case: question.case.name.clone(),
        baseline: Vec::new(),
        candidate: Vec::new(),
        warmups: step.prepared.policy.warmups,
    };
    let mut inputs = Arc::new(base.clone());
    let mut benches = Benches::open(step, place, Party::Candidate, &inputs)?;
    let company = benches.company();
    let mut measured = Measured {
        series,
        base,
        seed: draw.seed,
        company,
        alone: Vec::new(),
        spots: Vec::new(),
        kept: Vec::new(),
    };
    let taken = pairs(step, question, volatile, &mut benches, &mut measured, &mut inputs);
    match taken.and_then(|()| benches.check_contract()) {
        Ok(()) => benches.finish(),
        Err(halt) => return Err(benches.judged(halt, &inputs)),
    }
    if is_slowed(&measured.series.baseline, &measured.alone) {
        let again = control(step, place, &inputs)?;
        if is_slowed(&measured.series.baseline, &again) {
            return Err(slowed(&measured.series.baseline, &again, step.stage, &question.case.name).into());
        }
    }
    Ok(measured)
}

/// Warm-ups and pairs, as the plan says. `inputs` are those of the launch in hand.
fn pairs(
    step: Step<'_>,
    question: Question<'_>,
    volatile: &mut VolatileFacts,
    benches: &mut Benches<'_>,
    measured: &mut Measured,
    inputs: &mut Arc<Inputs>,
) -> Result<(), Halt> {
    let nonce = step.context.assignment.nonce;
    let threads = match benches.company() {
        Company::Alone => 0,
        Company::Shared => DRAWERS,
    };
    let (base, seed) = (measured.base.clone(), measured.seed);
    let draw = |index: u32| question.fresh(&base, nonce, index, seed);
    ahead(threads, step.prepared.policy.pairs_max, draw, |fresh| {
        pairs_of(step, question, volatile, benches, measured, inputs, fresh)
    })
}

/// The same; `fresh` gives the inputs of a pair.
fn pairs_of(
    step: Step<'_>,
    question: Question<'_>,
    volatile: &mut VolatileFacts,
    benches: &mut Benches<'_>,
    measured: &mut Measured,
    inputs: &mut Arc<Inputs>,
    fresh: &mut dyn FnMut(u32) -> Result<Inputs, Failure>,
) -> Result<(), Halt> {
    let context = step.context;
    let policy = &step.prepared.policy;
    let nonce = context.assignment.nonce;
    let picks = Picks::new(nonce, &question.case.name, policy.checked_launches);
    let mut plan = PairPlan::of(policy);
    let start = context.clock.now();
    match benches.company() {
        Company::Alone => {}
        Company::Shared => measured.alone = benches.baseline_alone(inputs, policy.warmups)?,
    }
    loop {
        match plan.next(elapsed(start, context.clock.now())) {
            Next::WarmUp(order) => {
                benches.launch(order, inputs, |_| Ok(()))?;
            }
            Next::Pair { index, order, seats } => {
                benches.sit(seats)?;
                if index == 0 {
                    // Once a case, warm and between launches: reading sensors must not stand beside a timed one.
                    let mut facts = context.backend.volatile(&context.device.id);
                    facts.extend(benches.facts());
                    volatile.during.push(facts);
                }
                *inputs = Arc::new(fresh(index).map_err(Stop::from)?);
                let spots = question.spots(nonce, index);
                let slot = picks.slot(index);
                let look = |bench: &mut Bench<'_>| {
                    let whole = slot.map(|_| bench.outputs()).transpose()?;
                    Ok((bench.sample(&spots)?, whole))
                };
                let [baseline, candidate] = benches.launch(order, inputs, look)?;
                measured.series.baseline.push(baseline.0);
                measured.series.candidate.push(candidate.0);
                let ((left, left_whole), (right, right_whole)) = (baseline.1, candidate.1);
                measured.spots.push(Pair { number: index, baseline: left, candidate: right });
                if let (Some(slot), Some(baseline), Some(candidate)) = (slot, left_whole, right_whole) {
                    keep(&mut measured.kept, slot, Pair { number: index, baseline, candidate });
                }
            }
            Next::Done => return Ok(()),
        }
    }
}

/// Times of the baseline beside itself, in a new process that the candidate was never in.
fn control(step: Step<'_>, place: usize, inputs: &Arc<Inputs>) -> Result<Vec<Picoseconds>, Stop> {
    let mut benches = Benches::open(step, place, Party::Baseline, inputs)?;
    let warmups = step.prepared.policy.warmups;
    let timed = benches
        .baseline_alone(inputs, warmups)
        .and_then(|_| benches.baseline_alone(inputs, CONTROL_LAUNCHES));
    match timed {
        Ok(times) => {
            benches.finish();
            Ok(times)
        }
        Err(halt) => Err(benches.judged(halt, inputs)),
    }
}

fn keep(kept: &mut Vec<Pair<Outputs>>, slot: usize, pair: Pair<Outputs>) {
    match kept.get_mut(slot) {
        Some(place) => *place = pair,
        None => kept.push(pair),
    }
}

/// Puts the kept launches of every case, and those whose samples disagree, before the reference: one process for all.
fn check(step: Step<'_>, sheets: &[Sheet]) -> Result<(), Stop> {
    let nonce = step.context.assignment.nonce;
    let (mut work, mut suspected) = (Vec::new(), Vec::new());
    for Sheet { place, shapes, measured } in sheets {
        let question = step.question(*place, shapes);
        let mut suspects = Vec::new();
        for pair in &measured.spots {
            if suspects.len() < SUSPECTS_MAX && question.disagree(&pair.baseline, &pair.candidate)? {
                suspects.push(pair);
            }
        }
        let pairs = measured.kept.iter().chain(suspects.iter().copied());
        let fresh = |pair: &Pair<Outputs>| question.fresh(&measured.base, nonce, pair.number, measured.seed);
        work.push((*place, pairs.map(|pair| fresh(pair).map(Arc::new)).collect::<Result<Vec<_>, _>>()?));
        suspected.push(suspects);
    }
    let expected = evaluate(step, Party::Reference, &work)?;
    for ((sheet, suspects), expected) in sheets.iter().zip(suspected).zip(expected) {
        let question = step.question(sheet.place, &sheet.shapes);
        let (whole, rest) = expected.split_at(sheet.measured.kept.len().min(expected.len()));
        for (pair, expected) in sheet.measured.kept.iter().zip(whole) {
            for (party, outputs) in pair.sides() {
                if let Some(mismatch) = question.mismatch(expected, outputs)? {
                    let failure = question.wrong_result(party, mismatch);
                    return Err(guilty(step, sheet, party, pair.number, expected, failure));
                }
            }
        }
        for (pair, all) in suspects.into_iter().zip(rest) {
            let spots = question.spots(nonce, pair.number);
            let expected = question.pick(all, &spots);
            for (party, outputs) in pair.sides() {
                if let Some(mismatch) =
                    question.spot_mismatch(&expected, outputs, &spots, "sampled elements only")?
                {
                    let failure = question.wrong_result(party, mismatch);
                    return Err(guilty(step, sheet, party, pair.number, all, failure));
                }
            }
        }
    }
    Ok(())
}

/// Launches of the baseline before the first pair: alone, then in the warm-ups.
fn measured_before(series: &SampleSeries) -> u64 {
    2 * u64::from(series.warmups)
}

/// What a wrong output of `party` in pair `number` means: the baseline's may be the candidate's doing where it could
/// reach the baseline's buffers. Then the baseline is asked alone.
fn guilty(
    step: Step<'_>,
    sheet: &Sheet,
    party: Party,
    number: u32,
    expected: &Outputs,
    failure: Failure,
) -> Stop {
    let side = match party {
        Party::Candidate => Side::Candidate,
        Party::Baseline | Party::Reference => Side::Baseline,
    };
    let Measured { base, seed, company, series, .. } = &sheet.measured;
    let candidate_launches = series.candidate.len() as u64;
    let baseline_launches = candidate_launches + measured_before(series);
    let incident = Incident { side, status: failure.outcome.status, company: *company, candidate_launches };
    match rule(incident) {
        Ruling::AsSaid => failure.into(),
        Ruling::TryAlone => {
            let question = step.question(sheet.place, &sheet.shapes);
            let nonce = step.context.assignment.nonce;
            let right = || -> Result<bool, Stop> {
                let inputs = Arc::new(question.fresh(base, nonce, number, *seed)?);
                let outputs =
                    evaluate(step, Party::Baseline, &alone(step, sheet.place, &inputs, baseline_launches))?;
                for outputs in outputs.iter().flatten() {
                    if question.mismatch(expected, outputs)?.is_some() {
                        return Ok(false);
                    }
                }
                Ok(true)
            };
            match right() {
                Ok(true) => against_candidate(failure, step.stage).into(),
                Ok(false) => failure.into(),
                Err(stop) => stop,
            }
        }
    }
}
