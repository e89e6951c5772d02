//! What NVML tells about an NVIDIA device: how it is set up and what it is doing. Reads only; changes nothing.
//!
//! NVML reads sensors without a context on the device, so that the node itself may use it. A machine without NVML gives
//! the same fields with the reason.

use super::host::Host;
use super::{configuration as host_settings, volatile as host_activity};
use fleet_config::domain::{Fact, Facts, field};
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::sync::OnceLock;

/// Opened once: it costs 9 ms, and a second time nothing.
static NVML: OnceLock<Result<Nvml, String>> = OnceLock::new();

fn nvml() -> Result<&'static Nvml, String> {
    let opened = NVML.get_or_init(|| Nvml::init().map_err(|error| format!("no NVML: {error}")));
    opened.as_ref().map_err(Clone::clone)
}

fn device(uuid: &str) -> Result<Device<'static>, String> {
    nvml()?.device_by_uuid(uuid).map_err(|error| format!("NVML does not know {uuid}: {error}"))
}

/// A value of the device, or why there is none.
fn fact(
    device: &Result<Device<'static>, String>,
    read: impl FnOnce(&Device<'static>) -> Result<Fact, NvmlError>,
) -> Fact {
    match device {
        Ok(device) => read(device).unwrap_or_else(|error| Fact::Unknown(error.to_string())),
        Err(reason) => Fact::Unknown(reason.clone()),
    }
}

/// How the device and its machine are set up. `cuda_version` is the driver's, 13000 for 13.0.
pub fn configuration(uuid: &str, cuda_version: i32) -> Facts {
    let device = device(uuid);
    let mut facts = Facts::new();
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
    let mut put = |name: &str, fact| facts.insert(name.to_owned(), fact);
    put(
        field::POWER_LIMIT,
        fact(&device, |device| Ok(Fact::Count(u64::from(device.power_management_limit()?)))),
    );
    put(field::ECC, fact(&device, |device| Ok(Fact::Flag(device.is_ecc_enabled()?.currently_enabled))));
    put(field::MIG, fact(&device, |device| Ok(Fact::Flag(device.mig_mode()?.current != 0))));
    put(field::CLOCK_POLICY, fact(&device, clock_policy));
    facts
}

/// Clocks that somebody may have set, beside those of the factory.
fn clock_policy(device: &Device<'static>) -> Result<Fact, NvmlError> {
    let highest = device.max_clock_info(Clock::SM)?;
    let set = [device.applications_clock(Clock::Graphics), device.applications_clock(Clock::Memory)];
    let usual = [
        device.default_applications_clock(Clock::Graphics),
        device.default_applications_clock(Clock::Memory),
    ];
    let text = match (set, usual) {
        ([Ok(graphics), Ok(memory)], [Ok(usual_graphics), Ok(usual_memory)]) => {
            let whose = if (graphics, memory) == (usual_graphics, usual_memory) {
                "default"
            } else {
                "set by somebody"
            };
            format!("applications {graphics}/{memory} MHz ({whose})")
        }
        _ => "applications not told".to_owned(),
    };
    Ok(Fact::Text(format!("{text}, at most {highest} MHz")))
}

/// What the device is doing. `own` is how many of the processes on it are this node's.
pub fn volatile(uuid: &str, own: u64) -> Facts {
    let device = device(uuid);
    let mut facts = Facts::new();
    let host = host_activity::read(&Host::this());
    if let Some(load) = host.get(field::LOAD_1M) {
        facts.insert(field::LOAD_1M.to_owned(), load.clone());
    }
    let mut put = |name: &str, fact| facts.insert(name.to_owned(), fact);
    put(field::CLOCK_MHZ, fact(&device, |device| Ok(Fact::Count(u64::from(device.clock_info(Clock::SM)?)))));
    put(
        field::TEMPERATURE,
        fact(&device, |device| {
            Ok(Fact::Count(u64::from(device.temperature(TemperatureSensor::Gpu)?) * 1000))
        }),
    );
    put(field::POWER, fact(&device, |device| Ok(Fact::Count(u64::from(device.power_usage()?)))));
    put(
        field::THROTTLE,
        fact(&device, |device| Ok(Fact::Text(throttle_text(device.current_throttle_reasons()?)))),
    );
    put(
        field::CO_TENANTS,
        fact(&device, |device| {
            let all = device.running_compute_processes()?.len() as u64;
            Ok(Fact::Count(all.saturating_sub(own)))
        }),
    );
    facts
}

fn throttle_text(reasons: ThrottleReasons) -> String {
    let names: Vec<String> =
        reasons.iter_names().map(|(name, _)| name.to_ascii_lowercase().replace('_', "-")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join("+") }
}

fn cuda_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_nvml_does_not_know_gives_every_field_with_a_reason() {
        let mut facts = configuration("GPU-00000000-0000-0000-0000-000000000000", 13000);
        facts.extend(volatile("GPU-00000000-0000-0000-0000-000000000000", 0));
        for name in [
            field::POWER_LIMIT,
            field::ECC,
            field::MIG,
            field::CLOCK_POLICY,
            field::CLOCK_MHZ,
            field::TEMPERATURE,
            field::POWER,
            field::THROTTLE,
            field::CO_TENANTS,
        ] {
            assert!(
                matches!(&facts[name], Fact::Unknown(reason) if !reason.is_empty()),
                "{name}: {:?}",
                facts[name]
            );
        }
        assert!(matches!(&facts[field::KERNEL_RELEASE], Fact::Text(_)));
    }

    #[test]
    fn versions_and_throttle_reasons_are_written_as_words() {
        assert_eq!(cuda_text(13000), "13.0");
        assert_eq!(cuda_text(12090), "12.9");
        assert_eq!(throttle_text(ThrottleReasons::empty()), "none");
        assert_eq!(
            throttle_text(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_SLOWDOWN),
            "sw-power-cap+hw-slowdown"
        );
    }
}
