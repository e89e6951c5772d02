//! CUDA devices: NVRTC makes cubins in a sandboxed child, a worker process per candidate launches them.
//!
//! ```text
//! source ─ glue ─► nvrtc-compile (sandbox) ─► cubin, checked, kept by key ─► worker-cuda (sandbox)
//!                        │                                                    │ socket: orders and answers
//!                   diagnostics                                supervisor: deadlines, limits, what answers mean
//! probe-cuda (sandbox) ─► devices                              NVML: what the device is doing
//! ```
//! Nothing of NVIDIA is linked: without a driver this backend has no device and says why; without a device it still
//! compiles. The node itself never loads the driver or NVRTC.

mod absence;
mod architecture;
mod assembly;
mod attributes;
mod compile;
mod compile_only;
mod compiler_child;
mod compiler_run;
mod conditions;
mod cubin;
mod diagnostics;
mod driver;
mod effort;
mod failure;
mod fence;
mod gather;
mod glue;
mod implementation;
#[doc(hidden)]
pub mod intake;
mod limits;
mod meaning;
mod nvrtc;
mod occupancy;
mod offline;
mod pool;
mod probe;
mod process;
mod protocol;
mod sanitizer;
mod selfcheck;
mod standby;
mod supervisor;
mod toolchain;
mod toolkit;
mod usage;
mod worker;

pub use absence::Absence;
pub use compile::CompilerError;
pub(crate) use compile_only::occupancy_of;
pub use compile_only::{CompileOnlyBackend, CompileOnlyError};
pub use compiler_child::nvrtc_compile_main;
pub use occupancy::{Bound, Occupancy};
pub use offline::{
    KernelRow, OfflineArguments, OfflineError, OfflineReport, Row, ThreadsFrom, compile_offline,
};
pub use pool::Target;
pub use probe::probe_cuda_main;
pub use selfcheck::{Beside, SelfCheck, self_check};
pub use toolchain::ToolchainFacts;
pub use toolkit::{Origin, VARIABLE as NVRTC_VARIABLE};
pub use usage::Usage;
pub use worker::worker_main;

use super::pair::{PairParty, PairRequest, Setting, Side, SideFailure};
use super::screen::{Missing, ScreenOffer, ScreenRequest, Screening};
use super::{Artefact, Backend, CompileRequest, Duty, Failure, Worker, WorkerOptions};
use crate::clock;
use crate::device_lock::{DeviceGuard, DeviceLock};
use crate::health::Event;
use crate::probe::nvidia::{self, Reports, SAMPLE_EVERY, Watch};
use crate::sandbox::Confinement;
use compile::{Compiler, Description, read_bounded};
use effort::{Effort, Spent};
use failure::infrastructure;
use fleet_config::domain::{BlobRef, DeviceDescription, DeviceId, DeviceKind, Fact, Facts, Stage, field};
use limits::DeviceLimits;
use pool::{InUse, Pool, Use};
use process::Source;
use protocol::Seat;
use sanitizer::{Subject, Tool};
use standby::{Living, Starter};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use supervisor::{CudaWorker, Home, Opening, open_pair};

/// The CUDA devices of a node, and its NVRTC.
#[derive(Debug)]
pub struct CudaBackend {
    devices: Vec<Device>,
    /// Looked for when first asked: it loads a library of 100 MB.
    compiler: OnceLock<Result<Compiler, CompilerError>>,
    newest_major: Option<i32>,
    cache: PathBuf,
    confinement: Confinement,
    /// Where NVRTC is looked for, in place of the usual places.
    named_nvrtc: Option<PathBuf>,
    absence: Option<Absence>,
    lock: DeviceLock,
    reports: Reports,
    /// Looked for when first asked.
    sanitizer: OnceLock<Result<Tool, Missing>>,
}

#[derive(Debug)]
struct Device {
    description: DeviceDescription,
    limits: DeviceLimits,
    source: Source,
    seen: Mutex<Seen>,
}

/// What was told of a device already.
#[derive(Debug, Default)]
struct Seen {
    memory_errors: Option<u64>,
    is_slow: bool,
}

/// Workers that stand by for each device, unless the operator says otherwise: an attempt of three cases uses nine.
pub const STANDBY: usize = 8;
/// Memory of the device for each context that stands by: a context takes about half a gigabyte of a large device.
const MEMORY_EACH: u64 = 16 << 30;
/// Threads that make stand-bys for one device: starting a driver is work of one core for a fifth of a second.
const KEEPERS_MAX: usize = 4;

