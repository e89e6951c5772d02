//! Backends: the trait that every device kind implements, designed against CUDA; the CPU fits into it.
//!
//! A backend offers devices, makes artefacts, and opens workers. A worker is a process of its own that holds
//! the candidate; nothing in it decides a verdict. The supervisor (this process) draws inputs, reads outputs,
//! keeps the clock where the policy says so, and compares after the worker is dead.

pub mod code;
pub mod conformance;
pub mod cpu;
pub mod cuda;
#[doc(hidden)]
pub mod intake;
mod lexer;
pub mod pair;
pub mod screen;
mod signature;

pub(crate) use lexer::{Kind, tokens};

use crate::health;
use crate::probe::nvidia::Watch;
use crate::sandbox::Confinement;
use fleet_config::domain::{
    Architecture, Blame, BlobRef, Cause, DeviceDescription, DeviceId, Digest, ElementType, Facts,
    MeasurementPolicy, Milliseconds, Outcome, Picoseconds, Role, Stage, Status,
};
use pair::{Company, PairRequest, Side, SideFailure};
use screen::{ScreenOffer, ScreenRequest, Screening};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One kind of device of this node. Methods block; callers run them on blocking threads.
pub trait Backend: Send + Sync {
    /// `cpu`, `cuda`.
    fn name(&self) -> &'static str;

    /// The devices found at start, by the vendor's UUID. Empty is legal: a node without devices stays up.
    fn devices(&self) -> Vec<DeviceDescription>;

    /// Makes an artefact for `request.architecture`, or answers from the cache. Never called while a timing
    /// lock is held.
    fn compile(&self, request: &CompileRequest) -> Result<Artefact, Failure>;

    /// Starts a worker process on `device` with `artefact` loaded. The process is confined before anything of
    /// the candidate is loaded.
    fn open(
        &self,
        device: &DeviceId,
        artefact: &Artefact,
        launch: &WorkerOptions,
    ) -> Result<Box<dyn Worker>, Failure>;

    /// Starts the workers of both sides of a timing: baseline, candidate. Where a device shares its time between
    /// processes too coarsely, they are two handles to one process and say so by [`Worker::company`]; by default each has
    /// its own.
    fn open_pair(
        &self,
        device: &DeviceId,
        pair: &PairRequest<'_>,
    ) -> Result<[Box<dyn Worker>; 2], SideFailure> {
        let open = |side: Side| {
            let party = pair.party(side);
            let opened = self.open(device, party.artefact, party.options);
            opened.map_err(|failure| SideFailure { side, failure })
        };
        Ok([open(Side::Baseline)?, open(Side::Candidate)?])
    }

    /// Keeps the other nodes of this machine off `device` until the guard goes, and for timing also whatever the backend
    /// does there by itself. Waits for them until `give_up` says that it is of no use any more; the failure then says who
    /// has it. By default nothing needs to be kept.
    fn claim(
        &self,
        _device: &DeviceId,
        _duty: Duty,
        _give_up: &dyn Fn() -> bool,
    ) -> Result<Box<dyn Send>, Failure> {
        Ok(Box::new(()))
    }

    /// The screens that this device kind knows, each with what keeps it from being run here.
    fn screens(&self) -> Vec<ScreenOffer> {
        Vec::new()
    }

    /// Runs one screen. What goes wrong beside the candidate is a failure or [`screen::Finding::NotRun`]; never a pass.
    fn screen(&self, _device: &DeviceId, request: &ScreenRequest<'_>) -> Result<Screening, Failure> {
        Ok(Screening::not_offered(request.screen))
    }

    /// The volatile part of the fingerprint, now.
    fn volatile(&self, device: &DeviceId) -> Facts;

    /// What happened to the device since it was last asked; waits for a first report at most `lag`.
    fn reports(&self, _device: &DeviceId, _lag: Duration) -> Vec<health::Event> {
        Vec::new()
    }

    /// Samples of it from now on, by a thread of its own, where reading them disturbs no launch.
    fn watch(&self, _device: &DeviceId) -> Option<Watch> {
        None
    }
}

/// What a device is claimed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    Validating,
    Timing,
}

