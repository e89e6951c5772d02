//! The devices that this node offers, each with the backend that drives it.

use crate::backend::Backend;
use crate::backend::cpu::{
    ArtefactCache, CpuBackend, Toolchain, ToolchainError, USUAL_COMPILERS, attributes,
};
use crate::backend::cuda::{CompileOnlyBackend, CudaBackend};
use crate::probe::{Host, cpu_device_id, cpu_levels, host_configuration, host_identity};
use crate::sandbox::{self, Confinement, Level, Profile};
use fleet_config::domain::{Architecture, DeviceDescription, DeviceKind, Fact, Facts, field};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::Harness;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Memory of a machine whose kernel does not tell it: too little for real work, enough to say so by trying.
const MEMORY_UNKNOWN: u64 = 1 << 30;

/// One device with its backend.
#[derive(Clone)]
pub struct Offer {
    pub backend: Arc<dyn Backend>,
    pub description: DeviceDescription,
}

/// What the operator asked for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Levels of the CPU device; empty means the host's best.
    pub levels: Vec<Architecture>,
    /// Path of the compiler; `None` means the usual ones.
    pub compiler: Option<PathBuf>,
    /// Files and folders with NVRTC, separated by colons; `None` means the usual places.
    pub nvrtc: Option<PathBuf>,
    /// Architectures to compile for without running anything; none at all: every one that the compilers know.
    pub compile: Option<Vec<Architecture>>,
    pub confinement: Confinement,
    /// Public signing key of the node, which its device names are derived from.
    pub node_key: [u8; 32],
    pub harness: Harness,
    /// Folder of compiled artefacts.
    pub cache: PathBuf,
    /// Bytes of artefacts that are kept for each device.
    pub cache_bytes: u64,
    /// Workers that stand by for each GPU.
    pub standby: usize,
    /// An empty folder in which compilers are asked for their version.
    pub folder: PathBuf,
}

/// Refuses a machine whose kernel gives no sandbox, or not the one that is asked for, unless the operator said
/// otherwise. Answers with the level of the CPU device.
pub fn check_sandbox(confinement: Confinement) -> Result<Level, Refusal> {
    let refuse = |missing: String, next: &str| {
        let cause = format!("this machine cannot confine candidates so: {missing}");
        Err(Refusal::new("node/no-sandbox", "", cause, next))
    };
    let (least, next) = match confinement {
        Confinement::UnsafeNone => return Ok(Level::None),
        Confinement::Full => (Level::Full, "do that, or accept level `kernel` with --sandbox best"),
        Confinement::Required | Confinement::Kernel => (
            Level::Kernel,
            "use such a kernel, or run only candidates that you trust with --unsafe-no-sandbox; every record shows it",
        ),
    };
    match sandbox::probe().missing(least) {
        Some(missing) => refuse(missing, next),
        None => Ok(confinement.level_of(Profile::CpuWorker)),
    }
}

/// The CPU devices of this machine, one per level.
pub fn cpu_offers(wish: &Wish) -> Result<Vec<Offer>, Refusal> {
    let host_levels = cpu_levels();
    let levels = if wish.levels.is_empty() {
        host_levels.last().cloned().into_iter().collect()
    } else {
        wish.levels.clone()
    };
    if let Some(strange) = levels.iter().find(|level| !host_levels.contains(level)) {
        let known: Vec<&str> = host_levels.iter().map(Architecture::as_str).collect();
        return Err(Refusal::new(
            "node/level",
            strange.as_str(),
            format!("this machine cannot run that level; it runs {}", known.join(", ")),
            "name one of those with --level",
        ));
    }
    let toolchain = discover(wish)?;
    let threads =
        std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    let mut offers = Vec::new();
    for level in levels {
        if offers.iter().any(|offer: &Offer| offer.description.architecture == level) {
            continue;
        }
        let description = describe(wish, &level, &toolchain, threads);
        let cache = wish.cache.join(level.name());
        make_folder(&cache)?;
        let cache = ArtefactCache::new(cache, wish.cache_bytes);
        let backend = CpuBackend::new(toolchain.clone(), description.clone(), threads, cache);
        offers.push(Offer { backend: Arc::new(backend), description });
    }
    Ok(offers)
}

/// The CUDA devices of this machine; without one, the reason. Never an error: a machine without a GPU is a good node.
pub fn cuda_offers(wish: &Wish) -> (Vec<Offer>, Option<String>) {
    if wish.confinement == Confinement::Full {
        return (Vec::new(), Some("GPUs run at sandbox level `kernel`, and `full` is asked for".to_owned()));
    }
    let backend = CudaBackend::discover(&wish.cache, wish.confinement, wish.standby);
    let backend = Arc::new(backend.with_nvrtc(wish.nvrtc.clone()));
    if let (Some(cause), next) = (backend.absence(), backend.absence_next()) {
        return (Vec::new(), Some(format!("{cause}; {}", next.unwrap_or_default())));
    }
    // Without a compiler every candidate would fail on this node's account.
    if let Err(reason) = backend.compiler() {
        return (Vec::new(), Some(reason.to_string()));
    }
    let offer = |mut description: DeviceDescription| {
        set_node_facts(&mut description.configuration, wish, Profile::CudaWorker);
        Offer { backend: backend.clone(), description }
    };
    (backend.devices().into_iter().map(offer).collect(), None)
}

