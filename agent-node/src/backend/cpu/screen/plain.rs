//! Screens that need no other build: the ordinary artefact under another arrangement, on one thread, so that two runs
//! of one arrangement are the same to the bit.

use super::{Arrangement, Order, found, is_output, is_unwritten};
use crate::backend::cpu::layout::Placement;
use crate::backend::cpu::supervisor::CpuWorker;
use crate::backend::screen::{ScreenRequest, ScreenRun, Screening};
use crate::backend::{Failure, Worker, WorkerOptions};
use fleet_config::domain::{Blame, FaultKind, Milliseconds, Screen, Status};

/// A case is small: what takes longer waits for something that does not come in this order.
const LAUNCH_MAX: Milliseconds = Milliseconds(5_000);
/// What the first run finds where nothing was written. Not 0xff: sums with such a float give it again.
const ZERO: u8 = 0;
/// What the second run of a pair finds instead.
const OTHER_POISON: u8 = 0x7b;
/// As aligned as the widest vector type: every buffer of a GPU is.
const VECTOR_ALIGNMENT: usize = 16;
/// Any number does; a fixed one makes a finding repeatable.
const SEED: u32 = 20_261_130;

/// One run's arrangement and its name.
struct Setup {
    label: &'static str,
    arrangement: Arrangement,
    placement: Placement,
    /// What outputs and scratch memory hold before the launch, where it is not what the caller says.
    unwritten: Option<u8>,
}

fn setups(screen: Screen) -> Vec<Setup> {
    let usual = Arrangement::default();
    let setup =
        |label, arrangement| Setup { label, arrangement, placement: Placement::AtStart, unwritten: None };
    let orders = |order| Arrangement { order, seed: SEED, ..usual };
    match screen {
        Screen::Fences => vec![
            Setup { placement: Placement::AtEnd(VECTOR_ALIGNMENT), ..setup("buffers end at a guard", usual) },
            setup("buffers begin at a guard", usual),
        ],
        Screen::Orders => vec![
            setup("threads begin forwards", usual),
            setup("threads begin backwards", orders(Order::Backwards)),
            setup("threads begin in a drawn order", orders(Order::Drawn)),
        ],
        Screen::DivergentBarriers => vec![
            setup("threads begin backwards", orders(Order::Backwards)),
            setup("threads begin in a drawn order", orders(Order::Drawn)),
        ],
        Screen::UninitialisedShared => vec![
            setup("shared memory begins as 0xff", usual),
            setup("shared memory begins as 0x7b", Arrangement { shared_poison: OTHER_POISON, ..usual }),
        ],
        Screen::ShuffleMasks => vec![
            setup("absent lanes answer 0xff", usual),
            setup("absent lanes answer 0x7b", Arrangement { lane_poison: OTHER_POISON, ..usual }),
        ],
        Screen::UninitialisedMemory => vec![
            Setup { unwritten: Some(ZERO), ..setup("outputs and scratch memory begin as 0x00", usual) },
            Setup {
                unwritten: Some(OTHER_POISON),
                ..setup("outputs and scratch memory begin as 0x7b", usual)
            },
        ],
        // Built with sanitizers; not run here.
        Screen::Address | Screen::RacesInBlock | Screen::RacesBetweenBlocks => Vec::new(),
    }
}

pub(super) fn run(request: &ScreenRequest<'_>) -> Result<Screening, Failure> {
    let launch_limit = request.worker.launch_limit.min(LAUNCH_MAX);
    let options = WorkerOptions { launch_limit, ..request.worker.clone() };
    let mut worker = CpuWorker::open(request.artefact, 1, &options)?;
    let mut runs = Vec::new();
    for setup in setups(request.screen) {
        match once(&mut worker, request, &setup) {
            Ok(buffers) => runs.push(ScreenRun { label: setup.label.to_owned(), buffers }),
            Err(failure) => return ended(failure, setup.label),
        }
    }
    let labels: Vec<&str> = runs.iter().map(|run| run.label.as_str()).collect();
    let detail = labels.join("; ");
    match request.screen {
        Screen::Orders => {
            let same = if differing(request, &runs).is_none() { "equal" } else { "different" };
            let detail = format!("{detail}: outputs {same} to the bit");
            Ok(Screening { runs, ..Screening::no_fault_found(detail) })
        }
        Screen::UninitialisedShared | Screen::ShuffleMasks | Screen::UninitialisedMemory => {
            Ok(match differing(request, &runs) {
                None => Screening::no_fault_found(detail),
                Some(place) => Screening::fault(depends(request, &place), detail),
            })
        }
        Screen::Fences
        | Screen::DivergentBarriers
        | Screen::Address
        | Screen::RacesInBlock
        | Screen::RacesBetweenBlocks => Ok(Screening::no_fault_found(detail)),
    }
}

