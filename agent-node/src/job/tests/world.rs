//! A small task (y = 2x + 1), a device in memory that runs it as its source says, and a log of all that happened.

use crate::backend::pair::{Company, PairRequest, Setting, Side, SideFailure};
use crate::backend::{
    Artefact, Backend, BufferUse, CompileRequest, Duty, Evaluation, Failure, Interrupt, Portability, Worker,
    WorkerOptions,
};
use crate::job::context::{Assignment, BlobFault, BlobSource, Context, Hold, Machine, Node};
use crate::job::{AttemptError, FinishedAttempt, Residents, attempt};
use crate::measure::clock::Clock;
use crate::sandbox::Confinement;
use fleet_config::domain::*;
use fleet_config::identity::SecretKey;
use ledger::entry::predicate::{Harness, ResultRecord};
use ledger::entry::{Body, Entry};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use zeroize::Zeroizing;

pub(super) type Log = Arc<Mutex<Vec<String>>>;

pub(super) fn expression(text: &str) -> Expression {
    text.parse().unwrap()
}

pub(super) fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

pub(super) fn kernel(entry: &str, grid: &str, block: &str) -> KernelStep {
    KernelStep {
        entry: entry.to_owned(),
        grid: [expression(grid), expression("1"), expression("1")],
        block: [expression(block), expression("1"), expression("1")],
        shared_bytes: expression("0"),
        arguments: Vec::new(),
        attributes: Attributes::default(),
    }
}

pub(super) fn plan(grid: &str, block: &str) -> LaunchPlan {
    LaunchPlan { scratch: Vec::new(), steps: vec![Step::Kernel(kernel("affine", grid, block))] }
}

fn tree(blobs: &mut BTreeMap<Digest, Vec<u8>>, text: &str) -> SourceTree {
    let blob = BlobRef::of(text.as_bytes());
    blobs.insert(blob.blake3, text.as_bytes().to_vec());
    SourceTree {
        main: "kernel.cu".to_owned(),
        files: vec![SourceFile { path: "kernel.cu".to_owned(), blob }],
    }
}

pub(super) fn task(blobs: &mut BTreeMap<Digest, Vec<u8>>) -> Task {
    let implementation = |blobs: &mut BTreeMap<Digest, Vec<u8>>, text: &str| Implementation {
        source: tree(blobs, text),
        plan: plan("ceil_div(n, 256)", "256"),
        author: "somebody".to_owned(),
    };
    let buffer = |name: &str, role| Param {
        name: name.to_owned(),
        element: ElementType::F32,
        kind: ParamKind::Buffer { role, shape: vec![expression("n")] },
    };
    let case = |name: &str, kind, n| Case {
        name: name.to_owned(),
        kind,
        dims: BTreeMap::from([("n".to_owned(), n)]),
        inputs: BTreeMap::new(),
    };
    Task {
        format: Task::FORMAT.to_owned(),
        name: "affine".to_owned(),
        summary: "y = 2x + 1".to_owned(),
        entry: "affine".to_owned(),
        signature: "extern \"C\" __global__ void affine(const float* x, float* y, int n)".to_owned(),
        dims: vec!["n".to_owned()],
        params: vec![
            buffer("x", Role::In),
            buffer("y", Role::Out),
            Param {
                name: "n".to_owned(),
                element: ElementType::I32,
                kind: ParamKind::Integer { value: expression("n") },
            },
        ],
        inputs: BTreeMap::from([(
            "x".to_owned(),
            Input::Uniform { low: decimal("1"), high: decimal("2"), specials: Vec::new() },
        )]),
        cases: vec![case("odd", CaseKind::Correctness, 7), case("wide", CaseKind::Performance, 64)],
        tolerance: Tolerance { absolute: decimal("0.001"), relative: decimal("0"), nan: NanRule::Never },
        limits: Limits {
            compile: Milliseconds(10_000),
            launch: Milliseconds(1_000),
            run: Milliseconds(60_000),
            memory: Bytes(1 << 20),
            source: Bytes(1 << 16),
        },
        reference: implementation(blobs, "reference good"),
        baseline: implementation(blobs, "baseline good"),
        headers: Vec::new(),
        holdout: None,
        licence: "MIT".to_owned(),
        provenance: Provenance::default(),
        validation: None,
    }
}

