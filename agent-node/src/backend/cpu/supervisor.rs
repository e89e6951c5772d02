//! The supervisor's side of a worker: buffers, doorbell, clock, limits, fences.

use super::control::{Control, FILL_STEP, SCALAR, StepSlot, command, status};
use super::failure::{self, infrastructure};
use super::fault::{Located, Report, explain, is_read_only, silent_end};
use super::layout::{Placement, Segment, canary, file_bytes, layout};
use super::limits;
use super::shared::SharedFile;
use super::worker::SHARED_DESCRIPTOR;
use crate::backend::{Argument, Artefact, Evaluation, Failure, ResolvedStep, Worker, WorkerOptions};
use crate::clock;
use crate::sandbox::{self, Child, Profile, Request, ResourceLimits};
use fleet_config::domain::{Blame, FaultKind, MemoryPlace, Picoseconds, SourcePlace, Stage, Status};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use rustix::thread::futex;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Loading and mapping are quick; a machine that swaps is given time.
const SETUP_LIMIT: Duration = Duration::from_secs(20);
/// How often a silent worker is looked at: a report ends the wait at once, only an unannounced end needs this.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const OUTPUT_MAX: usize = 64 << 10;
/// The largest alignment of a CUDA vector type.
const VECTOR_ALIGNMENT: usize = 16;

/// A worker process with the memory that it shares.
pub(super) struct CpuWorker {
    shared: SharedFile,
    child: Option<Child>,
    motion: Motion,
    artefact: Artefact,
    threads: u32,
    options: WorkerOptions,
    seed: u64,
    prepared: Option<Prepared>,
}

/// Whether the worker's threads may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Motion {
    Running,
    /// While outputs are read: a kernel that said it was done cannot go on computing behind the clock's back.
    Stopped,
}

struct Prepared {
    evaluation: Evaluation,
    segments: Vec<Segment>,
}