/// A process that holds one artefact and evaluates resolved plans. Dropping it kills the process group.
pub trait Worker: Send {
    /// Makes fresh buffers (new addresses) for `evaluation`. Sizes and launch limits are checked here, before
    /// anything runs: too large is `out_of_memory` or `unsupported_on_device`, illegal geometry `launch_error`.
    fn prepare(&mut self, evaluation: &Evaluation) -> Result<(), Failure>;

    /// Overwrites buffer `index` (order of [`Evaluation::buffers`]); `bytes` has exactly its size.
    fn write(&mut self, index: usize, bytes: &[u8]) -> Result<(), Failure>;

    /// Fills buffer `index` with `byte`.
    fn fill(&mut self, index: usize, byte: u8) -> Result<(), Failure>;

    /// Evaluates the whole plan once and waits for it. The time is by the clock of record of this backend.
    /// Faults, endless kernels (killed at the limit) and dead workers come back as the outcome they mean.
    fn launch(&mut self) -> Result<Picoseconds, Failure>;

    /// Copies buffer `index` out. `in` buffers are copied too, so that the caller sees changed inputs.
    fn read(&mut self, index: usize) -> Result<Vec<u8>, Failure>;

    /// Copies some elements of buffer `index` out, each `width` bytes wide, in the order given: a look at every launch
    /// that costs little beside it.
    fn sample(&mut self, index: usize, elements: &[u64], width: u64) -> Result<Vec<u8>, Failure> {
        let bytes = self.read(index)?;
        let element = |element: &u64| {
            let at = usize::try_from(element.checked_mul(width)?).ok()?;
            bytes.get(at..at.checked_add(usize::try_from(width).ok()?)?)
        };
        Ok(elements.iter().filter_map(element).flatten().copied().collect())
    }

    /// Checks canaries and guard zones after the last launch; a hit is `contract_violation` with buffer and
    /// offset, and thread and line where the device can tell.
    fn check_fences(&mut self) -> Result<(), Failure>;

    /// Trades buffers with the other side of its pair, each (own, the other's) of equal size, with all that is in and
    /// around them. A device whose sides share no address space has nothing to trade, and refuses.
    fn trade(&mut self, buffers: &[(usize, usize)]) -> Result<(), Failure> {
        let _unused = buffers;
        let cause = Cause {
            code: "time/placement".to_owned(),
            message: "this device cannot trade the buffers of its two sides, as the policy asks".to_owned(),
            ..Cause::default()
        };
        let hint = "take a policy that leaves them where they are";
        let (status, stage) = (Status::Infrastructure, Stage::Time);
        Err(Failure::new(Outcome::failed(status, stage, Blame::Fleet, cause, hint)))
    }

    /// Whether another implementation runs in the same address space.
    fn company(&self) -> Company {
        Company::Alone
    }

    /// What belongs beside the times of this worker: floor of its clock, state of its caches.
    fn facts(&self) -> Facts {
        Facts::new()
    }

    /// What the candidate has printed in this process up to now: for people, bounded, never read for a verdict. Empty
    /// where a device keeps nothing of it.
    fn printed(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Lets the implementation begin anew: what it keeps in memory of its own is as it was when it was opened. A kind of
    /// worker that cannot is ended and opened again instead.
    fn renew(&mut self) -> Result<(), Failure> {
        let cause = Cause {
            code: "prepare/infrastructure".to_owned(),
            message: "this kind of worker cannot begin anew".to_owned(),
            ..Cause::default()
        };
        let (status, stage) = (Status::Infrastructure, Stage::Prepare);
        Err(Failure::new(Outcome::failed(status, stage, Blame::Fleet, cause, "open another one")))
    }

    /// From now on waits end when `interrupt` says so, and no more by the one that the worker was opened with.
    fn attend(&mut self, interrupt: &Interrupt) {
        let _unused = interrupt;
    }

    /// Ends the process and waits for it, whoever else uses it. Outputs read before stay with the caller.
    fn finish(self: Box<Self>);
}

/// Everything that a compiler may read, and how.
#[derive(Debug, Clone)]
pub struct CompileRequest {
    pub sources: Sources,
    /// Header trees of the task, each under its own include root.
    pub headers: Vec<Sources>,
    /// Kernels that the launch plan names.
    pub entries: Vec<EntryPoint>,
    pub architecture: Architecture,
    pub policy: MeasurementPolicy,
    pub limit: Milliseconds,
    /// An empty folder of this job, the only place that the compiler may write to.
    pub folder: PathBuf,
    pub confinement: Confinement,
    pub interrupt: Interrupt,
}

/// Whether somebody wants the work in hand to end now. Long waits ask it several times a second.
#[derive(Clone)]
pub struct Interrupt(Arc<dyn Fn() -> bool + Send + Sync>);

impl Interrupt {
    /// Work that nobody interrupts.
    pub fn never() -> Self {
        Self::when(|| false)
    }
    /// Work that is to end once `asked` says so.
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(asked))
    }
    /// Whether it is to end.
    pub fn asked(&self) -> bool {
        (self.0)()
    }
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Interrupt").field(&self.asked()).finish()
    }
}

