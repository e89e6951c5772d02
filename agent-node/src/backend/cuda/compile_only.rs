//! Compile-only devices: NVRTC without a GPU, offered to a fleet as one device for each architecture.
//!
//! Such a device says what a candidate uses and what is wrong with it. It launches nothing: its results have resources
//! and no times, and are never ranked.

use super::compile::{Compiler, Description};
use super::failure::infrastructure;
use super::occupancy::{self, Block};
use super::toolchain::message;
use super::{CompilerError, architecture, toolkit};
use crate::backend::{
    Artefact, Backend, CompileRequest, Evaluation, Failure, ResolvedStep, Worker, WorkerOptions,
};
use crate::sandbox::Confinement;
use fleet_config::domain::{
    Architecture, DeviceDescription, DeviceId, DeviceKind, Fact, Facts, Stage, field,
};
use std::collections::BTreeMap;
use std::path::Path;

/// What a device without a device has for memory: the bound of whole numbers in records. Nothing is allocated.
const MEMORY: u64 = (1 << 53) - 1;
/// In the place of a device's model.
const MODEL: &str = "no device (compile only)";

/// Compilers without devices.
#[derive(Debug)]
pub struct CompileOnlyBackend {
    compiler: Compiler,
    devices: Vec<DeviceDescription>,
}

/// Why there is nothing to offer.
#[derive(Debug, thiserror::Error)]
pub enum CompileOnlyError {
    #[error(transparent)]
    Compiler(#[from] CompilerError),
    #[error("{0}")]
    Toolchain(String),
}

impl CompileOnlyBackend {
    /// Looks for compilers and makes a device for each of `wanted` that one of them knows, or for all that they know where
    /// `wanted` is empty. The second half names those that nobody here knows. `node_key` makes the devices' names.
    pub fn discover(
        wanted: &[Architecture],
        nvrtc: Option<&Path>,
        cache: &Path,
        confinement: Confinement,
        node_key: &[u8; 32],
    ) -> Result<(Self, Vec<String>), CompileOnlyError> {
        let found = toolkit::search(&toolkit::Surroundings::of_process(nvrtc));
        let compiler = Compiler::choose(found, None, cache.join("cuda"), confinement)?;
        let toolchains = compiler.toolchains();
        let wanted = if wanted.is_empty() { toolchains.architectures() } else { wanted.to_vec() };
        let (mut devices, mut unknown) = (Vec::new(), Vec::new());
        for architecture in wanted {
            match toolchains.select(&architecture, None) {
                Ok((toolchain, number)) => {
                    let name = toolchain.name();
                    let name = name.map_err(|failure| CompileOnlyError::Toolchain(message(&failure)))?;
                    devices.push(described(&architecture, number, &name, node_key));
                }
                Err(failure) => unknown.push(message(&failure)),
            }
        }
        Ok((Self { compiler, devices }, unknown))
    }
}

fn described(
    architecture: &Architecture,
    number: u32,
    compiler: &str,
    node_key: &[u8; 32],
) -> DeviceDescription {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"muster.compile-device/1\0").update(node_key).update(architecture.as_str().as_bytes());
    let hex = hasher.finalize().to_hex();
    let id = format!("COMPILE-{}", hex.get(..32).expect("invariant: a blake3 hash has 64 digits"));
    let text = |text: &str| Fact::Text(text.to_owned());
    let mut identity = Facts::from([
        (field::DEVICE_MODEL.to_owned(), text(MODEL)),
        (field::DEVICE_UUID.to_owned(), text(&id)),
        (field::ARCHITECTURE.to_owned(), text(architecture.as_str())),
    ]);
    let absent = || Fact::Unknown("compile only: there is no device".to_owned());
    for name in [
        field::DEVICE_MEMORY,
        field::MULTIPROCESSORS,
        field::CACHE_L2,
        field::CORES_PHYSICAL,
        field::CORES_LOGICAL,
    ] {
        identity.insert(name.to_owned(), absent());
    }
    let mut configuration = Facts::from([(field::COMPILER.to_owned(), text(compiler))]);
    for name in [field::DRIVER, field::POWER_LIMIT, field::ECC, field::MIG, field::CLOCK_POLICY, field::SMT] {
        configuration.insert(name.to_owned(), absent());
    }
    DeviceDescription {
        id: DeviceId(id),
        kind: DeviceKind::Compile,
        architecture: architecture.clone(),
        memory: MEMORY,
        identity,
        configuration,
        attributes: occupancy::attributes(number),
    }
}

impl Backend for CompileOnlyBackend {
    fn name(&self) -> &'static str {
        "compile-only"
    }

    fn devices(&self) -> Vec<DeviceDescription> {
        self.devices.clone()
    }

    fn compile(&self, request: &CompileRequest) -> Result<Artefact, Failure> {
        self.compiler.compile(request)
    }

    fn open(
        &self,
        device: &DeviceId,
        _artefact: &Artefact,
        _launch: &WorkerOptions,
    ) -> Result<Box<dyn Worker>, Failure> {
        Err(infrastructure(
            Stage::Validate,
            "open a worker",
            &format!("{device} compiles only and launches nothing"),
        ))
    }

    fn volatile(&self, _device: &DeviceId) -> Facts {
        Facts::new()
    }
}

/// Occupancy of the artefact's kernels at the blocks of `evaluation`, in thousandths: `occupancy_permille` of the worst, and
/// of each by its symbol. Empty where the architecture's limits are not known.
pub(crate) fn occupancy_of(
    artefact: &Artefact,
    target: &Architecture,
    evaluation: &Evaluation,
) -> BTreeMap<String, u64> {
    let (Ok(description), Some(number)) = (Description::beside(&artefact.path), architecture::number(target))
    else {
        return BTreeMap::new();
    };
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for step in &evaluation.steps {
        let ResolvedStep::Kernel { entry, block, shared_bytes, .. } = step else { continue };
        let Some(usage) = description.usage.get(*entry) else { continue };
        let block = Block {
            threads: block.iter().fold(1, |product, side| product.saturating_mul(*side)),
            registers: usage.registers.unwrap_or(0),
            shared_bytes: usage.shared_bytes.saturating_add(*shared_bytes),
            barriers: usage.barriers.unwrap_or(0),
        };
        let Some(occupancy) = occupancy::occupancy(number, block) else { continue };
        for name in [format!("{}.occupancy_permille", usage.symbol), "occupancy_permille".to_owned()] {
            let least = found.entry(name).or_insert(occupancy.permille);
            *least = occupancy.permille.min(*least);
        }
    }
    found
}
