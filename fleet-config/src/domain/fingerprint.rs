//! The environment fingerprint in three parts, and which of its fields make two numbers comparable.

use super::canonical::{CanonicalError, to_bytes};
use super::{ClassId, PolicyId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Raised by hand whenever measuring changes so that old and new times must not be compared.
pub const MEASURE_VERSION: u64 = 2;

/// Names of the documented fields.
pub mod field {
    // Identity: what the device is.
    /// `cpu`, `gpu` or `compile`: known of the device itself, and named in classes only.
    pub const DEVICE_KIND: &str = "device.kind";
    pub const DEVICE_MODEL: &str = "device.model";
    pub const DEVICE_UUID: &str = "device.uuid";
    pub const DEVICE_MEMORY: &str = "device.memory_bytes";
    pub const ARCHITECTURE: &str = "device.architecture";
    pub const MULTIPROCESSORS: &str = "device.multiprocessors";
    pub const CORES_PHYSICAL: &str = "cpu.cores_physical";
    pub const CORES_LOGICAL: &str = "cpu.cores_logical";
    pub const CPU_FEATURES: &str = "cpu.features";
    pub const CACHE_L2: &str = "device.l2_bytes";
    pub const CACHE_L3: &str = "device.l3_bytes";
    // Configuration: what somebody set.
    pub const DRIVER: &str = "driver.version";
    pub const POWER_LIMIT: &str = "power.limit_mw";
    pub const ECC: &str = "memory.ecc";
    pub const MIG: &str = "device.mig";
    pub const CLOCK_POLICY: &str = "clock.policy";
    pub const SMT: &str = "cpu.smt";
    pub const OS: &str = "os.name";
    pub const KERNEL_RELEASE: &str = "os.kernel_release";
    pub const LIBC: &str = "os.libc";
    pub const HYPERVISOR: &str = "os.hypervisor";
    pub const COMPILER: &str = "compiler.version";
    pub const COMPILER_FLAGS: &str = "compiler.flags";
    pub const SANDBOX: &str = "sandbox.level";
    pub const SANDBOX_LAYERS: &str = "sandbox.layers";
    pub const HARNESS: &str = "harness.version";
    pub const HARNESS_COMMIT: &str = "harness.commit";
    pub const HARNESS_DIRTY: &str = "harness.dirty";
    // Volatile: what it was doing.
    pub const LOAD_1M: &str = "load.1m_milli";
    pub const CLOCK_MHZ: &str = "clock.mhz";
    pub const TEMPERATURE: &str = "temperature.millicelsius";
    pub const POWER: &str = "power.mw";
    pub const THROTTLE: &str = "throttle.reasons";
    pub const CO_TENANTS: &str = "co_tenants.count";
    /// Time between two events with nothing between them.
    pub const EVENT_FLOOR: &str = "clock.event_floor_ps";
    /// Bytes that are overwritten before each timed launch; 0: the L2 stays as it is.
    pub const L2_FLUSH: &str = "cache.l2_flush_bytes";
    /// The device of the worker's context, as the driver names it.
    pub const WORKER_DEVICE: &str = "worker.device_uuid";
    // Where the time of a device's workers went, since the node started (`docs/FINGERPRINT.md`).
    pub const WORKER_OPENED: &str = "worker.opened";
    pub const WORKER_ADOPTED: &str = "worker.adopted";
    pub const WORKER_OPEN: &str = "worker.open_us";
    pub const WORKER_PREPARE: &str = "worker.prepare_us";
    pub const WORKER_COPY: &str = "worker.copy_us";
    pub const WORKER_LAUNCHES: &str = "worker.launches";
    pub const WORKER_LAUNCH: &str = "worker.launch_us";
    pub const WORKER_END: &str = "worker.end_us";
    pub const LEASE_HELD: &str = "lease.held_us";
    /// Processes of others on the device: number of the process and bytes of the device's memory.
    pub const CO_TENANT_LIST: &str = "co_tenants.processes";
    pub const ECC_UNCORRECTED: &str = "ecc.volatile_uncorrected";
    pub const ENERGY: &str = "energy.total_mj";
    // What the samples of a timing say together; beside the facts after it.
    /// Whether something beside baseline and candidate may have moved the times.
    pub const DISTURBED: &str = "measurement.disturbed";
    /// What it was.
    pub const DISTURBANCES: &str = "measurement.disturbances";
    pub const SAMPLES: &str = "sampled.count";
    pub const SAMPLED_CLOCK_MIN: &str = "sampled.clock_mhz_min";
    pub const SAMPLED_CLOCK_MAX: &str = "sampled.clock_mhz_max";
    pub const SAMPLED_TEMPERATURE_MAX: &str = "sampled.temperature_millicelsius_max";
    pub const SAMPLED_POWER_MAX: &str = "sampled.power_mw_max";
    /// What reading the samples took, all together.
    pub const SAMPLING_COST: &str = "sampled.cost_us";
    // Health of a device, in what a node offers.
    /// `unproven`, `healthy`, `suspect` or `quarantined`.
    pub const HEALTH: &str = "health.state";
    pub const HEALTH_CAUSE: &str = "health.cause";
    /// Time of the canary's kernel.
    pub const CANARY: &str = "health.canary_ps";
    /// How much slower the canary is than the first of this node's run.
    pub const DRIFT: &str = "health.drift_ppm";
}

/// Fields that must be equal for two *times* to be compared (with policy and `measure_version`). Commit and
/// dirty flag are recorded, not hashed.
pub const CLASS_FIELDS: [&str; 15] = [
    field::DEVICE_MODEL,
    field::ARCHITECTURE,
    field::DEVICE_MEMORY,
    field::MULTIPROCESSORS,
    field::CORES_PHYSICAL,
    field::CORES_LOGICAL,
    field::POWER_LIMIT,
    field::ECC,
    field::MIG,
    field::CLOCK_POLICY,
    field::SMT,
    field::DRIVER,
    field::KERNEL_RELEASE,
    field::COMPILER,
    field::COMPILER_FLAGS,
];

/// Fields that must be equal for two *ratios* to be compared: driver patch and board may differ.
pub const RATIO_FIELDS: [&str; 4] =
    [field::DEVICE_MODEL, field::ARCHITECTURE, field::COMPILER, field::COMPILER_FLAGS];

/// One observed value; what could not be read says why and is never guessed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    Text(String),
    Count(u64),
    Flag(bool),
    /// The reason it is not known, such as `no NVML`.
    Unknown(String),
}

