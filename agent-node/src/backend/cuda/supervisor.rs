//! The supervisor's side of a CUDA worker: orders, deadlines, and what its answers mean.

use super::compile::Description;
use super::cubin::Kernel;
use super::failure::{self, infrastructure, logged};
use super::limits::{self, DeviceLimits};
use super::probe;
use super::protocol::{Answer, ArgumentOrder, Order, Phase, StepOrder, Trouble, UntilEnd, receive, send};
use super::worker::SOCKET;
use crate::backend::{Argument, Evaluation, Failure, ResolvedStep, Worker, WorkerOptions};
use crate::clock;
use crate::sandbox::{self, Child, Profile, Request};
use fleet_config::domain::{FaultKind, MemoryPlace, Milliseconds, Picoseconds, Stage, UnsupportedReason};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Initialising the driver, making a context, loading a module; a machine without persistence takes seconds.
const OPEN_LIMIT: Duration = Duration::from_secs(60);
/// Allocations, fills and guard zones.
const WORK_LIMIT: Duration = Duration::from_secs(60);
/// The slowest copy that is waited for, in bytes a second, beside [`WORK_LIMIT`].
const COPY_RATE: u64 = 100_000_000;
const OUTPUT_MAX: usize = 256 << 10;

/// How many workers of this process hold a context: they are no strangers on the device.
#[derive(Debug, Default, Clone)]
pub(super) struct Living(Arc<AtomicU64>);

impl Living {
    /// How many there are now.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn enter(&self) -> Presence {
        self.0.fetch_add(1, Ordering::Relaxed);
        Presence(self.clone())
    }
}

struct Presence(Living);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a worker is opened with.
pub(super) struct Opening<'a> {
    pub uuid: &'a str,
    pub limits: DeviceLimits,
    pub description: Description,
    /// Checked to be a whole cubin for this device.
    pub cubin: &'a [u8],
    pub options: &'a WorkerOptions,
}

/// A worker process.
pub(super) struct CudaWorker {
    socket: UnixStream,
    child: Option<Child>,
    kernels: Vec<Kernel>,
    limits: DeviceLimits,
    launch_limit: Milliseconds,
    memory: u64,
    prepared: Option<Evaluation>,
    _presence: Presence,
}