impl CpuWorker {
    /// Starts the process, confined, with `artefact` loaded.
    pub(super) fn open(artefact: &Artefact, threads: u32, options: &WorkerOptions) -> Result<Self, Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| infrastructure(Stage::Prepare, what, error);
        let bytes =
            file_bytes(options.memory).ok_or_else(|| failure::out_of_memory(options.memory, u64::MAX))?;
        let shared = SharedFile::create(bytes).map_err(|error| failed("make shared memory", &error))?;
        let seed = getrandom::u64().map_err(|error| failed("draw canaries", &error))?;
        let mut worker = Self {
            shared,
            child: None,
            motion: Motion::Running,
            artefact: artefact.clone(),
            threads,
            options: options.clone(),
            seed,
            prepared: None,
        };
        worker.start()?;
        Ok(worker)
    }

    /// Starts a process on the same memory; the one before it is gone.
    fn start(&mut self) -> Result<(), Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| infrastructure(Stage::Prepare, what, error);
        self.end();
        self.control().status.store(status::GOOD, Ordering::Release);
        let passed = self.shared.duplicate().map_err(|error| failed("share memory", &error))?;
        let arguments = [
            OsString::from("worker-cpu"),
            self.artefact.path.clone().into_os_string(),
            self.threads.to_string().into(),
        ];
        let request = Request {
            program: sandbox::own_binary(),
            arguments: arguments.into(),
            environment: Vec::new(),
            folder: self.options.folder.clone(),
            readable: vec![self.artefact.path.clone()],
            executable: Vec::new(),
            devices: Vec::new(),
            passed: vec![(passed, SHARED_DESCRIPTOR)],
            profile: Profile::Worker,
            limits: ResourceLimits {
                // The supervisor's own clock ends a launch; this only stops what outlives the supervisor.
                cpu_seconds: 3600,
                // Guards reserve address space without using memory.
                memory: None,
                file_size: 1 << 20,
                open_files: 64,
                processes: u64::from(self.threads) + 8,
                output_max: OUTPUT_MAX,
            },
        };
        let child = sandbox::spawn(request, self.options.confinement);
        self.child = Some(child.map_err(|error| failed("start the worker", &error))?);
        self.motion = Motion::Running;
        self.ring(command::GREET, SETUP_LIMIT).map(|_| ())
    }

    /// Stops every thread of the worker, and waits until they have stopped.
    fn pause(&mut self) {
        let id = self.child.as_ref().and_then(|child| Pid::from_raw(child.id().cast_signed()));
        let Some(id) = id.filter(|_| self.motion == Motion::Running) else { return };
        // A worker that has ended computes nothing either; its end is noticed by the next command.
        if kill_process(id, Signal::STOP).is_ok() {
            self.motion = Motion::Stopped;
            let either = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = waitid(WaitId::Pid(id), either);
        }
    }

    fn resume(&mut self) {
        let id = self.child.as_ref().and_then(|child| Pid::from_raw(child.id().cast_signed()));
        if let Some(id) = id.filter(|_| self.motion == Motion::Stopped) {
            let _ = kill_process(id, Signal::CONT);
            self.motion = Motion::Running;
        }
    }

    fn control(&self) -> &Control {
        self.shared.control()
    }

    /// Rings the doorbell, waits for the answer and takes the time between.
    fn ring(&mut self, what: u32, limit: Duration) -> Result<Duration, Failure> {
        self.resume();
        let control = self.shared.control();
        if self.child.is_none() {
            return Err(infrastructure(Stage::Validate, "use the worker", &"it has ended before"));
        }
        control.command.store(what, Ordering::Relaxed);
        let expected = control.done.load(Ordering::Relaxed).wrapping_add(1);
        let started = clock::monotonic();
        control.ring.store(expected, Ordering::Release);
        let _ = futex::wake(&control.ring, futex::Flags::empty(), 1);
        let end = started.saturating_add(limit);
        loop {
            let control = self.shared.control();
            let done = control.done.load(Ordering::Acquire);
            let now = clock::monotonic();
            if done == expected {
                return self.answered(what).map(|()| now.saturating_sub(started));
            }
            if now >= end {
                return Err(self.overdue());
            }
            let slice = rustix::fs::Timespec::try_from((end - now).min(LOOK_EVERY)).ok();
            let waited = futex::wait(&control.done, futex::Flags::empty(), done, slice.as_ref());
            if waited == Err(rustix::io::Errno::TIMEDOUT)
                && let Some(failure) = self.gone(expected)
            {
                return Err(failure);
            }
        }
    }

    /// What the worker said at the end of the command `what`.
    fn answered(&mut self, what: u32) -> Result<(), Failure> {
        let control = self.shared.control();
        let said = control.status.load(Ordering::Acquire);
        if said == status::GOOD {
            return Ok(());
        }
        let text = text(control);
        let report = Report::read(control);
        let failure = match said {
            status::FAULT => self.explain(&report),
            status::LOAD => failure::loading(&text),
            status::ARITY => failure::launch(format!(
                "step {} of the plan gives another number of arguments than the kernel's {} parameters",
                report.detail[0], report.detail[1]
            )),
            // Our own code says this before it loads a candidate, and when it maps buffers, never while one runs.
            status::SETUP if what != command::RUN => {
                infrastructure(Stage::Validate, "set the worker up", &text)
            }
            said => failure::ended(
                FaultKind::ForbiddenCall,
                format!("status {said}"),
                "the kernel wrote into the page that its worker and the supervisor share".to_owned(),
                Blame::Candidate,
            ),
        };
        self.end();
        Err(failure)
    }

    fn overdue(&mut self) -> Failure {
        let case = self.prepared.as_ref().map_or("", |prepared| &prepared.evaluation.case).to_owned();
        self.end();
        failure::timeout(self.options.launch_limit, &case)
    }

    /// The failure that a worker's unannounced end means; `None` while it lives or if it has answered after all.
    fn gone(&mut self, expected: u32) -> Option<Failure> {
        let exit = match self.child.as_mut()?.try_exit() {
            Ok(exit) => exit?,
            Err(error) => return Some(infrastructure(Stage::Validate, "wait for the worker", &error)),
        };
        if self.control().done.load(Ordering::Acquire) == expected {
            return None;
        }
        self.child = None;
        let mut failure = silent_end(exit.how);
        if !exit.output.bytes.is_empty() {
            failure.log = Some(exit.output.bytes);
        }
        Some(failure)
    }

    fn end(&mut self) {
        if let Some(child) = self.child.take() {
            // Its end changes nothing any more; whatever it says is of no use.
            let _ = child.kill();
        }
    }

    fn explain(&self, report: &Report) -> Failure {
        let Some(prepared) = &self.prepared else {
            return explain(report, &[], "", &self.artefact.main, None);
        };
        let addresses = self.control().buffers.iter().map(|slot| slot.address.load(Ordering::Relaxed));
        let located: Vec<Located<'_>> = prepared
            .evaluation
            .buffers
            .iter()
            .zip(addresses)
            .map(|(buffer, address)| Located { buffer, address })
            .collect();
        let source = report.instruction.and_then(|offset| line_of(&self.artefact, offset));
        explain(report, &located, &prepared.evaluation.case, &self.artefact.main, source)
    }

    fn map(&mut self, evaluation: Evaluation, placement: Placement) -> Result<(), Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| infrastructure(Stage::Prepare, what, error);
        let total = evaluation.buffers.iter().fold(0u64, |sum, buffer| sum.saturating_add(buffer.bytes));
        let segments = layout(&evaluation.buffers, placement).filter(|_| total <= self.options.memory);
        let segments = segments.ok_or_else(|| failure::out_of_memory(total, self.options.memory))?;
        self.prepared = None;
        self.shared.clear().map_err(|error| failed("clear shared memory", &error))?;
        let control = self.shared.control();
        for (index, (segment, buffer)) in segments.iter().zip(&evaluation.buffers).enumerate() {
            self.shared
                .allocate(segment.file_offset, segment.mapped)
                .map_err(|error| failed("take memory for buffers", &error))?;
            for (offset, length) in segment.slack() {
                self.shared.write(offset, &canary(self.seed ^ offset as u64, length));
            }
            let Some(slot) = control.buffers.get(index) else { break };
            slot.file_offset.store(segment.file_offset as u64, Ordering::Relaxed);
            slot.mapped_bytes.store(segment.mapped as u64, Ordering::Relaxed);
            slot.start.store(segment.start as u64, Ordering::Relaxed);
            slot.bytes.store(segment.bytes as u64, Ordering::Relaxed);
            slot.read_only.store(u32::from(is_read_only(buffer.use_)), Ordering::Relaxed);
            slot.address.store(0, Ordering::Relaxed);
        }
        control.buffer_count.store(u32::try_from(segments.len()).unwrap_or(0), Ordering::Release);
        for (slot, step) in control.steps.iter().zip(&evaluation.steps) {
            write_step(slot, step);
        }
        control.step_count.store(u32::try_from(evaluation.steps.len()).unwrap_or(0), Ordering::Release);
        self.prepared = Some(Prepared { evaluation, segments });
        self.ring(command::MAP, SETUP_LIMIT).map(|_| ())
    }

    fn segment(&self, index: usize) -> Result<Segment, Failure> {
        let found = self.prepared.as_ref().and_then(|prepared| prepared.segments.get(index)).copied();
        found.ok_or_else(|| {
            infrastructure(Stage::Validate, "find a buffer", &format!("there is no buffer {index}"))
        })
    }

    /// The first canary that changed: index of the buffer and distance from the buffer's start.
    fn broken_canary(&self) -> Option<(usize, i64)> {
        let prepared = self.prepared.as_ref()?;
        for (index, segment) in prepared.segments.iter().enumerate() {
            for (offset, length) in segment.slack() {
                let now = self.shared.read(offset, length)?;
                let expected = canary(self.seed ^ offset as u64, length);
                if let Some(at) = now.iter().zip(&expected).position(|(is, was)| is != was) {
                    let from = i64::try_from(segment.offset()).ok()?;
                    return Some((index, i64::try_from(offset + at).ok()? - from));
                }
            }
        }
        None
    }

    /// Runs once more with every buffer against its guard, so that the overrun faults where it happens.
    fn locate(&mut self, index: usize) -> Option<Failure> {
        let evaluation = self.prepared.as_ref()?.evaluation.clone();
        let contents: Vec<Vec<u8>> =
            (0..evaluation.buffers.len()).map(|buffer| self.read(buffer)).collect::<Result<_, _>>().ok()?;
        let alignment = evaluation.buffers.get(index)?.element.bytes().unwrap_or(1);
        for alignment in [usize::try_from(alignment).ok()?, VECTOR_ALIGNMENT] {
            self.start().ok()?;
            self.map(evaluation.clone(), Placement::AtEnd(alignment)).ok()?;
            for (buffer, bytes) in contents.iter().enumerate() {
                self.write(buffer, bytes).ok()?;
            }
            let failure = self.launch().err()?;
            if failure.outcome.status == Status::ContractViolation {
                return Some(failure);
            }
            // Vector accesses may need more alignment than an element has.
            if failure.outcome.cause.as_ref()?.fault != Some(FaultKind::MisalignedAddress) {
                return None;
            }
        }
        None
    }
}