impl CudaBackend {
    /// Looks for devices. Artefacts are kept in `cache`, an absolute path. Never fails: what is not there
    /// is told by [`CudaBackend::absence`] and [`CudaBackend::compiler`]. Blocks for up to some seconds. `standby` workers
    /// are kept ready for each device; with 0 every worker is started when it is needed.
    pub fn discover(cache: &Path, confinement: Confinement, standby: usize) -> Self {
        let cache = cache.join("cuda");
        let workers = cache.join("workers");
        // What a node that was killed left behind; no other process uses this cache.
        let _ = std::fs::remove_dir_all(&workers);
        let describe = |device: &driver::Described, version| {
            let living = Living::default();
            let starter = Starter::new(&device.uuid, confinement, workers.clone(), living);
            describe(device, version, Arc::new(starter), standby)
        };
        let (devices, cuda_version, absence) = match probe::find(&cache, confinement) {
            Ok(found) => {
                let version = found.cuda_version;
                let devices: Vec<Device> =
                    found.devices.iter().filter_map(|device| describe(device, version)).collect();
                let absence = devices.is_empty().then(|| Absence {
                    cause: "the driver offers no usable device".to_owned(),
                    next: "see whether `nvidia-smi -L` lists a GPU, and look at CUDA_VISIBLE_DEVICES"
                        .to_owned(),
                });
                (devices, Some(version), absence)
            }
            Err(absence) => (Vec::new(), None, Some(absence)),
        };
        let uuids = devices.iter().map(|device| device.description.id.0.clone()).collect();
        Self {
            reports: Reports::listen(uuids),
            devices,
            compiler: OnceLock::new(),
            newest_major: cuda_version.map(|version| version / 1000),
            cache,
            confinement,
            named_nvrtc: None,
            absence,
            lock: DeviceLock::of_this_machine(),
            sanitizer: OnceLock::new(),
        }
    }

    /// Looks for NVRTC in `named` alone, if it is given: files and folders, separated by colons.
    #[must_use]
    pub fn with_nvrtc(mut self, named: Option<PathBuf>) -> Self {
        self.named_nvrtc = named;
        self
    }

    /// Why there is no device, where there is none.
    pub fn absence(&self) -> Option<&str> {
        self.absence.as_ref().map(|absence| absence.cause.as_str())
    }

    /// What to do about it.
    pub fn absence_next(&self) -> Option<&str> {
        self.absence.as_ref().map(|absence| absence.next.as_str())
    }

    /// What is told of every usable NVRTC, best first, and what is wrong with the others.
    pub fn toolchains(&self) -> Result<(Vec<ToolchainFacts>, Vec<String>), String> {
        let compiler = self.nvrtc().map_err(ToString::to_string)?;
        let facts = compiler.toolchains().all().iter().map(|toolchain| toolchain.facts());
        let facts = facts.collect::<Result<Vec<_>, _>>().map_err(|failure| toolchain::message(&failure))?;
        Ok((facts, compiler.toolchains().refusals.clone()))
    }

    /// Where the compiler lies, or why there is none.
    pub fn compiler(&self) -> Result<&Path, &CompilerError> {
        self.nvrtc().map(Compiler::path)
    }

    /// Waits until as many workers stand by on `device` as are wanted, at most `limit`; how many have a context then.
    pub fn stand_by(&self, device: &DeviceId, limit: Duration) -> usize {
        let Ok(found) = self.device(device) else { return 0 };
        found.source.pool.fill(limit)
    }

    fn nvrtc(&self) -> Result<&Compiler, &CompilerError> {
        let chosen = self.compiler.get_or_init(|| {
            let found = toolkit::search(&toolkit::Surroundings::of_process(self.named_nvrtc.as_deref()));
            Compiler::choose(found, self.newest_major, self.cache.clone(), self.confinement)
        });
        chosen.as_ref()
    }

    fn sanitizer(&self) -> Result<&Tool, &Missing> {
        let found = self.sanitizer.get_or_init(|| {
            let unready = |error: std::io::Error| Missing {
                cause: format!("compute-sanitizer cannot be looked at: {error}"),
                next: "look at the rights and the space of the node's cache".to_owned(),
            };
            let folder = self.cache.join("sanitizer");
            std::fs::create_dir_all(&folder).map_err(unready)?;
            Tool::find(&folder, self.confinement)
        });
        found.as_ref()
    }

    fn device(&self, id: &DeviceId) -> Result<&Device, Failure> {
        let found = self.devices.iter().find(|device| device.description.id == *id);
        found.ok_or_else(|| {
            infrastructure(Stage::Prepare, "open a worker", &format!("there is no device {id} here"))
        })
    }