/// How long the machine is waited for each time it is held.
const WAIT: Picoseconds = Picoseconds(3_000_000_000);

/// What stands around one attempt.
pub(super) struct World {
    pub(super) log: Log,
    pub(super) blobs: BTreeMap<Digest, Vec<u8>>,
    pub(super) task: Task,
    pub(super) policy: MeasurementPolicy,
    pub(super) plan: Option<LaunchPlan>,
    pub(super) clock: Arc<ManualClock>,
    /// The log line after which the attempt is cancelled.
    pub(super) cancel_after: Option<&'static str>,
    pub(super) disk: Disk,
    pub(super) residents: Residents,
}

/// What goes wrong around the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disk {
    Fine,
    DocumentsMissing,
    SourcesMissing,
    LockUnwritable,
    /// Somebody else's timing never ends.
    MachineTaken,
    /// Others leave so little of the machine that the lease ends before the candidate is through.
    MachineSlow,
}

#[derive(Debug, Default)]
pub(super) struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> Picoseconds {
        Picoseconds(self.0.load(Ordering::Relaxed))
    }
    fn date(&self) -> String {
        "2026-11-30T12:00:00.000Z".to_owned()
    }
}

impl ManualClock {
    pub(super) fn advance(&self, by: Picoseconds) {
        self.0.fetch_add(by.0, Ordering::Relaxed);
    }
}

impl World {
    pub(super) fn new() -> Self {
        let mut blobs = BTreeMap::new();
        let task = task(&mut blobs);
        // The device in memory offers no screen.
        let policy = MeasurementPolicy::cpu_paired().with_screens(Vec::new());
        Self {
            log: Log::default(),
            blobs,
            task,
            policy,
            plan: None,
            clock: Arc::default(),
            cancel_after: None,
            disk: Disk::Fine,
            residents: Residents::on(&device()),
        }
    }

    /// Gives the task another reference.
    pub(super) fn reference(&mut self, source: &str) {
        self.task.reference.source = tree(&mut self.blobs, source);
    }

    /// Gives the task another baseline.
    pub(super) fn baseline(&mut self, source: &str) {
        self.task.baseline.source = tree(&mut self.blobs, source);
    }