impl Worker for CpuWorker {
    fn prepare(&mut self, evaluation: &Evaluation) -> Result<(), Failure> {
        limits::check(evaluation)?;
        self.map(evaluation.clone(), Placement::AtStart)
    }

    fn write(&mut self, index: usize, bytes: &[u8]) -> Result<(), Failure> {
        let segment = self.segment(index)?;
        if bytes.len() == segment.bytes && self.shared.write(segment.offset(), bytes) {
            return Ok(());
        }
        let sizes = format!("{} bytes for a buffer of {}", bytes.len(), segment.bytes);
        Err(infrastructure(Stage::Validate, "write a buffer", &sizes))
    }

    fn fill(&mut self, index: usize, byte: u8) -> Result<(), Failure> {
        let segment = self.segment(index)?;
        self.shared.fill(segment.offset(), segment.bytes, byte);
        Ok(())
    }

    fn launch(&mut self) -> Result<Picoseconds, Failure> {
        if self.prepared.is_none() {
            return Err(infrastructure(Stage::Validate, "launch", &"nothing was prepared"));
        }
        if self.motion == Motion::Stopped {
            // Waking up from a stop is not part of a launch.
            self.ring(command::GREET, SETUP_LIMIT)?;
        }
        let time = self.ring(command::RUN, Duration::from_millis(self.options.launch_limit.0))?;
        Ok(Picoseconds(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)))
    }

    fn read(&mut self, index: usize) -> Result<Vec<u8>, Failure> {
        let segment = self.segment(index)?;
        self.pause();
        let bytes = self.shared.read(segment.offset(), segment.bytes);
        bytes.ok_or_else(|| {
            infrastructure(Stage::Validate, "read a buffer", &"it lies outside the shared file")
        })
    }

    fn check_fences(&mut self) -> Result<(), Failure> {
        self.pause();
        let Some((index, offset)) = self.broken_canary() else { return Ok(()) };
        let Some(prepared) = &self.prepared else { return Ok(()) };
        let Some(buffer) = prepared.evaluation.buffers.get(index).cloned() else { return Ok(()) };
        let case = prepared.evaluation.case.clone();
        let memory = MemoryPlace { buffer: buffer.name, offset, size: buffer.bytes, place: None };
        let found = failure::overrun(memory, case);
        Err(self.locate(index).unwrap_or(found))
    }

    fn finish(mut self: Box<Self>) {
        self.end();
    }
}

