//! The supervisor's side of an implementation in a CUDA worker: what it asks for, and what the answers mean.
//!
//! ```text
//! alone    handle ─────────────┐
//!                              ├─► process: one context ── seat ── module, buffers, kernels
//! pair     handle, handle ─────┘                       └─ seat ── module, buffers, kernels
//! ```
//! The handles of a pair share a process behind a lock; each order says which seat it is for. One failure ends the
//! process for both.

use super::compile::Description;
use super::cubin::Kernel;
use super::failure::{self, infrastructure};
use super::gather::Gather;
use super::limits::{self, DeviceLimits};
use super::process::{About, Process, Source};
use super::protocol::{Answer, ArgumentOrder, CacheOrder, Edges, Order, Seat, StepOrder};
use super::standby::OPEN_LIMIT;
use crate::backend::pair::Company;
use crate::backend::{Argument, Evaluation, Failure, Interrupt, ResolvedStep, Worker, WorkerOptions};
use crate::clock;
use fleet_config::domain::{Facts, MemoryPlace, Milliseconds, Picoseconds, Stage};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Allocations, fills and guard zones.
pub(super) const WORK_LIMIT: Duration = Duration::from_secs(60);
/// The slowest copy that is waited for, in bytes a second, beside [`WORK_LIMIT`].
const COPY_RATE: u64 = 100_000_000;

/// An implementation that a worker is to hold.
pub(super) struct Opening<'a> {
    pub description: Description,
    /// Checked to be a whole cubin for this device.
    pub cubin: Vec<u8>,
    pub options: &'a WorkerOptions,
}

/// Where it is held.
#[derive(Clone, Copy)]
pub(super) struct Home<'a> {
    pub limits: &'a DeviceLimits,
    pub source: &'a Source,
}

/// A handle to one implementation.
pub(super) struct CudaWorker {
    process: Arc<Mutex<Process>>,
    seat: Seat,
    company: Company,
    kernels: Vec<Kernel>,
    limits: DeviceLimits,
    launch_limit: Milliseconds,
    memory: u64,
    prepared: Option<Evaluation>,
    /// To load it once more.
    cubin: Vec<u8>,
}

impl CudaWorker {
    /// Starts a process, confined, that takes the device and loads one cubin. Its launches are not timed against
    /// another's, so that the L2 may be as it is.
    pub(super) fn alone(home: Home<'_>, opening: Opening<'_>) -> Result<Self, Failure> {
        let process = Process::start(home.source, opening.options, CacheOrder::AsLeft)?;
        let process = Arc::new(Mutex::new(process));
        Self::seated(&process, Seat::First, Company::Alone, home, opening)
    }

    /// A handle to a seat of `process`, with its cubin loaded.
    pub(super) fn seated(
        process: &Arc<Mutex<Process>>,
        seat: Seat,
        company: Company,
        home: Home<'_>,
        opening: Opening<'_>,
    ) -> Result<Self, Failure> {
        let worker = Self {
            process: Arc::clone(process),
            seat,
            company,
            kernels: opening.description.kernels,
            limits: home.limits.clone(),
            launch_limit: opening.options.launch_limit,
            memory: opening.options.memory,
            prepared: None,
            cubin: opening.cubin,
        };
        worker.load()?;
        Ok(worker)
    }

    /// A module of its own in the process, in place of an earlier one.
    fn load(&self) -> Result<(), Failure> {
        let symbols = self.kernels.iter().map(|kernel| kernel.symbol.clone()).collect();
        self.done(&Order::Load { seat: self.seat, symbols }, &self.cubin, OPEN_LIMIT)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        // A panic while an order was under way leaves a process that answers the wrong question, which is seen.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn about(&self) -> About<'_> {
        let case = self.prepared.as_ref().map(|prepared| prepared.case.as_str());
        About { case, launch_limit: self.launch_limit }
    }

    fn ask(&self, order: &Order, raw_max: u64, limit: Duration) -> Result<(Answer, Vec<u8>), Failure> {
        self.process().ask(self.about(), order, &[], raw_max, limit)
    }