fn once(worker: &mut CpuWorker, request: &ScreenRequest<'_>, setup: &Setup) -> Result<Vec<Vec<u8>>, Failure> {
    worker.arrange(setup.arrangement);
    worker.prepare_at(request.evaluation, setup.placement)?;
    for (index, (buffer, bytes)) in request.evaluation.buffers.iter().zip(request.contents).enumerate() {
        match setup.unwritten.filter(|_| is_unwritten(buffer.use_)) {
            Some(byte) => worker.fill(index, byte)?,
            None => worker.write(index, bytes)?,
        }
    }
    worker.launch()?;
    worker.check_fences()?;
    (0..request.evaluation.buffers.len()).map(|index| worker.read(index)).collect()
}

/// A launch that did not end well.
fn ended(mut failure: Failure, label: &str) -> Result<Screening, Failure> {
    match (failure.outcome.blame, failure.outcome.status) {
        // Blocks that wait for blocks before them are no fault, and cannot be begun in another order.
        (_, Status::Timeout) => Ok(Screening::not_run(
            format!("a launch did not finish ({label})"),
            "nothing, if blocks wait for blocks before them on purpose",
        )),
        // What is nobody's yet is the side's that ran.
        (Blame::Candidate | Blame::Nobody, _) => {
            failure.outcome.blame = Blame::Candidate;
            Ok(Screening::fault(failure, label))
        }
        (Blame::Task | Blame::Device | Blame::Fleet, _) => Err(failure),
    }
}

/// Where the outputs of two runs first differ: name of the buffer, element and byte.
struct Place {
    buffer: String,
    element: u64,
    byte: u64,
}

fn differing(request: &ScreenRequest<'_>, runs: &[ScreenRun]) -> Option<Place> {
    let first = runs.first()?;
    for (index, buffer) in request.evaluation.buffers.iter().enumerate() {
        if !is_output(buffer.use_) {
            continue;
        }
        for run in runs {
            let (left, right) = (first.buffers.get(index)?, run.buffers.get(index)?);
            // What nobody wrote is no answer that depends on it; where an answer is due, validation has seen that.
            let untouched = |left: u8, right: u8| {
                request.screen == Screen::UninitialisedMemory && (left, right) == (ZERO, OTHER_POISON)
            };
            let differs = |(left, right): (&u8, &u8)| left != right && !untouched(*left, *right);
            if let Some(byte) = left.iter().zip(right).position(differs) {
                let byte = byte as u64;
                let element = byte / buffer.element.bytes().unwrap_or(1).max(1);
                return Some(Place { buffer: buffer.name.clone(), element, byte });
            }
        }
    }
    None
}

fn depends(request: &ScreenRequest<'_>, place: &Place) -> Failure {
    let (fault, what, hint) = match request.screen {
        Screen::ShuffleMasks => (
            FaultKind::BarrierDivergence,
            "the answer of a warp operation for a lane that takes no part in it",
            "read from lanes that the mask names and that reach the operation",
        ),
        Screen::UninitialisedMemory => (
            FaultKind::UninitialisedMemory,
            "what outputs or scratch memory held before anything was written to them",
            "write every element before it is read or left as an answer",
        ),
        Screen::Fences
        | Screen::Orders
        | Screen::UninitialisedShared
        | Screen::DivergentBarriers
        | Screen::Address
        | Screen::RacesInBlock
        | Screen::RacesBetweenBlocks => (
            FaultKind::UninitialisedMemory,
            "what shared memory held before anything was written to it",
            "write shared memory before it is read, with a barrier between",
        ),
    };
    let Place { buffer, element, byte } = place;
    let message = format!("`{buffer}` depends on {what}: first at element {element} (byte {byte})");
    found(request.screen, fault, message, hint, &request.evaluation.case)
}
