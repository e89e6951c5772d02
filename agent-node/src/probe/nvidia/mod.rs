//! What NVML tells about an NVIDIA device: what it is, how it is set up and what it is doing. Reads only; changes nothing.
//!
//! NVML reads sensors without a context on the device, so that the node itself may use it. A machine without NVML gives
//! the same fields with the reason. Read in this order: `row` (a field and the seam to NVML), the tables `identity`,
//! `configuration` and `volatile`, `processes` (whose they are), `watch` (samples while something is timed).

mod configuration;
mod events;
mod identity;
mod processes;
mod row;
mod volatile;
mod watch;

pub use events::Reports;
pub use watch::{SAMPLE_EVERY, Watch};

use super::host::Host;
use super::{configuration as host_settings, volatile as host_activity};
use crate::clock;
use fleet_config::domain::{Fact, Facts, field};
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::{Device, Nvml};
use processes::Tenant;
use row::{Sensors, read_all};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Opened once: it costs 9 ms, and a second time nothing.
static NVML: OnceLock<Result<Nvml, String>> = OnceLock::new();

pub(crate) fn nvml() -> Result<&'static Nvml, String> {
    let opened = NVML.get_or_init(|| Nvml::init().map_err(|error| format!("no NVML: {error}")));
    opened.as_ref().map_err(Clone::clone)
}

pub(crate) fn device(uuid: &str) -> Result<Device<'static>, String> {
    nvml()?.device_by_uuid(uuid).map_err(|error| format!("NVML does not know {uuid}: {error}"))
}

/// What the board is, beside what the driver tells.
pub fn identity(uuid: &str) -> Facts {
    read_all(&device(uuid), &identity::ROWS)
}

/// How the device and its machine are set up. `cuda_version` is the driver's, 13000 for 13.0.
pub fn configuration(uuid: &str, cuda_version: i32) -> Facts {
    let mut facts = read_all(&device(uuid), &configuration::ROWS);
    let host = host_settings::read(&Host::this());
    for name in [field::OS, field::KERNEL_RELEASE, field::LIBC, field::HYPERVISOR, field::SMT] {
        if let Some(found) = host.get(name) {
            facts.insert(name.to_owned(), found.clone());
        }
    }
    let driver = match nvml().map(Nvml::sys_driver_version) {
        Ok(Ok(version)) => Fact::Text(format!("{version} CUDA {}", cuda_text(cuda_version))),
        Ok(Err(error)) => Fact::Unknown(error.to_string()),
        Err(reason) => Fact::Unknown(reason),
    };
    facts.insert(field::DRIVER.to_owned(), driver);
    facts
}

/// What the device is doing. `own` are the processes on it that are this node's.
pub fn volatile(uuid: &str, own: &BTreeSet<u32>) -> Facts {
    let device = device(uuid);
    let mut facts = read_all(&device, &volatile::ROWS);
    let host = host_activity::read(&Host::this());
    if let Some(load) = host.get(field::LOAD_1M) {
        facts.insert(field::LOAD_1M.to_owned(), load.clone());
    }
    facts.extend(processes::facts(tenants(&device), own));
    facts
}

/// Errors in memory that could not be corrected since the driver was loaded, and reasons of the device's own for which it
/// runs slower now.
pub fn condition(uuid: &str) -> (Option<u64>, Vec<String>) {
    let Ok(device) = device(uuid) else { return (None, Vec::new()) };
    let errors = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile).ok();
    let grave = ThrottleReasons::HW_SLOWDOWN
        | ThrottleReasons::HW_THERMAL_SLOWDOWN
        | ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN;
    let reasons = device.current_throttle_reasons().unwrap_or(ThrottleReasons::empty()) & grave;
    let told = if reasons.is_empty() { Vec::new() } else { vec![volatile::throttle_text(reasons)] };
    (errors, told)
}

/// The part of it that is read again and again while something is timed, with what reading it took.
pub fn sample(uuid: &str, own: &BTreeSet<u32>) -> Facts {
    let from = clock::monotonic();
    let device = device(uuid);
    let mut facts = sampled(&device);
    facts.extend(processes::facts(tenants(&device), own));
    let took = clock::monotonic().saturating_sub(from).as_micros();
    facts.insert(field::SAMPLING_COST.to_owned(), Fact::Count(u64::try_from(took).unwrap_or(u64::MAX)));
    facts
}