    fn done(&self, order: &Order, raw: &[u8], limit: Duration) -> Result<(), Failure> {
        self.process().done(self.about(), order, raw, limit)
    }

    /// An order that is answered by exactly `size` raw bytes.
    fn fetch(&self, order: &Order, size: u64) -> Result<Vec<u8>, Failure> {
        match self.ask(order, size, copy_limit(size))? {
            (Answer::Done, bytes) if bytes.len() as u64 == size => Ok(bytes),
            (answer, _) => Err(self.process().unexpected(&answer)),
        }
    }

    fn evaluation(&self) -> Result<&Evaluation, Failure> {
        self.prepared
            .as_ref()
            .ok_or_else(|| infrastructure(Stage::Validate, "use buffers", &"nothing was prepared"))
    }

    fn size(&self, index: usize) -> Result<u64, Failure> {
        let found = self.evaluation()?.buffers.get(index);
        let missing =
            || infrastructure(Stage::Validate, "find a buffer", &format!("there is no buffer {index}"));
        found.map(|buffer| buffer.bytes).ok_or_else(missing)
    }
}

/// Opens both sides in one process and context. The side that an error is about stands beside it; what concerns the
/// process itself is told of the first.
pub(super) fn open_pair(
    home: Home<'_>,
    cache: CacheOrder,
    sides: [Opening<'_>; 2],
) -> Result<[CudaWorker; 2], (Seat, Failure)> {
    let [first, second] = sides;
    let process =
        Process::start(home.source, first.options, cache).map_err(|failure| (Seat::First, failure))?;
    let process = Arc::new(Mutex::new(process));
    let sit = |seat, opening| {
        CudaWorker::seated(&process, seat, Company::Shared, home, opening).map_err(|failure| (seat, failure))
    };
    Ok([sit(Seat::First, first)?, sit(Seat::Second, second)?])
}

impl Worker for CudaWorker {
    fn prepare(&mut self, evaluation: &Evaluation) -> Result<(), Failure> {
        limits::check(&self.limits, &self.kernels, evaluation, self.memory)?;
        self.prepared = Some(evaluation.clone());
        let seed =
            getrandom::u64().map_err(|error| infrastructure(Stage::Prepare, "draw canaries", &error))?;
        let buffers: Vec<u64> = evaluation.buffers.iter().map(|buffer| buffer.bytes).collect();
        self.process().make_room(buffers.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes)));
        let steps = evaluation.steps.iter().map(step).collect();
        let (seat, edges) = (self.seat, Edges::Fenced);
        self.done(&Order::Prepare { seat, edges, buffers, steps, seed }, &[], WORK_LIMIT)
    }

    fn write(&mut self, index: usize, bytes: &[u8]) -> Result<(), Failure> {
        let size = self.size(index)?;
        if bytes.len() as u64 != size {
            let sizes = format!("{} bytes for a buffer of {size}", bytes.len());
            return Err(infrastructure(Stage::Validate, "write a buffer", &sizes));
        }
        self.done(&Order::Write { seat: self.seat, buffer: index }, bytes, copy_limit(size))
    }

    fn fill(&mut self, index: usize, byte: u8) -> Result<(), Failure> {
        self.size(index)?;
        self.done(&Order::Fill { seat: self.seat, buffer: index, byte }, &[], WORK_LIMIT)
    }

    fn launch(&mut self) -> Result<Picoseconds, Failure> {
        self.evaluation()?;
        let started = clock::monotonic();
        let order = Order::Launch { seat: self.seat };
        let (answer, _) = self.ask(&order, 0, self.launch_limit.duration())?;
        let bracket = Picoseconds::from_duration(clock::monotonic().saturating_sub(started));
        match answer {
            Answer::Launched { picoseconds } if picoseconds <= bracket.0 => Ok(Picoseconds(picoseconds)),
            Answer::Launched { picoseconds } => Err(failure::clocks_disagree(format!(
                "the device's events say {picoseconds} ps, and the node waited {bracket}"
            ))),
            answer => Err(self.process().unexpected(&answer)),
        }
    }

    fn attend(&mut self, interrupt: &Interrupt) {
        self.process().attend(interrupt);
    }

    fn renew(&mut self) -> Result<(), Failure> {
        self.prepared = None;
        self.load()
    }

    fn read(&mut self, index: usize) -> Result<Vec<u8>, Failure> {
        let size = self.size(index)?;
        self.fetch(&Order::Read { seat: self.seat, buffer: index }, size)
    }

    fn sample(&mut self, index: usize, elements: &[u64], width: u64) -> Result<Vec<u8>, Failure> {
        let size = self.size(index)?;
        let gather = Gather::plan(elements, width, size)
            .ok_or_else(|| infrastructure(Stage::Validate, "sample a buffer", &"an element lies outside"))?;
        let bytes = if gather.is_worth_it() {
            let pieces = gather.pieces().to_vec();
            self.fetch(&Order::Gather { seat: self.seat, buffer: index, pieces }, gather.bytes())?
        } else {
            gather.cut(&self.fetch(&Order::Read { seat: self.seat, buffer: index }, size)?)
        };
        Ok(gather.pick(&bytes))
    }

    fn check_fences(&mut self) -> Result<(), Failure> {
        let (answer, _) = self.ask(&Order::CheckFences { seat: self.seat }, 0, WORK_LIMIT)?;
        let Answer::Fence { hit } = answer else { return Err(self.process().unexpected(&answer)) };
        let Some(hit) = hit else { return Ok(()) };
        let evaluation = self.evaluation()?;
        let Some(buffer) = evaluation.buffers.get(hit.buffer) else {
            return Err(self.process().unexpected(&Answer::Fence { hit: Some(hit) }));
        };
        let memory =
            MemoryPlace { buffer: buffer.name.clone(), offset: hit.offset, size: buffer.bytes, place: None };
        Err(failure::overrun(memory, &evaluation.case))
    }

    fn trade(&mut self, buffers: &[(usize, usize)]) -> Result<(), Failure> {
        for (own, _) in buffers {
            self.size(*own)?;
        }
        let buffers = buffers.iter().map(|(own, others)| [*own, *others]).collect();
        self.done(&Order::Trade { seat: self.seat, buffers }, &[], WORK_LIMIT)
    }

    fn company(&self) -> Company {
        self.company
    }

    fn facts(&self) -> Facts {
        self.process().facts()
    }

    fn finish(self: Box<Self>) {
        self.process().kill();
    }
}