/// The files of a source tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// Path of the file that is compiled.
    pub main: String,
    pub files: BTreeMap<String, Vec<u8>>,
}

/// A kernel that will be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPoint {
    pub name: String,
    /// The declaration that it must match (the task's entry), or `None` for a candidate's own kernels.
    pub signature: Option<String>,
}

/// A loadable file with how it was made.
#[derive(Debug, Clone)]
pub struct Artefact {
    pub path: PathBuf,
    /// What the file must still be when it is loaded.
    pub blob: BlobRef,
    /// Digest of everything that the compiler could read plus its arguments.
    pub key: Digest,
    pub compiler: String,
    pub flags: Vec<String>,
    pub log: String,
    pub resources: BTreeMap<String, u64>,
    /// Whether this artefact may leave the machine (cubins may, host code never does).
    pub portability: Portability,
    /// Name of the file that line numbers refer to.
    pub main: String,
}

/// Whether an artefact may run elsewhere than where it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Portability {
    ThisMachine,
    Architecture,
}

/// How a worker is started.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// An empty folder of this job; the worker's working directory.
    pub folder: PathBuf,
    pub confinement: Confinement,
    /// One launch, its wait included.
    pub launch_limit: Milliseconds,
    /// Upper bound of all buffers together, in bytes.
    pub memory: u64,
    pub interrupt: Interrupt,
}

/// A launch plan resolved for one case: numbers only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    pub case: String,
    pub buffers: Vec<Buffer>,
    pub steps: Vec<ResolvedStep>,
}

/// One buffer in device memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    pub name: String,
    pub use_: BufferUse,
    pub element: ElementType,
    /// Size in bytes.
    pub bytes: u64,
}

/// Whose buffer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferUse {
    Parameter(Role),
    Scratch,
}

/// One step with its geometry known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolvedStep {
    Kernel {
        /// Index into [`CompileRequest::entries`].
        entry: usize,
        name: String,
        grid: [u64; 3],
        block: [u64; 3],
        shared_bytes: u64,
        arguments: Vec<Argument>,
        cooperative: bool,
        cluster: Option<[u32; 3]>,
    },
    Memset {
        buffer: usize,
        byte: u8,
    },
}

/// One argument of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// Index into [`Evaluation::buffers`].
    Buffer(usize),
    /// Little-endian bytes of a scalar passed by value.
    Scalar(Vec<u8>),
}

/// An outcome other than `ok`, with the log that explains it.
#[derive(Debug, Clone)]
pub struct Failure {
    pub outcome: Box<Outcome>,
    /// Compiler log or captured output; bounded; becomes a blob.
    pub log: Option<Vec<u8>>,
}

impl Failure {
    /// A failure without a log.
    pub fn new(outcome: Outcome) -> Self {
        Self { outcome: Box::new(outcome), log: None }
    }
    /// The same with a log.
    pub fn with_log(outcome: Outcome, log: impl Into<Vec<u8>>) -> Self {
        Self { outcome: Box::new(outcome), log: Some(log.into()) }
    }
}