    pub(super) fn events(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Runs a candidate whose source says what it does.
    pub(super) fn run(&mut self, source: &str) -> Result<FinishedAttempt, AttemptError> {
        let candidate = Candidate {
            format: Candidate::FORMAT.to_owned(),
            name: "candidate".to_owned(),
            source: tree(&mut self.blobs, source),
            plan: self.plan.clone(),
            family: None,
            provenance: Provenance::default(),
            licence: String::new(),
        };
        let documents =
            [self.task.document().unwrap(), candidate.document().unwrap(), self.policy.document().unwrap()];
        for document in &documents {
            self.blobs.insert(document.blob.blake3, document.bytes.clone());
        }
        let assignment = Assignment {
            submission: SubmissionId([1; 32]),
            cell: CellId([2; 32]),
            fence: Fence(7),
            task: documents[0].blob,
            candidate: documents[1].blob,
            policy: documents[2].blob,
            device: DeviceId("CPU-0".to_owned()),
            nonce: Nonce([3; 32]),
            seeds: vec![Seed(11), Seed(12)],
            compile: Milliseconds(10_000),
            run: Milliseconds(60_000),
            queued: Milliseconds(5),
            sealed: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let backend = Device { log: Arc::clone(&self.log), clock: Arc::clone(&self.clock) };
        let node = node();
        let log = Arc::clone(&self.log);
        let watched = Arc::clone(&self.log);
        let cancel_after = self.cancel_after;
        let context = Context {
            assignment: &assignment,
            origin: "muster.invalid/0123456789abcdef",
            node: &node,
            device: &device(),
            backend: &backend,
            hardware: &|| None,
            blobs: self,
            residents: &self.residents,
            machine: self,
            clock: self.clock.as_ref(),
            folder: folder.path(),
            progress: &|stage, detail| {
                let line = format!("progress {} {detail}", stage.name());
                log.lock().unwrap().push(line.trim_end().to_owned());
            },
            interrupt: Interrupt::when(move || {
                cancel_after.is_some_and(|line| watched.lock().unwrap().iter().any(|l| l == line))
            }),
            // The lease of 10 s + 60 s with 20 s beyond, from time zero.
            deadline: Picoseconds(90_000_000_000_000),
        };
        attempt(&context)
    }

    /// The record of a run that ended in a result.
    pub(super) fn record(&mut self, source: &str) -> ResultRecord {
        record(&self.run(source).unwrap())
    }
}

pub(super) fn record(finished: &FinishedAttempt) -> ResultRecord {
    match Entry::read(&finished.envelope).unwrap().body {
        Body::Result(record) => *record,
        other => panic!("not a result: {other:?}"),
    }
}

pub(super) fn device() -> DeviceDescription {
    DeviceDescription {
        id: DeviceId("CPU-0".to_owned()),
        kind: DeviceKind::Cpu,
        architecture: "cpu:x86-64-v2".parse().unwrap(),
        memory: 1 << 30,
        identity: Facts::new(),
        configuration: Facts::new(),
        attributes: BTreeMap::from([("device.multiprocessors".to_owned(), 2)]),
    }
}

fn node() -> Node {
    Node {
        key: SecretKey::from_seed(&Zeroizing::new([9; 32])),
        harness: Harness {
            version: "0.1.0".to_owned(),
            digest: Digest([8; 32]),
            commit: String::new(),
            dirty: false,
        },
        confinement: Confinement::Kernel,
    }
}

impl BlobSource for World {
    fn fetch(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobFault> {
        let missing = || BlobFault { blob: blob.blake3, size: blob.size, cause: "not there".to_owned() };
        match self.disk {
            Disk::DocumentsMissing => Err(missing()),
            // The sources of these tests are a few words; documents are longer.
            Disk::SourcesMissing if blob.size < 64 => Err(missing()),
            Disk::Fine
            | Disk::SourcesMissing
            | Disk::LockUnwritable
            | Disk::MachineTaken
            | Disk::MachineSlow => self.blobs.get(&blob.blake3).cloned().ok_or_else(missing),
        }
    }
}

impl Machine for World {
    fn hold(&self, hold: Hold, give_up: &dyn Fn() -> bool) -> std::io::Result<Option<Box<dyn Send>>> {
        if self.disk == Disk::LockUnwritable {
            return Err(std::io::Error::other("read-only file system"));
        }
        self.clock.advance(WAIT);
        if self.disk == Disk::MachineTaken && hold == Hold::Alone {
            while !give_up() {
                self.clock.advance(WAIT);
            }
            return Ok(None);
        }
        if self.disk == Disk::MachineSlow {
            self.clock.advance(Picoseconds(30_000_000_000_000));
        }
        self.log.lock().unwrap().push(format!("hold {hold:?}"));
        Ok(Some(Box::new(Release(Arc::clone(&self.log), hold))))
    }
}

struct Release(Log, Hold);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(format!("release {:?}", self.1));
    }
}

/// The device in memory.
struct Device {
    log: Log,
    clock: Arc<ManualClock>,
}

fn failure(status: Status, code: &str) -> Failure {
    let cause = Cause { code: code.to_owned(), message: "as the source says".to_owned(), ..Cause::default() };
    Failure::with_log(Outcome::failed(status, Stage::Compile, Blame::Candidate, cause, ""), "the log")
}

impl Backend for Device {
    fn name(&self) -> &'static str {
        "memory"
    }
    fn devices(&self) -> Vec<DeviceDescription> {
        vec![device()]
    }
    fn compile(&self, request: &CompileRequest) -> Result<Artefact, Failure> {
        let text = String::from_utf8(request.sources.files[&request.sources.main].clone()).unwrap();
        self.log.lock().unwrap().push(format!("compile {text}"));
        if text.contains("syntax") {
            return Err(failure(Status::CompileError, "compile/error"));
        }
        assert!(!text.contains("panic"), "a bug of the backend");
        Ok(Artefact {
            path: PathBuf::from(&text),
            blob: BlobRef::of(text.as_bytes()),
            key: Digest::of(text.as_bytes()),
            compiler: "memory 1".to_owned(),
            flags: vec!["-O2".to_owned()],
            log: String::new(),
            resources: BTreeMap::new(),
            portability: Portability::ThisMachine,
            main: request.sources.main.clone(),
        })
    }
    fn open(&self, _: &DeviceId, artefact: &Artefact, _: &WorkerOptions) -> Result<Box<dyn Worker>, Failure> {
        Ok(self.memory(artefact, None))
    }
    fn open_pair(
        &self,
        device: &DeviceId,
        pair: &PairRequest<'_>,
    ) -> Result<[Box<dyn Worker>; 2], SideFailure> {
        let common = match pair.setting {
            Setting::Apart => None,
            Setting::Together(_) => Some(Arc::default()),
        };
        let open = |side: Side| match &common {
            Some(common) => Ok(self.memory(pair.party(side).artefact, Some(Arc::clone(common)))),
            None => self
                .open(device, pair.party(side).artefact, pair.party(side).options)
                .map_err(|failure| SideFailure { side, failure }),
        };
        Ok([open(Side::Baseline)?, open(Side::Candidate)?])
    }
    fn claim(&self, device: &DeviceId, duty: Duty, _: &dyn Fn() -> bool) -> Result<Box<dyn Send>, Failure> {
        self.log.lock().unwrap().push(format!("claim {device} for {duty:?}"));
        Ok(Box::new(()))
    }
    fn volatile(&self, _: &DeviceId) -> Facts {
        self.log.lock().unwrap().push("volatile".to_owned());
        Facts::from([(field::LOAD_1M.to_owned(), Fact::Count(1))])
    }
}