pub(super) fn copy_limit(bytes: u64) -> Duration {
    WORK_LIMIT.saturating_add(Duration::from_secs(bytes / COPY_RATE))
}

/// A step as the worker is told it; the sizes have been checked to fit.
pub(super) fn step(step: &ResolvedStep) -> StepOrder {
    match step {
        ResolvedStep::Memset { buffer, byte } => StepOrder::Memset { buffer: *buffer, byte: *byte },
        ResolvedStep::Kernel {
            entry,
            name: _,
            grid,
            block,
            shared_bytes,
            arguments,
            cooperative: _,
            cluster: _,
        } => {
            let narrow = |size: &u64| u32::try_from(*size).unwrap_or(u32::MAX);
            let argument = |argument: &Argument| match argument {
                Argument::Buffer(index) => ArgumentOrder::Buffer(*index),
                Argument::Scalar(bytes) => ArgumentOrder::Scalar(bytes.clone()),
            };
            StepOrder::Kernel {
                kernel: *entry,
                grid: [narrow(&grid[0]), narrow(&grid[1]), narrow(&grid[2])],
                block: [narrow(&block[0]), narrow(&block[1]), narrow(&block[2])],
                shared_bytes: narrow(shared_bytes),
                arguments: arguments.iter().map(argument).collect(),
            }
        }
    }
}
