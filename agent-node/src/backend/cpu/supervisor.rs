//! The supervisor's side of a worker: buffers, doorbell, clock, limits, fences.

use super::control::{Control, status};
use super::failure::{self, infrastructure};
use super::fault::{Located, Report, explain, is_read_only};
use super::layout::{Placement, Segment, canary, file_bytes, layout, mix};
use super::limits;
use super::motion::{self, Stop};
use super::order::write_step;
use super::screen::Arrangement;
use super::shared::SharedFile;
use super::verdict::{self, Question};
use super::watch::Watch;
use super::worker::SHARED_DESCRIPTOR;
use crate::backend::{Artefact, Evaluation, Failure, Worker, WorkerOptions};
use crate::clock;
use crate::sandbox::{self, Child, Profile, Request, ResourceLimits};
use fleet_config::domain::{FaultKind, MemoryPlace, Picoseconds, SourcePlace, Stage, Status, words};
use rustix::thread::futex;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a silent worker is looked at: a report ends the wait at once, only an unannounced end needs this.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const OUTPUT_MAX: usize = 64 << 10;
/// Memory of a worker beside the buffers: its libraries, and global arrays of a candidate.
const PRIVATE_MEMORY: u64 = 2 << 30;
/// Beside that for each thread: the stacks of a block of 1024 threads take 70 MiB.
const PRIVATE_MEMORY_PER_THREAD: u64 = 128 << 20;
/// The largest alignment of a CUDA vector type.
const VECTOR_ALIGNMENT: usize = 16;