fn sampled(sensors: &dyn Sensors) -> Facts {
    read_all(sensors, volatile::ROWS.get(..volatile::SAMPLED).unwrap_or(&volatile::ROWS))
}

/// Processes with a context on the device, whosever they are.
fn tenants(device: &Result<Device<'static>, String>) -> Result<Vec<Tenant>, String> {
    let found = device.as_ref().map_err(Clone::clone)?.running_compute_processes();
    let tenant = |process: nvml_wrapper::struct_wrappers::device::ProcessInfo| Tenant {
        process: process.pid,
        bytes: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        },
    };
    found.map(|all| all.into_iter().map(tenant).collect()).map_err(|error| error.to_string())
}

fn cuda_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::row::Row;
    use super::*;
    use std::collections::BTreeMap;

    const NOBODY: &str = "GPU-00000000-0000-0000-0000-000000000000";

    fn tables() -> Vec<(&'static str, &'static [Row])> {
        vec![
            ("identity", &identity::ROWS),
            ("configuration", &configuration::ROWS),
            ("volatile", &volatile::ROWS),
        ]
    }

    #[test]
    fn a_device_that_nvml_does_not_know_gives_every_field_with_a_reason() {
        let own = BTreeSet::new();
        let mut facts = identity(NOBODY);
        facts.extend(configuration(NOBODY, 13000));
        facts.extend(volatile(NOBODY, &own));
        let names = tables().into_iter().flat_map(|(_, rows)| rows.iter().map(|row| row.name));
        for name in names.chain([field::CO_TENANTS, field::CO_TENANT_LIST, field::DRIVER]) {
            let unknown = matches!(&facts[name], Fact::Unknown(reason) if !reason.is_empty());
            assert!(unknown, "{name}: {:?}", facts[name]);
        }
        assert!(matches!(&facts[field::KERNEL_RELEASE], Fact::Text(_)));
        let sample = sample(NOBODY, &own);
        assert!(matches!(&sample[field::CLOCK_MHZ], Fact::Unknown(_)));
        assert!(matches!(&sample[field::SAMPLING_COST], Fact::Count(_)));
    }

    /// A device whose rows have what a test says.
    struct Fake(BTreeMap<&'static str, Fact>);

    impl Sensors for Fake {
        fn read(&self, row: &Row) -> Fact {
            self.0.get(row.name).cloned().unwrap_or_else(|| Fact::Unknown("not there".to_owned()))
        }
    }

    #[test]
    fn samples_hold_what_moves_and_leave_the_rest_out() {
        let fake = Fake(BTreeMap::from([
            (field::CLOCK_MHZ, Fact::Count(1980)),
            (field::THROTTLE, Fact::Text("none".to_owned())),
            (field::ENERGY, Fact::Count(7)),
        ]));
        let facts = sampled(&fake);
        assert_eq!(facts.len(), volatile::SAMPLED);
        assert_eq!(facts[field::CLOCK_MHZ], Fact::Count(1980));
        assert!(matches!(facts[field::POWER], Fact::Unknown(_)));
        for name in [field::TEMPERATURE, field::POWER, field::THROTTLE, "memory.used_bytes"] {
            assert!(facts.contains_key(name), "{name}");
        }
        assert!(!facts.contains_key(field::ENERGY));
    }

    #[test]
    fn the_page_lists_every_row_with_its_part_unit_and_call() {
        let page = include_str!("../../../../docs/FINGERPRINT.md");
        let mut seen = BTreeSet::new();
        for (part, rows) in tables() {
            for row in rows {
                assert!(seen.insert(row.name), "{} stands twice", row.name);
                let wanted = format!("| `{}` | {part} | {} | `{}` |", row.name, row.unit, row.call);
                assert!(page.contains(&wanted), "docs/FINGERPRINT.md lacks: {wanted}");
            }
        }
        assert!(seen.len() >= 60, "{} fields by NVML", seen.len());
    }

    #[test]
    fn versions_and_throttle_reasons_are_written_as_words() {
        assert_eq!(cuda_text(13000), "13.0");
        assert_eq!(cuda_text(12090), "12.9");
        assert_eq!(volatile::throttle_text(ThrottleReasons::empty()), "none");
        assert_eq!(
            volatile::throttle_text(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_SLOWDOWN),
            "sw-power-cap+hw-slowdown"
        );
    }
}