/// The architectures that this node compiles for without running anything, where the operator wants that; with what keeps
/// it from any of them.
pub fn compile_offers(wish: &Wish) -> (Vec<Offer>, Vec<String>) {
    let Some(wanted) = &wish.compile else { return (Vec::new(), Vec::new()) };
    let found = CompileOnlyBackend::discover(
        wanted,
        wish.nvrtc.as_deref(),
        &wish.cache,
        wish.confinement,
        &wish.node_key,
    );
    let (backend, lacking) = match found {
        Ok((backend, lacking)) => (Arc::new(backend), lacking),
        Err(error) => return (Vec::new(), vec![error.to_string()]),
    };
    let offer = |mut description: DeviceDescription| {
        let own = std::mem::take(&mut description.configuration);
        description.configuration = host_configuration();
        description.configuration.extend(own);
        set_node_facts(&mut description.configuration, wish, Profile::Worker);
        Offer { backend: backend.clone(), description }
    };
    (backend.devices().into_iter().map(offer).collect(), lacking)
}

/// What every device of this node has in common.
fn set_node_facts(facts: &mut Facts, wish: &Wish, runs_in: Profile) {
    let text = |text: &str| Fact::Text(text.to_owned());
    let mut set = |name: &str, fact: Fact| facts.insert(name.to_owned(), fact);
    set(field::SANDBOX, text(wish.confinement.level_of(runs_in).as_str()));
    set(field::SANDBOX_LAYERS, text(&sandbox::probe().layers(wish.confinement, runs_in)));
    set(field::HARNESS, text(&wish.harness.version));
    set(field::HARNESS_COMMIT, text(&wish.harness.commit));
    set(field::HARNESS_DIRTY, Fact::Flag(wish.harness.dirty));
}

fn discover(wish: &Wish) -> Result<Toolchain, Refusal> {
    make_folder(&wish.folder)?;
    let candidates = match &wish.compiler {
        Some(path) => vec![path.clone()],
        None => USUAL_COMPILERS.iter().map(PathBuf::from).collect(),
    };
    Toolchain::discover(&candidates, &wish.folder, wish.confinement).map_err(|error| {
        let (code, next) = match &error {
            ToolchainError::Missing(_) | ToolchainError::TooOld { .. } => {
                ("node/no-compiler", "install it (Debian: apt-get install g++) or name one with --compiler")
            }
            ToolchainError::Spawn { .. } | ToolchainError::Wait { .. } | ToolchainError::Read { .. } => {
                ("node/compiler", "run that compiler by hand, or name another with --compiler")
            }
        };
        let place = wish.compiler.as_deref().map(Path::display).map(|path| path.to_string());
        Refusal::new(code, place.unwrap_or_default(), error.to_string(), next)
    })
}

fn describe(wish: &Wish, level: &Architecture, toolchain: &Toolchain, threads: u32) -> DeviceDescription {
    let id = cpu_device_id(&Host::this(), &wish.node_key, level);
    let text = |text: &str| Fact::Text(text.to_owned());
    let mut identity = host_identity();
    identity.insert(field::DEVICE_UUID.to_owned(), text(&id.0));
    identity.insert(field::ARCHITECTURE.to_owned(), text(level.as_str()));
    let memory = match identity.get(field::DEVICE_MEMORY) {
        // The other half is for what the node keeps: expected values, inputs, outputs read back.
        Some(Fact::Count(bytes)) => bytes / 2,
        Some(Fact::Text(_) | Fact::Flag(_) | Fact::Unknown(_)) | None => MEMORY_UNKNOWN,
    };
    DeviceDescription {
        id,
        kind: DeviceKind::Cpu,
        architecture: level.clone(),
        memory,
        identity,
        configuration: configuration(wish, level, toolchain),
        attributes: attributes(threads),
    }
}

fn configuration(wish: &Wish, level: &Architecture, toolchain: &Toolchain) -> Facts {
    let text = |text: &str| Fact::Text(text.to_owned());
    let mut facts = host_configuration();
    let mut set = |name: &str, fact: Fact| facts.insert(name.to_owned(), fact);
    set(field::COMPILER, text(&toolchain.version));
    // The policy's own flags are in the comparability class through the policy.
    set(field::COMPILER_FLAGS, text(&format!("for {}, and those of the policy", level.name())));
    set_node_facts(&mut facts, wish, Profile::CpuWorker);
    facts
}

fn make_folder(path: &Path) -> Result<(), Refusal> {
    std::fs::create_dir_all(path)
        .map_err(|error| fleet_config::state::io(&path.display().to_string(), &error))
}