/// A worker process with the memory that it shares.
pub(super) struct CpuWorker {
    shared: SharedFile,
    /// Stopped, but for the time between a ring and its answer.
    child: Option<Child>,
    /// What the doorbell said last.
    rung: u32,
    rings: u64,
    /// What the process was asked last, which says whose words its answers are.
    asked: Question,
    artefact: Artefact,
    threads: u32,
    options: WorkerOptions,
    seed: u64,
    arrangement: Arrangement,
    prepared: Option<Prepared>,
    /// What the process printed that ended last.
    printed: Vec<u8>,
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
            rung: 0,
            rings: 0,
            asked: Question::Greet,
            artefact: artefact.clone(),
            threads,
            options: options.clone(),
            seed,
            arrangement: Arrangement::default(),
            prepared: None,
            printed: Vec::new(),
        };
        if let Err(mut failure) = worker.start() {
            // Nobody else can ask a worker that was never opened.
            failure.log = words::quoted(&worker.printed()).map(String::into_bytes);
            return Err(failure);
        }
        Ok(worker)
    }

    /// Starts a process on the same memory, and loads the artefact once it is confined; the one before it is gone.
    fn start(&mut self) -> Result<(), Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| infrastructure(Stage::Prepare, what, error);
        self.end();
        self.control().forget(self.rung);
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
            profile: Profile::CpuWorker,
            limits: ResourceLimits {
                // The supervisor's own clock ends a launch; this only stops what outlives the supervisor.
                cpu_seconds: 3600,
                memory: Some(PRIVATE_MEMORY + u64::from(self.threads) * PRIVATE_MEMORY_PER_THREAD),
                file_size: 1 << 20,
                open_files: 64,
                processes: u64::from(self.threads) + 8,
                output_max: OUTPUT_MAX,
            },
        };
        let child = sandbox::spawn(request, self.options.confinement);
        self.child = Some(child.map_err(|error| failed("start the worker", &error))?);
        self.ring(Question::Greet)?;
        self.ring(Question::Load).map(|_| ())
    }

    fn control(&self) -> &Control {
        self.shared.control()
    }

    /// Rings the doorbell, waits for the answer and takes the time between: from before any thread of the worker may
    /// run to after the answer was seen. Afterwards none may.
    fn ring(&mut self, question: Question) -> Result<Duration, Failure> {
        self.rings += 1;
        let drawn = mix(self.seed ^ self.rings);
        // Drawn, so that no worker can answer before it is asked; and another than before, so that it is seen.
        let fresh = u32::try_from(drawn >> 32).unwrap_or(1);
        self.rung = if fresh == self.rung { !fresh } else { fresh };
        let watch = match &self.prepared {
            Some(prepared) if question == Question::Run => {
                Watch::draw(&prepared.evaluation.buffers, &prepared.segments, drawn)
            }
            Some(_) | None => Watch::draw(&[], &[], drawn),
        };
        let Some(child) = &self.child else {
            return Err(infrastructure(Stage::Validate, "use the worker", &"it has ended before"));
        };
        let stop_failed = |error: std::io::Error| infrastructure(Stage::Validate, "stop the worker", &error);
        let control = self.shared.control();
        self.asked = question;
        control.command.store(question.command(), Ordering::Relaxed);
        control.ring.store(self.rung, Ordering::Release);
        let started = clock::monotonic();
        motion::go_on(child).map_err(stop_failed)?;
        // A worker that was never stopped sleeps before the doorbell.
        let _ = futex::wake(&control.ring, futex::Flags::empty(), 1);
        let time = self.wait_for_answer(started, question.limit(self.options.launch_limit))?;
        let Some(child) = &self.child else { return Ok(time) };
        let (standing, stop) = watch.across(&self.shared, || motion::stop(child));
        match stop {
            Ok(Stop::Still) => {}
            Ok(Stop::Traced) => {
                self.end();
                return Err(failure::traced(self.case()));
            }
            Err(error) => {
                self.end();
                return Err(stop_failed(error));
            }
        }
        self.answered()?;
        if let Some(failure) = verdict::late(standing, self.case()) {
            self.end();
            return Err(failure);
        }
        Ok(time)
    }

    fn case(&self) -> &str {
        self.prepared.as_ref().map_or("", |prepared| &prepared.evaluation.case)
    }

    fn wait_for_answer(&mut self, started: Duration, limit: Duration) -> Result<Duration, Failure> {
        let end = started.saturating_add(limit);
        loop {
            let control = self.shared.control();
            let done = control.done.load(Ordering::Acquire);
            let now = clock::monotonic();
            if done == self.rung {
                return Ok(now.saturating_sub(started));
            }
            if now >= end {
                self.end();
                return Err(verdict::silence(self.asked, limit, self.case()));
            }
            let slice = rustix::fs::Timespec::try_from((end - now).min(LOOK_EVERY)).ok();
            let waited = futex::wait(&control.done, futex::Flags::empty(), done, slice.as_ref());
            if waited == Err(rustix::io::Errno::TIMEDOUT) {
                if self.options.interrupt.asked() {
                    self.end();
                    return Err(failure::interrupted(Stage::Validate));
                }
                if let Some(failure) = self.gone() {
                    return Err(failure);
                }
            }
        }
    }

    /// What the worker said at the end of a command.
    fn answered(&mut self) -> Result<(), Failure> {
        let control = self.shared.control();
        let said = control.status.load(Ordering::Acquire);
        if said == status::GOOD {
            return Ok(());
        }
        let report = Report::read(control);
        let failure = match said {
            status::FAULT if self.asked != Question::Greet => {
                verdict::explained(self.asked, self.explain(&report))
            }
            said => verdict::word(self.asked, said, &report, &control.words()),
        };
        self.end();
        Err(failure)
    }

    /// The failure that a worker's unannounced end means; `None` while it lives or if it has answered after all.
    fn gone(&mut self) -> Option<Failure> {
        let exit = match self.child.as_mut()?.try_exit() {
            Ok(exit) => exit?,
            Err(error) => return Some(infrastructure(Stage::Validate, "wait for the worker", &error)),
        };
        if self.control().done.load(Ordering::Acquire) == self.rung {
            return None;
        }
        self.child = None;
        let failure = verdict::death(self.asked, exit.how);
        self.printed = exit.output.bytes;
        Some(failure)
    }

    fn end(&mut self) {
        if let Some(child) = self.child.take() {
            // Its end changes nothing any more; what it printed is kept for people.
            self.printed = child.kill().map(|exit| exit.output.bytes).unwrap_or_default();
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
        let source = report.instruction.and_then(|offset| line_of(&self.artefact.path, offset));
        explain(report, &located, &prepared.evaluation.case, &self.artefact.main, source)
    }

    /// How launches run from the next preparation on; placement is that of [`Self::prepare_at`].
    pub(super) fn arrange(&mut self, arrangement: Arrangement) {
        self.arrangement = arrangement;
    }

    /// Fresh buffers that lie in their pages as `placement` says. A process that has ended is started anew.
    pub(super) fn prepare_at(
        &mut self,
        evaluation: &Evaluation,
        placement: Placement,
    ) -> Result<(), Failure> {
        limits::check(evaluation)?;
        if self.child.is_none() {
            self.start()?;
        }
        self.map(evaluation.clone(), placement)
    }

    fn map(&mut self, evaluation: Evaluation, placement: Placement) -> Result<(), Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| infrastructure(Stage::Prepare, what, error);
        let total = evaluation.buffers.iter().fold(0u64, |sum, buffer| sum.saturating_add(buffer.bytes));
        let segments = layout(&evaluation.buffers, placement).filter(|_| total <= self.options.memory);
        let segments = segments.ok_or_else(|| failure::out_of_memory(total, self.options.memory))?;
        self.prepared = None;
        self.shared.clear().map_err(|error| failed("clear shared memory", &error))?;
        let control = self.shared.control();
        let Arrangement { order, seed, shared_poison, lane_poison } = self.arrangement;
        control.order.store(order as u32, Ordering::Relaxed);
        control.seed.store(seed, Ordering::Relaxed);
        control.shared_poison.store(shared_poison.into(), Ordering::Relaxed);
        control.lane_poison.store(lane_poison.into(), Ordering::Relaxed);
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
        self.ring(Question::Map).map(|_| ())
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
        let time = self.ring(Question::Run)?;
        Ok(Picoseconds(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)))
    }

    fn read(&mut self, index: usize) -> Result<Vec<u8>, Failure> {
        let segment = self.segment(index)?;
        let bytes = self.shared.read(segment.offset(), segment.bytes);
        bytes.ok_or_else(|| {
            infrastructure(Stage::Validate, "read a buffer", &"it lies outside the shared file")
        })
    }

    fn sample(&mut self, index: usize, elements: &[u64], width: u64) -> Result<Vec<u8>, Failure> {
        let segment = self.segment(index)?;
        let outside = || infrastructure(Stage::Validate, "sample a buffer", &"an element lies outside");
        let mut sampled = Vec::new();
        for element in elements {
            let at =
                element.checked_mul(width).and_then(|at| usize::try_from(at).ok()).ok_or_else(outside)?;
            let width = usize::try_from(width).map_err(|_| outside())?;
            let inside = at.checked_add(width).is_some_and(|end| end <= segment.bytes);
            let bytes = inside.then(|| self.shared.read(segment.offset() + at, width)).flatten();
            sampled.extend(bytes.ok_or_else(outside)?);
        }
        Ok(sampled)
    }

    fn check_fences(&mut self) -> Result<(), Failure> {
        let Some((index, offset)) = self.broken_canary() else { return Ok(()) };
        let Some(prepared) = &self.prepared else { return Ok(()) };
        let Some(buffer) = prepared.evaluation.buffers.get(index).cloned() else { return Ok(()) };
        let case = prepared.evaluation.case.clone();
        let memory = MemoryPlace { buffer: buffer.name, offset, size: buffer.bytes, place: None };
        let found = failure::overrun(memory, case);
        Err(self.locate(index).unwrap_or(found))
    }

    fn printed(&mut self) -> Vec<u8> {
        let living = self.child.as_ref().and_then(|child| child.written().ok());
        living.map_or_else(|| std::mem::take(&mut self.printed), |written| written.bytes)
    }

    fn finish(mut self: Box<Self>) {
        self.end();
    }
}

