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

mod architecture;
mod compile;
mod compiler_child;
mod compiler_run;
mod conditions;
mod cubin;
mod diagnostics;
mod driver;
mod failure;
mod fence;
mod gather;
mod glue;
mod implementation;
mod limits;
mod meaning;
mod nvrtc;
mod offline;
mod probe;
mod process;
mod protocol;
mod selfcheck;
mod supervisor;
mod toolkit;
mod worker;

pub use compile::CompilerError;
pub use compiler_child::nvrtc_compile_main;
pub use offline::{OfflineArguments, OfflineError, Row, compile_offline};
pub use probe::probe_cuda_main;
pub use selfcheck::{SelfCheck, self_check};
pub use toolkit::VARIABLE as NVRTC_VARIABLE;
pub use worker::worker_main;

use super::pair::{PairParty, PairRequest, Setting, Side, SideFailure};
use super::{Artefact, Backend, CompileRequest, Failure, Worker, WorkerOptions};
use crate::device_lock::DeviceLock;
use crate::probe::nvidia;
use crate::sandbox::Confinement;
use compile::{Compiler, Description, read_bounded};
use failure::infrastructure;
use fleet_config::domain::{BlobRef, DeviceDescription, DeviceId, DeviceKind, Fact, Facts, Stage, field};
use limits::DeviceLimits;
use process::Living;
use protocol::Seat;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
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
    absence: Option<String>,
    living: Living,
    lock: DeviceLock,
}

#[derive(Debug)]
struct Device {
    description: DeviceDescription,
    limits: DeviceLimits,
}

impl CudaBackend {
    /// Looks for devices. Artefacts are kept in `cache`, an absolute path. Never fails: what is not there
    /// is told by [`CudaBackend::absence`] and [`CudaBackend::compiler`]. Blocks for up to some seconds.
    pub fn discover(cache: &Path, confinement: Confinement) -> Self {
        let cache = cache.join("cuda");
        let (devices, cuda_version, absence) = match probe::find(&cache, confinement) {
            Ok(found) => {
                let version = found.cuda_version;
                let devices: Vec<Device> =
                    found.devices.iter().filter_map(|device| describe(device, version)).collect();
                let absence = devices.is_empty().then(|| "the driver offers no usable device".to_owned());
                (devices, Some(version), absence)
            }
            Err(reason) => (Vec::new(), None, Some(reason)),
        };
        Self {
            devices,
            compiler: OnceLock::new(),
            newest_major: cuda_version.map(|version| version / 1000),
            cache,
            confinement,
            absence,
            living: Living::default(),
            lock: DeviceLock::of_this_machine(),
        }
    }

    /// Why there is no device, where there is none.
    pub fn absence(&self) -> Option<&str> {
        self.absence.as_deref()
    }

    /// Where the compiler lies, or why there is none.
    pub fn compiler(&self) -> Result<&Path, &CompilerError> {
        self.nvrtc().map(Compiler::path)
    }

    fn nvrtc(&self) -> Result<&Compiler, &CompilerError> {
        let chosen = self.compiler.get_or_init(|| {
            let found = toolkit::search(&toolkit::Surroundings::of_process());
            Compiler::choose(found, self.newest_major, self.cache.clone(), self.confinement)
        });
        chosen.as_ref()
    }

    fn device(&self, id: &DeviceId) -> Result<&Device, Failure> {
        let found = self.devices.iter().find(|device| device.description.id == *id);
        found.ok_or_else(|| {
            infrastructure(Stage::Prepare, "open a worker", &format!("there is no device {id} here"))
        })
    }

    fn home<'a>(&'a self, device: &'a Device) -> Home<'a> {
        Home { uuid: &device.description.id.0, limits: &device.limits, living: &self.living }
    }
}

fn describe(device: &driver::Described, cuda_version: i32) -> Option<Device> {
    let driver::Described { uuid, name, memory, capability: (major, minor), l2_bytes, limits } = device;
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
    Some(Device { description, limits: limits.clone() })
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

    fn claim(&self, device: &DeviceId, give_up: &dyn Fn() -> bool) -> Result<Box<dyn Send>, Failure> {
        match self.lock.claim(&device.0, give_up) {
            Ok(guard) => Ok(Box::new(guard)),
            Err(error) => Err(infrastructure(Stage::Prepare, "have the GPU for this node", &error)),
        }
    }

    fn volatile(&self, device: &DeviceId) -> Facts {
        nvidia::volatile(&device.0, self.living.count())
    }
}

/// The folder that offline compiling uses unless another is named: below the user's cache.
fn default_cache() -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    path("XDG_CACHE_HOME")
        .or_else(|| path("HOME").map(|home| home.join(".cache")))
        .map(|root| root.join("muster"))
}