    fn home<'a>(&'a self, device: &'a Device) -> Home<'a> {
        Home { limits: &device.limits, source: &device.source }
    }
}

fn describe(
    device: &driver::Described,
    cuda_version: i32,
    starter: Arc<Starter>,
    standby: usize,
) -> Option<Device> {
    let driver::Described { uuid, name, memory, capability: (major, minor), l2_bytes, limits, attributes } =
        device;
    let architecture = architecture::of_capability(*major, *minor)?;
    let mut identity = Facts::from([
        (field::DEVICE_MODEL.to_owned(), Fact::Text(name.clone())),
        (field::DEVICE_UUID.to_owned(), Fact::Text(uuid.clone())),
        (field::DEVICE_MEMORY.to_owned(), Fact::Count(*memory)),
        (field::ARCHITECTURE.to_owned(), Fact::Text(architecture.as_str().to_owned())),
        (field::MULTIPROCESSORS.to_owned(), Fact::Count(limits.multiprocessors)),
        (field::CACHE_L2.to_owned(), Fact::Count(*l2_bytes)),
    ]);
    for name in [field::CORES_PHYSICAL, field::CORES_LOGICAL] {
        identity.insert(name.to_owned(), Fact::Unknown("a GPU has no CPU cores".to_owned()));
    }
    for row in &attributes::ROWS {
        let known = attributes.get(row.name).and_then(|value| u64::try_from(*value).ok());
        let fact = known.map_or_else(|| Fact::Unknown("the driver does not tell".to_owned()), Fact::Count);
        identity.insert(row.name.to_owned(), fact);
    }
    identity.extend(nvidia::identity(uuid));
    let configuration = nvidia::configuration(uuid, cuda_version);
    let description = DeviceDescription {
        id: DeviceId(uuid.clone()),
        kind: DeviceKind::Gpu,
        architecture,
        memory: *memory,
        identity,
        configuration,
        attributes: limits.attributes(),
    };
    let contexts = usize::try_from(memory / MEMORY_EACH).unwrap_or(usize::MAX).max(1);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let target = Target { workers: standby, contexts };
    let pool = Pool::new(Arc::clone(&starter), target, (cores / 4).clamp(1, KEEPERS_MAX));
    let source = Source { starter, pool: Arc::new(pool), memory: *memory, effort: Effort::default() };
    Some(Device { description, limits: limits.clone(), source, seen: Mutex::default() })
}

/// A device that this node has, and what it is used for.
struct Claimed {
    from: Duration,
    effort: Effort,
    // In this order, the reverse of taking: another node gets the device when nothing stirs on it.
    _use: InUse<Arc<Starter>>,
    _lock: DeviceGuard,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.effort.add(Spent::Held, self.from);
    }
}

/// What `party` is, read back and checked: what is launched is what the checked file says.
fn opening<'a>(device: &Device, party: PairParty<'a>) -> Result<Opening<'a>, Failure> {
    let PairParty { artefact, options } = party;
    let failed = |error: &dyn std::fmt::Display| infrastructure(Stage::Prepare, "load the artefact", error);
    let cubin = read_bounded(&artefact.path, nvrtc::CUBIN_MAX as u64).map_err(|error| failed(&error))?;
    let description = Description::beside(&artefact.path).map_err(|error| failed(&error))?;
    if BlobRef::of(&cubin) != artefact.blob {
        return Err(failed(&"the file has changed since it was compiled"));
    }
    let architecture = &device.description.architecture;
    let number =
        architecture::number(architecture).ok_or_else(|| failed(&format!("{architecture} has no number")))?;
    let kernels = cubin::kernels(&cubin, number).map_err(|error| failed(&error))?;
    // The description is a convenience.
    if !description.kernels.iter().all(|kernel| kernels.contains(kernel)) {
        return Err(failed(&"its description names kernels that it does not have"));
    }
    Ok(Opening { description, cubin, options })
}

impl Backend for CudaBackend {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn devices(&self) -> Vec<DeviceDescription> {
        self.devices.iter().map(|device| device.description.clone()).collect()
    }

    fn compile(&self, request: &CompileRequest) -> Result<Artefact, Failure> {
        match self.nvrtc() {
            Ok(compiler) => compiler.compile(request),
            Err(error) => Err(infrastructure(Stage::Compile, "compile CUDA", error)),
        }
    }

    fn open(
        &self,
        device: &DeviceId,
        artefact: &Artefact,
        launch: &WorkerOptions,
    ) -> Result<Box<dyn Worker>, Failure> {
        let device = self.device(device)?;
        let opening = opening(device, PairParty { artefact, options: launch })?;
        Ok(Box::new(CudaWorker::alone(self.home(device), opening)?))
    }