/// File and line of an instruction, from the line tables of the artefact. The innermost frame in the candidate's own
/// files counts: functions of the shim are inlined into it.
pub(super) fn line_of(path: &Path, offset: u64) -> Option<SourcePlace> {
    // The reader adds up what stands in the tables; where it minds an overflow there is no line to tell.
    std::panic::catch_unwind(|| line_in_tables(path, offset)).ok().flatten()
}

fn line_in_tables(path: &Path, offset: u64) -> Option<SourcePlace> {
    let loader = addr2line::Loader::new(path).ok()?;
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

#[cfg(test)]
mod tests {
    use super::line_of;

    /// A file in another format of objects, whose table of ranges ends beyond every address: found by fuzzing.
    #[test]
    fn damaged_line_tables_have_no_line() {
        let mut file = vec![0_u8; 156];
        for (at, bytes) in [
            (0, &[76, 1][..]),
            (127, &[1, 118, 1][..]),
            (132, &[227, 227, 227, 227, 227][..]),
            (141, &[227, 227, 227, 227][..]),
            (147, &[5, 121, 10, 0, 1][..]),
            (154, &[210, 233][..]),
        ] {
            file[at..at + bytes.len()].copy_from_slice(bytes);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("artefact");
        std::fs::write(&path, file).unwrap();
        for offset in [0, 0x1eb, 0xff45, u64::MAX] {
            assert_eq!(line_of(&path, offset), None);
        }
    }
}