impl CudaWorker {
    /// Starts the process, confined, takes the device and loads the cubin.
    pub(super) fn open(opening: Opening<'_>, living: &Living) -> Result<Self, Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| infrastructure(Stage::Prepare, what, error);
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed("make a socket", &error))?;
        let request = Request {
            program: sandbox::own_binary(),
            arguments: vec!["worker-cuda".into()],
            environment: probe::environment(Some(opening.uuid)),
            folder: opening.options.folder.clone(),
            readable: probe::readable(),
            executable: Vec::new(),
            devices: probe::device_nodes(),
            passed: vec![(theirs.into(), SOCKET)],
            profile: Profile::CudaWorker,
            limits: probe::limits(OUTPUT_MAX),
        };
        let child = sandbox::spawn(request, opening.options.confinement)
            .map_err(|error| failed("start the worker", &error))?;
        let symbols = opening.description.kernels.iter().map(|kernel| kernel.symbol.clone()).collect();
        let mut worker = Self {
            socket: ours,
            child: Some(child),
            kernels: opening.description.kernels,
            limits: opening.limits,
            launch_limit: opening.options.launch_limit,
            memory: opening.options.memory,
            prepared: None,
            _presence: living.enter(),
        };
        worker.done(&Order::Open { device: opening.uuid.to_owned() }, &[], OPEN_LIMIT)?;
        worker.done(&Order::Load { symbols }, opening.cubin, OPEN_LIMIT)?;
        Ok(worker)
    }

    /// Sends an order and waits for its answer with at most `raw_max` raw bytes.
    fn ask(
        &mut self,
        order: &Order,
        raw: &[u8],
        raw_max: u64,
        limit: Duration,
    ) -> Result<(Answer, Vec<u8>), Failure> {
        if self.child.is_none() {
            return Err(infrastructure(Stage::Validate, "use the worker", &"it has ended before"));
        }
        let end = clock::monotonic().saturating_add(limit);
        let sent = self
            .socket
            .set_write_timeout(Some(limit.max(Duration::from_millis(1))))
            .and_then(|()| send(&mut self.socket, order, raw));
        let mut reading = UntilEnd { socket: &self.socket, end, now: clock::monotonic };
        let answer = sent.and_then(|()| receive::<Answer>(&mut reading, raw_max));
        match answer {
            Ok((Answer::Failed(trouble), _)) => {
                let case = self.prepared.as_ref().map_or("", |prepared| &prepared.case);
                let failure = explain(&trouble, case, self.launch_limit);
                Err(self.end(failure))
            }
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.broken(order, &error, limit)),
        }
    }

    /// The failure that a socket error means; the worker is gone afterwards.
    fn broken(&mut self, order: &Order, error: &io::Error, limit: Duration) -> Failure {
        let late = matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
        if late && *order == Order::Launch {
            let case = self.prepared.as_ref().map_or("", |prepared| &prepared.case);
            let failure = failure::timeout(self.launch_limit, case);
            return self.end(failure);
        }
        let stage = if self.prepared.is_some() { Stage::Validate } else { Stage::Prepare };
        if late {
            let failure = infrastructure(stage, "hear from the worker", &format!("no answer in {limit:?}"));
            return self.end(failure);
        }
        let exit = self.child.take().map(Child::kill);
        let message = match &exit {
            Some(Ok(exit)) => format!("the worker ended ({:?}) before it answered: {error}", exit.how),
            Some(Err(wait)) => format!("the worker cannot be waited for: {wait}"),
            None => error.to_string(),
        };
        let output = exit.and_then(Result::ok).map(|exit| exit.output.bytes).unwrap_or_default();
        logged(failure::worker_lost(stage, message), &output)
    }

    /// Ends the worker; what it wrote becomes the failure's log.
    fn end(&mut self, failure: Failure) -> Failure {
        let exit = self.child.take().map(Child::kill);
        let output = exit.and_then(Result::ok).map(|exit| exit.output.bytes).unwrap_or_default();
        logged(failure, &output)
    }

    fn unexpected(&mut self, answer: &Answer) -> Failure {
        let failure =
            infrastructure(Stage::Validate, "understand the worker", &format!("it answered {answer:?}"));
        self.end(failure)
    }

    /// An order that is answered by `done`.
    fn done(&mut self, order: &Order, raw: &[u8], limit: Duration) -> Result<(), Failure> {
        match self.ask(order, raw, 0, limit)? {
            (Answer::Done, _) => Ok(()),
            (answer, _) => Err(self.unexpected(&answer)),
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

impl Worker for CudaWorker {
    fn prepare(&mut self, evaluation: &Evaluation) -> Result<(), Failure> {
        limits::check(&self.limits, &self.kernels, evaluation, self.memory)?;
        self.prepared = Some(evaluation.clone());
        let seed =
            getrandom::u64().map_err(|error| infrastructure(Stage::Prepare, "draw canaries", &error))?;
        let buffers = evaluation.buffers.iter().map(|buffer| buffer.bytes).collect();
        let steps = evaluation.steps.iter().map(step).collect();
        self.done(&Order::Prepare { buffers, steps, seed }, &[], WORK_LIMIT)
    }

    fn write(&mut self, index: usize, bytes: &[u8]) -> Result<(), Failure> {
        let size = self.size(index)?;
        if bytes.len() as u64 != size {
            let sizes = format!("{} bytes for a buffer of {size}", bytes.len());
            return Err(infrastructure(Stage::Validate, "write a buffer", &sizes));
        }
        self.done(&Order::Write { buffer: index }, bytes, copy_limit(size))
    }

    fn fill(&mut self, index: usize, byte: u8) -> Result<(), Failure> {
        self.size(index)?;
        self.done(&Order::Fill { buffer: index, byte }, &[], WORK_LIMIT)
    }

    fn launch(&mut self) -> Result<Picoseconds, Failure> {
        self.evaluation()?;
        let started = clock::monotonic();
        let (answer, _) = self.ask(&Order::Launch, &[], 0, self.launch_limit.duration())?;
        let bracket = Picoseconds::from_duration(clock::monotonic().saturating_sub(started));
        match answer {
            Answer::Launched { picoseconds } if picoseconds <= bracket.0 => Ok(Picoseconds(picoseconds)),
            Answer::Launched { picoseconds } => Err(failure::clocks_disagree(format!(
                "the device's events say {picoseconds} ps, and the node waited {bracket}"
            ))),
            answer => Err(self.unexpected(&answer)),
        }
    }

    fn read(&mut self, index: usize) -> Result<Vec<u8>, Failure> {
        let size = self.size(index)?;
        match self.ask(&Order::Read { buffer: index }, &[], size, copy_limit(size))? {
            (Answer::Done, bytes) if bytes.len() as u64 == size => Ok(bytes),
            (answer, _) => Err(self.unexpected(&answer)),
        }
    }

    fn check_fences(&mut self) -> Result<(), Failure> {
        let (answer, _) = self.ask(&Order::CheckFences, &[], 0, WORK_LIMIT)?;
        let Answer::Fence { hit } = answer else { return Err(self.unexpected(&answer)) };
        let Some(hit) = hit else { return Ok(()) };
        let evaluation = self.evaluation()?;
        let Some(buffer) = evaluation.buffers.get(hit.buffer) else {
            return Err(self.unexpected(&Answer::Fence { hit: Some(hit) }));
        };
        let memory =
            MemoryPlace { buffer: buffer.name.clone(), offset: hit.offset, size: buffer.bytes, place: None };
        Err(failure::overrun(memory, &evaluation.case))
    }

    fn finish(mut self: Box<Self>) {
        if let Some(child) = self.child.take() {
            // Its end changes nothing any more.
            let _ = child.kill();
        }
    }
}

fn copy_limit(bytes: u64) -> Duration {
    WORK_LIMIT.saturating_add(Duration::from_secs(bytes / COPY_RATE))
}

/// A step as the worker is told it; the sizes have been checked to fit.
fn step(step: &ResolvedStep) -> StepOrder {
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

/// What a failed call means. Numbers are those of `CUresult` in cuda.h.
pub(super) fn explain(trouble: &Trouble, case: &str, launch_limit: Milliseconds) -> Failure {
    let Trouble { phase, call, code, name } = trouble;
    let vendor = format!("{name} ({code})");
    if let Some(kind) = fault(*code) {
        return failure::fault(kind, vendor, case);
    }
    let text = format!("{call}: {vendor}");
    let stage = match phase {
        Phase::Open | Phase::Load => Stage::Prepare,
        Phase::Prepare | Phase::Copy | Phase::Launch | Phase::Run | Phase::Fences => Stage::Validate,
    };
    match (code, phase) {
        (702, _) => failure::timeout(launch_limit, case),
        // Not enough memory for a context is no candidate's doing.
        (2, Phase::Prepare | Phase::Launch | Phase::Run) => failure::out_of_memory(text),
        (209 | 222 | 223, Phase::Load) => {
            failure::toolchain(format!("the device does not take the cubin: {text}"))
        }
        (200 | 218 | 500, Phase::Load) => {
            failure::launch("launch/load", format!("the cubin cannot be used: {text}"))
        }
        (0, Phase::Launch) if call == "check the block" => failure::launch("launch/geometry", name.clone()),
        (1, Phase::Prepare) if call == "cuFuncSetAttribute" => failure::launch_unsupported(
            UnsupportedReason::SharedMemory,
            format!("static and dynamic shared memory together are more than a block may have: {text}"),
        ),
        (1 | 701 | 720, Phase::Launch) => {
            failure::launch("launch/refused", format!("the device refuses it: {text}"))
        }
        _ => infrastructure(stage, "use the device", &text),
    }
}

/// Faults that a kernel causes; the context is dead after each of them.
fn fault(code: u32) -> Option<FaultKind> {
    match code {
        700 | 717 => Some(FaultKind::IllegalAddress),
        716 => Some(FaultKind::MisalignedAddress),
        715 | 718 => Some(FaultKind::IllegalInstruction),
        714 => Some(FaultKind::StackOverflow),
        710 => Some(FaultKind::Assert),
        // "An exception occurred on the device": a trap, or what has no number of its own.
        719 => Some(FaultKind::Trap),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::{Blame, Status};

    fn status(phase: Phase, call: &str, code: u32) -> (Status, Blame) {
        let trouble = Trouble { phase, call: call.to_owned(), code, name: "X".to_owned() };
        let outcome = explain(&trouble, "case", Milliseconds(5)).outcome;
        (outcome.status, outcome.blame)
    }

    #[test]
    fn codes_of_the_driver_become_the_outcomes_they_mean() {
        for (phase, call, code, wanted) in [
            (Phase::Run, "cuEventSynchronize", 700, Status::RuntimeError),
            (Phase::Copy, "cuMemcpyDtoH", 719, Status::RuntimeError),
            (Phase::Run, "cuEventSynchronize", 702, Status::Timeout),
            (Phase::Prepare, "cuMemAlloc", 2, Status::OutOfMemory),
            (Phase::Open, "cuDevicePrimaryCtxRetain", 2, Status::Infrastructure),
            (Phase::Load, "cuModuleLoadData", 209, Status::UnsupportedOnDevice),
            (Phase::Load, "cuModuleGetFunction", 500, Status::LaunchError),
            (Phase::Launch, "cuLaunchKernel", 701, Status::LaunchError),
            (Phase::Launch, "check the block", 0, Status::LaunchError),
            (Phase::Prepare, "cuFuncSetAttribute", 1, Status::UnsupportedOnDevice),
            (Phase::Run, "cuEventSynchronize", 214, Status::Infrastructure),
            (Phase::Open, "load libcuda", 0, Status::Infrastructure),
        ] {
            assert_eq!(status(phase, call, code).0, wanted, "{phase:?} {call} {code}");
        }
        assert_eq!(status(Phase::Run, "x", 999).1, Blame::Fleet);
    }

    #[test]
    fn the_case_and_the_vendors_code_stand_in_a_fault() {
        let trouble =
            Trouble { phase: Phase::Run, call: "x".to_owned(), code: 716, name: "CUDA_ERROR_Y".to_owned() };
        let cause = explain(&trouble, "odd", Milliseconds(5)).outcome.cause.unwrap();
        assert_eq!(cause.fault, Some(FaultKind::MisalignedAddress));
        assert_eq!(cause.vendor_code.as_deref(), Some("CUDA_ERROR_Y (716)"));
        assert_eq!(cause.case.as_deref(), Some("odd"));
    }
}