/// What candidates do to their neighbour, as bits.
const SPOILT: u64 = 1;
const BROKEN: u64 = 2;
const DRAGGED: u64 = 4;

impl Device {
    fn memory(&self, artefact: &Artefact, common: Option<Arc<AtomicU64>>) -> Box<dyn Worker> {
        let source = artefact.path.to_string_lossy().into_owned();
        self.log.lock().unwrap().push(format!("open {source}"));
        Box::new(Memory {
            source,
            common,
            log: Arc::clone(&self.log),
            clock: Arc::clone(&self.clock),
            buffers: Vec::new(),
            output: 0,
            launches: 0,
            first: None,
            is_resident: false,
        })
    }
}

struct Memory {
    source: String,
    /// What this worker shares with the other of its pair.
    common: Option<Arc<AtomicU64>>,
    log: Log,
    clock: Arc<ManualClock>,
    buffers: Vec<Vec<u8>>,
    output: usize,
    launches: u32,
    first: Option<Vec<u8>>,
    /// It has been kept from an earlier question.
    is_resident: bool,
}

impl Memory {
    fn note(&self, what: &str) {
        self.log.lock().unwrap().push(format!("{what} {}", self.source));
    }
    fn compute(&self) -> Vec<u8> {
        let floats = self.buffers[0].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        floats.flat_map(|x| (2.0 * x + 1.0).to_le_bytes()).collect()
    }
}