    fn open_pair(
        &self,
        device: &DeviceId,
        pair: &PairRequest<'_>,
    ) -> Result<[Box<dyn Worker>; 2], SideFailure> {
        let on = |side: Side| move |failure: Failure| SideFailure { side, failure };
        let cache = match pair.setting {
            Setting::Apart => {
                let open = |side: Side| {
                    let PairParty { artefact, options } = pair.party(side);
                    self.open(device, artefact, options).map_err(on(side))
                };
                return Ok([open(Side::Baseline)?, open(Side::Candidate)?]);
            }
            Setting::Together(cache) => cache.into(),
        };
        let device = self.device(device).map_err(on(Side::Baseline))?;
        let baseline = opening(device, pair.baseline).map_err(on(Side::Baseline))?;
        let candidate = opening(device, pair.candidate).map_err(on(Side::Candidate))?;
        let opened = open_pair(self.home(device), cache, [baseline, candidate]);
        let [baseline, candidate] = opened.map_err(|(seat, failure)| match seat {
            Seat::First => SideFailure { side: Side::Baseline, failure },
            Seat::Second => SideFailure { side: Side::Candidate, failure },
        })?;
        Ok([Box::new(baseline), Box::new(candidate)])
    }

    fn claim(
        &self,
        device: &DeviceId,
        duty: Duty,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Box<dyn Send>, Failure> {
        let Source { pool, effort, .. } = &self.device(device)?.source;
        let failed = |error: &dyn std::fmt::Display| {
            infrastructure(Stage::Prepare, "have the GPU for this node", error)
        };
        let lock = self.lock.claim(&device.0, give_up).map_err(|error| failed(&error))?;
        let from = clock::monotonic();
        let use_ = match duty {
            Duty::Validating => Use::Validating,
            Duty::Timing => Use::Timing,
        };
        let in_use = pool.begin(use_, give_up).ok_or_else(|| failed(&"workers are still ending on it"))?;
        Ok(Box::new(Claimed { from, effort: effort.clone(), _use: in_use, _lock: lock }))
    }

    fn screens(&self) -> Vec<ScreenOffer> {
        if self.devices.is_empty() { Vec::new() } else { sanitizer::offers(self.sanitizer()) }
    }

    fn screen(&self, device: &DeviceId, request: &ScreenRequest<'_>) -> Result<Screening, Failure> {
        let device = self.device(device)?;
        let opening = opening(device, PairParty { artefact: request.artefact, options: request.worker })?;
        let kernels = &opening.description.kernels;
        limits::check(&device.limits, kernels, request.evaluation, request.worker.memory)?;
        device.source.pool.settle();
        let subject = Subject { device: &device.description.id.0, kernels, cubin: &opening.cubin };
        sanitizer::run(self.sanitizer(), &subject, request)
    }

    fn volatile(&self, device: &DeviceId) -> Facts {
        let Ok(found) = self.device(device) else { return nvidia::volatile(&device.0, &BTreeSet::new()) };
        let Source { starter, effort, .. } = &found.source;
        let mut facts = nvidia::volatile(&device.0, &starter.living.ids());
        facts.extend(effort.facts());
        facts
    }

    fn reports(&self, device: &DeviceId, lag: Duration) -> Vec<Event> {
        let Ok(found) = self.device(device) else { return Vec::new() };
        let mut events: Vec<Event> = self.reports.take(&device.0, lag).into_iter().map(Event::Xid).collect();
        let (errors, slowed) = nvidia::condition(&device.0);
        let mut seen = found.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(errors) = errors {
            // Errors from before this node was started are history.
            let before = seen.memory_errors.replace(errors).unwrap_or(errors);
            events.extend((errors > before).then(|| Event::MemoryErrors(errors - before)));
        }
        let was_slow = std::mem::replace(&mut seen.is_slow, !slowed.is_empty());
        events.extend(slowed.into_iter().filter(|_| !was_slow).map(Event::Slowed));
        events
    }

    fn watch(&self, device: &DeviceId) -> Option<Watch> {
        let living = self.device(device).ok()?.source.starter.living.clone();
        let uuid = device.0.clone();
        Some(Watch::start(SAMPLE_EVERY, move || nvidia::sample(&uuid, &living.ids())))
    }
}

/// The folder that offline compiling uses unless another is named: below the user's cache.
fn default_cache() -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    path("XDG_CACHE_HOME")
        .or_else(|| path("HOME").map(|home| home.join(".cache")))
        .map(|root| root.join("muster"))
}