/// Facts by field name.
pub type Facts = BTreeMap<String, Fact>;

/// What a number was measured in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// What the device is.
    pub identity: Facts,
    /// What somebody set.
    pub configuration: Facts,
    /// Before the first launch.
    pub before: Facts,
    /// While measuring: one set per sample taken.
    pub during: Vec<Facts>,
    /// After the last launch.
    pub after: Facts,
}

impl Fingerprint {
    /// The fact named `name` in identity or configuration.
    pub fn fact(&self, name: &str) -> Option<&Fact> {
        self.identity.get(name).or_else(|| self.configuration.get(name))
    }
}

/// The fields whose equality allows times to be compared, with their values: what [`ClassId`] hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparabilityClass {
    /// Always [`ComparabilityClass::FORMAT`].
    pub format: String,
    pub policy: PolicyId,
    pub measure_version: u64,
    /// Exactly the names of [`CLASS_FIELDS`]; a field that the fingerprint lacks is `unknown`.
    pub fields: Facts,
}

impl ComparabilityClass {
    pub const FORMAT: &str = "muster.class/1";

    /// The class of `fingerprint` under `policy`.
    pub fn of(fingerprint: &Fingerprint, policy: PolicyId) -> Self {
        let absent = || Fact::Unknown("not recorded".to_owned());
        let value = |name: &str| fingerprint.fact(name).cloned().unwrap_or_else(absent);
        Self {
            format: Self::FORMAT.to_owned(),
            policy,
            measure_version: MEASURE_VERSION,
            fields: CLASS_FIELDS.iter().map(|name| ((*name).to_owned(), value(name))).collect(),
        }
    }
    /// The hash that records carry.
    pub fn id(&self) -> Result<ClassId, CanonicalError> {
        Ok(ClassId(*blake3::hash(&to_bytes(self)?).as_bytes()))
    }
    /// The same for ratios: policy, `measure_version` and [`RATIO_FIELDS`] alone.
    pub fn ratio_differences(&self, other: &Self) -> Vec<String> {
        let matters = |name: &String| {
            RATIO_FIELDS.contains(&name.as_str()) || name == "policy" || name == "measure_version"
        };
        self.differences(other).into_iter().filter(matters).collect()
    }
    /// Names of the fields in which two classes differ; empty means comparable.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut names: Vec<String> = self
            .fields
            .keys()
            .chain(other.fields.keys())
            .filter(|name| self.fields.get(*name) != other.fields.get(*name))
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        if self.policy != other.policy {
            names.push("policy".to_owned());
        }
        if self.measure_version != other.measure_version {
            names.push("measure_version".to_owned());
        }
        names
    }
}