fn write_step(slot: &StepSlot, step: &ResolvedStep) {
    match step {
        ResolvedStep::Memset { buffer, byte } => {
            slot.entry.store(FILL_STEP, Ordering::Relaxed);
            slot.buffer.store(u32::try_from(*buffer).unwrap_or(u32::MAX), Ordering::Relaxed);
            slot.byte.store(u32::from(*byte), Ordering::Relaxed);
        }
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
            slot.entry.store(u32::try_from(*entry).unwrap_or(FILL_STEP - 1), Ordering::Relaxed);
            let three = |words: &[AtomicU32; 3], sizes: &[u64; 3]| {
                for (word, size) in words.iter().zip(sizes) {
                    word.store(u32::try_from(*size).unwrap_or(0), Ordering::Relaxed);
                }
            };
            three(&slot.grid, grid);
            three(&slot.block, block);
            slot.shared_bytes.store(u32::try_from(*shared_bytes).unwrap_or(0), Ordering::Relaxed);
            slot.argument_count.store(u32::try_from(arguments.len()).unwrap_or(0), Ordering::Relaxed);
            for (place, argument) in slot.arguments.iter().zip(arguments) {
                match argument {
                    Argument::Buffer(index) => {
                        place.buffer.store(u32::try_from(*index).unwrap_or(SCALAR - 1), Ordering::Relaxed);
                    }
                    Argument::Scalar(bytes) => {
                        let mut word = [0u8; 8];
                        for (to, from) in word.iter_mut().zip(bytes) {
                            *to = *from;
                        }
                        place.buffer.store(SCALAR, Ordering::Relaxed);
                        place.scalar.store(u64::from_le_bytes(word), Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

fn text(control: &Control) -> String {
    let length = control.text_length.load(Ordering::Relaxed) as usize;
    let bytes: Vec<u8> = control.text.iter().take(length).map(|byte| byte.load(Ordering::Relaxed)).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// File and line of an instruction, from the line tables of the artefact. The innermost frame in the candidate's own
/// files counts: functions of the shim are inlined into it.
fn line_of(artefact: &Artefact, offset: u64) -> Option<SourcePlace> {
    let loader = addr2line::Loader::new(&artefact.path).ok()?;
    let mut frames = loader.find_frames(offset).ok()?;
    while let Ok(Some(frame)) = frames.next() {
        let Some(location) = frame.location else { continue };
        let (Some(file), Some(line)) = (location.file, location.line) else { continue };
        let Some(file) = file.strip_prefix("/candidate/") else { continue };
        let file = match file.strip_prefix("headers").and_then(|rest| rest.split_once('/')) {
            Some((_, rest)) => rest,
            None => file,
        };
        return Some(SourcePlace { file: file.to_owned(), line, column: location.column.unwrap_or(0) });
    }
    None
}