impl Worker for Memory {
    fn prepare(&mut self, evaluation: &Evaluation) -> Result<(), Failure> {
        self.buffers =
            evaluation.buffers.iter().map(|b| vec![0; usize::try_from(b.bytes).unwrap()]).collect();
        let out = |b: &crate::backend::Buffer| b.use_ == BufferUse::Parameter(Role::Out);
        self.output = evaluation.buffers.iter().position(out).unwrap();
        Ok(())
    }
    fn write(&mut self, index: usize, bytes: &[u8]) -> Result<(), Failure> {
        self.buffers[index].copy_from_slice(bytes);
        Ok(())
    }
    fn fill(&mut self, index: usize, byte: u8) -> Result<(), Failure> {
        self.note(&format!("fill {byte:02x}"));
        self.buffers[index].fill(byte);
        Ok(())
    }
    fn launch(&mut self) -> Result<Picoseconds, Failure> {
        self.note("launch");
        self.launches += 1;
        let mut slow = if self.source.contains("fast") { 1 } else { 2 };
        let mut met = 0;
        if let Some(common) = &self.common {
            for (word, what) in [("spoils", SPOILT), ("breaks", BROKEN), ("drags", DRAGGED)] {
                if self.source.contains(word) {
                    common.fetch_or(what, Ordering::Relaxed);
                }
            }
            if self.source.contains("baseline") {
                met = common.load(Ordering::Relaxed);
            }
        }
        if met & BROKEN != 0 {
            return Err(failure(Status::RuntimeError, "run/fault"));
        }
        if met & DRAGGED != 0 {
            slow *= 2;
        }
        self.clock.advance(Picoseconds(slow * 1_000_000_000));
        if self.source.contains("crash") || self.is_resident && self.source.contains("homesick") {
            return Err(failure(Status::RuntimeError, "run/fault"));
        }
        if self.source.contains("lost") {
            return Err(failure(Status::WorkerLost, "run/lost"));
        }
        if self.source.contains("idle") {
            return Ok(Picoseconds(1));
        }
        let mut result = self.compute();
        let late = self.source.contains("tires") && self.launches > 4;
        let now = self.buffers[0].clone();
        let known =
            self.source.contains("remembers").then(|| self.first.get_or_insert(result.clone()).clone());
        if let Some(known) = known {
            result = known;
        }
        // Every third launch is left out, as if nobody looked.
        if self.source.contains("skips") && self.launches > 4 && self.launches.is_multiple_of(3) {
            result = vec![0x7c; now.len()];
        }
        if self.source.contains("wrong") || late || met & SPOILT != 0 {
            result[0] ^= 0xff;
            result[3] ^= 0x40;
        }
        if self.source.contains("odd") && (now.len() / 4) % 2 == 1 {
            result[3] ^= 0x40;
        }
        // Right for the sizes of the cases alone.
        if self.source.contains("hardcodes") && ![7 * 4, 64 * 4].contains(&now.len()) {
            result.truncate(now.len() - 4);
            result.extend([0xff; 4]);
        }
        let first = f32::from_le_bytes(now[..4].try_into().unwrap());
        if self.source.contains("brittle") && (first == 0.0 || first > 1e30) {
            result[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        }
        // Off by three tolerances, and only for large values: the scale of an absolute tolerance does not grow.
        if self.source.contains("sloppy") && first == 0.5 {
            result[..4].copy_from_slice(&(2.0 * first + 1.003).to_le_bytes());
        }
        if self.source.contains("wavers") && self.launches.is_multiple_of(2) {
            result[0] ^= 1;
        }
        if self.source.contains("zeros") {
            result.fill(0);
        }
        self.buffers[self.output] = result;
        if self.source.contains("scribbles") {
            self.buffers[0][9] ^= 1;
        }
        Ok(Picoseconds(slow * 1_000_000_000))
    }
    fn read(&mut self, index: usize) -> Result<Vec<u8>, Failure> {
        Ok(self.buffers[index].clone())
    }
    fn trade(&mut self, buffers: &[(usize, usize)]) -> Result<(), Failure> {
        assert!(self.common.is_some() && !buffers.is_empty());
        self.note("trade");
        Ok(())
    }
    fn company(&self) -> Company {
        if self.common.is_some() { Company::Shared } else { Company::Alone }
    }
    fn facts(&self) -> Facts {
        Facts::from([(field::EVENT_FLOOR.to_owned(), Fact::Count(7))])
    }
    fn check_fences(&mut self) -> Result<(), Failure> {
        if self.source.contains("overruns") {
            return Err(failure(Status::ContractViolation, "contract/fence"));
        }
        Ok(())
    }
    fn attend(&mut self, _: &Interrupt) {
        self.note("attend");
        self.is_resident = true;
    }
    fn renew(&mut self) -> Result<(), Failure> {
        (self.launches, self.first) = (0, None);
        Ok(())
    }
    fn finish(self: Box<Self>) {}
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.note("kill");
    }
}
