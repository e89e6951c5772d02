//! What must hold for two implementations that are timed against each other, for looks at some elements, and for a cancel.

use super::{Bed, LAUNCH, N, SUM, Trouble, compare, describe, expect, fill_inputs, vectors};
use crate::backend::pair::{Cache, PairParty, PairRequest, Setting, Side};
use crate::backend::{Artefact, Failure, Interrupt, Worker, WorkerOptions};
use crate::clock::monotonic;
use fleet_config::domain::{Milliseconds, Status};
use std::time::Duration;

/// From the cancel to the end of the launch.
const CANCEL: Duration = Duration::from_secs(2);
/// When the launch is cancelled.
const CANCEL_AFTER: Duration = Duration::from_millis(300);

impl Bed<'_> {
    /// What a worker of this bed is opened with.
    pub(super) fn options(&self, folder: &str) -> Result<WorkerOptions, Failure> {
        Ok(WorkerOptions {
            folder: self.subfolder(folder)?,
            confinement: self.confinement,
            launch_limit: LAUNCH,
            memory: 64 << 20,
            interrupt: Interrupt::never(),
        })
    }

    /// Both artefacts as a pair.
    pub(super) fn open_pair(
        &self,
        artefacts: [&Artefact; 2],
        setting: Setting,
    ) -> Result<[Box<dyn Worker>; 2], Failure> {
        let [left, right] = [self.options("worker-baseline")?, self.options("worker-candidate")?];
        let request = PairRequest {
            baseline: PairParty { artefact: artefacts[0], options: &left },
            candidate: PairParty { artefact: artefacts[1], options: &right },
            setting,
        };
        self.backend.open_pair(&self.device.id, &request).map_err(|failed| failed.failure)
    }
}

/// In the order of a paired plan; the second launch of a side must not see the other's result between.
pub(super) fn sides_keep_apart(bed: &Bed<'_>) -> Result<(), Trouble> {
    let sum = bed.compile("pair-sum", SUM, &["sum"])?;
    let difference = SUM.replace("a[i] + b[i]", "a[i] - b[i]");
    let difference = bed.compile("pair-difference", &difference, &["sum"])?;
    for setting in [Setting::Apart, Setting::Together(Cache::Flushed), Setting::Together(Cache::AsLeft)] {
        let [mut baseline, mut candidate] = bed.open_pair([&sum, &difference], setting)?;
        for worker in [&mut baseline, &mut candidate] {
            worker.prepare(&vectors(N))?;
        }
        for side in [Side::Baseline, Side::Candidate, Side::Candidate, Side::Baseline] {
            let (worker, right): (_, fn(f32, f32) -> f32) = match side {
                Side::Baseline => (&mut baseline, |a, b| a + b),
                Side::Candidate => (&mut candidate, |a, b| a - b),
            };
            let (a, b) = fill_inputs(worker.as_mut())?;
            worker.fill(2, 0xff)?;
            if worker.launch()?.0 == 0 {
                return Err(format!("a launch of the {side:?} took no time").into());
            }
            compare(&worker.read(2)?, &a, &b, right)?;
        }
        candidate.check_fences()?;
        baseline.check_fences()?;
        baseline.finish();
        candidate.finish();
    }
    Ok(())
}

pub(super) fn fault_is_of_its_side(bed: &Bed<'_>) -> Result<(), Trouble> {
    let sum = bed.compile("pair-sum", SUM, &["sum"])?;
    let wild =
        SUM.replace("c[i] = a[i] + b[i];", "*(volatile float*)(unsigned long long)(16 + 4 * n) = 1.0f;");
    let wild = bed.compile("pair-fault", &wild, &["sum"])?;
    let [mut baseline, mut candidate] = bed.open_pair([&sum, &wild], Setting::Together(Cache::Flushed))?;
    for worker in [&mut baseline, &mut candidate] {
        worker.prepare(&vectors(N))?;
        fill_inputs(worker.as_mut())?;
        worker.fill(2, 0xff)?;
    }
    baseline.launch()?;
    let outcome = candidate.launch().map(|_| ());
    drop((baseline, candidate));
    expect(outcome, &[Status::RuntimeError, Status::ContractViolation], "a wild write beside another")?;
    bed.sum(&sum)
}

pub(super) fn samples_are_right(bed: &Bed<'_>) -> Result<(), Trouble> {
    let artefact = bed.compile("pair-sum", SUM, &["sum"])?;
    let mut worker = bed.open(&artefact)?;
    worker.prepare(&vectors(N))?;
    fill_inputs(worker.as_mut())?;
    worker.fill(2, 0xff)?;
    worker.launch()?;
    let whole = worker.read(2)?;
    // Out of order, twice, neighbours, the ends.
    let elements = [900, 0, 1, u64::from(N) - 1, 500, 900, 2];
    let expected: Vec<u8> = elements
        .iter()
        .filter_map(|at| whole.chunks_exact(4).nth(usize::try_from(*at).ok()?))
        .flatten()
        .copied()
        .collect();
    let got = worker.sample(2, &elements, 4)?;
    worker.finish();
    if got == expected { Ok(()) } else { Err(format!("{got:02x?} instead of {expected:02x?}").into()) }
}

pub(super) fn cancelled_launch_ends(bed: &Bed<'_>) -> Result<(), Trouble> {
    let source = SUM.replace("if (i < n) c[i]", "for (;;) atomicAdd(&c[0], 1.0f); if (i < n) c[i]");
    let artefact = bed.compile("cancelled", &source, &["sum"])?;
    let mut options = bed.options("worker")?;
    options.launch_limit = Milliseconds(60_000);
    // Asked from the start of the launch on, which is not before the worker was opened.
    let started = std::sync::Arc::new(std::sync::OnceLock::new());
    let asked = std::sync::Arc::clone(&started);
    options.interrupt = Interrupt::when(move || {
        asked.get().is_some_and(|from: &Duration| monotonic().saturating_sub(*from) > CANCEL_AFTER)
    });
    let mut worker = bed.backend.open(&bed.device.id, &artefact, &options)?;
    worker.prepare(&vectors(N))?;
    fill_inputs(worker.as_mut())?;
    let from = *started.get_or_init(monotonic);
    let outcome = worker.launch().map(|_| ());
    worker.finish();
    let took = monotonic().saturating_sub(from);
    let Err(failure) = outcome else { return Err("an endless kernel ended".to_owned().into()) };
    if failure.outcome.status != Status::Infrastructure {
        return Err(format!("a cancelled launch is {}", describe(&failure)).into());
    }
    if took > CANCEL_AFTER + CANCEL {
        return Err(format!("a launch cancelled after {CANCEL_AFTER:?} lived {took:?}").into());
    }
    bed.sum(&bed.compile("after-cancel", SUM, &["sum"])?)
}
