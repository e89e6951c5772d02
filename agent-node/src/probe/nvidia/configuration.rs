//! What somebody set, or installed.

use super::row::{Read, Row, count, flag, text, word};
use fleet_config::domain::{Fact, field};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureThreshold};

pub(super) const ROWS: [Row; 26] = [
    Row {
        name: field::POWER_LIMIT,
        unit: "mW",
        call: "nvmlDeviceGetPowerManagementLimit",
        read: |device| count(device.power_management_limit()?),
    },
    Row {
        name: "power.limit_enforced_mw",
        unit: "mW",
        call: "nvmlDeviceGetEnforcedPowerLimit",
        read: |device| count(device.enforced_power_limit()?),
    },
    Row {
        name: "power.limit_default_mw",
        unit: "mW",
        call: "nvmlDeviceGetPowerManagementDefaultLimit",
        read: |device| count(device.power_management_limit_default()?),
    },
    Row {
        name: "power.limit_min_mw",
        unit: "mW",
        call: "nvmlDeviceGetPowerManagementLimitConstraints",
        read: |device| count(device.power_management_limit_constraints()?.min_limit),
    },
    Row {
        name: "power.limit_max_mw",
        unit: "mW",
        call: "nvmlDeviceGetPowerManagementLimitConstraints",
        read: |device| count(device.power_management_limit_constraints()?.max_limit),
    },
    Row {
        name: field::ECC,
        unit: "",
        call: "nvmlDeviceGetEccMode",
        read: |device| flag(device.is_ecc_enabled()?.currently_enabled),
    },
    Row {
        name: "memory.ecc_pending",
        unit: "",
        call: "nvmlDeviceGetEccMode",
        read: |device| flag(device.is_ecc_enabled()?.pending_enabled),
    },
    Row {
        name: field::MIG,
        unit: "",
        call: "nvmlDeviceGetMigMode",
        read: |device| flag(device.mig_mode()?.current != 0),
    },
    Row { name: field::CLOCK_POLICY, unit: "", call: "nvmlDeviceGetApplicationsClock", read: clock_policy },
    Row {
        name: "clock.application_graphics_mhz",
        unit: "MHz",
        call: "nvmlDeviceGetApplicationsClock",
        read: |device| count(device.applications_clock(Clock::Graphics)?),
    },
    Row {
        name: "clock.application_memory_mhz",
        unit: "MHz",
        call: "nvmlDeviceGetApplicationsClock",
        read: |device| count(device.applications_clock(Clock::Memory)?),
    },
    Row {
        name: "clock.default_graphics_mhz",
        unit: "MHz",
        call: "nvmlDeviceGetDefaultApplicationsClock",
        read: |device| count(device.default_applications_clock(Clock::Graphics)?),
    },
    Row {
        name: "clock.default_memory_mhz",
        unit: "MHz",
        call: "nvmlDeviceGetDefaultApplicationsClock",
        read: |device| count(device.default_applications_clock(Clock::Memory)?),
    },
    Row {
        name: "clock.sm_max_mhz",
        unit: "MHz",
        call: "nvmlDeviceGetMaxClockInfo",
        read: |device| count(device.max_clock_info(Clock::SM)?),
    },
    Row {
        name: "clock.memory_max_mhz",
        unit: "MHz",
        call: "nvmlDeviceGetMaxClockInfo",
        read: |device| count(device.max_clock_info(Clock::Memory)?),
    },
    Row {
        name: "clock.boost_max_mhz",
        unit: "MHz",
        call: "nvmlDeviceGetMaxCustomerBoostClock",
        read: |device| count(device.max_customer_boost_clock(Clock::Graphics)?),
    },
    Row {
        name: "clock.auto_boost",
        unit: "",
        call: "nvmlDeviceGetAutoBoostedClocksEnabled",
        read: |device| flag(device.auto_boosted_clocks_enabled()?.is_enabled),
    },
    Row {
        name: "device.compute_mode",
        unit: "",
        call: "nvmlDeviceGetComputeMode",
        read: |device| word(&device.compute_mode()?),
    },
    Row {
        name: "device.persistence",
        unit: "",
        call: "nvmlDeviceGetPersistenceMode",
        read: |device| flag(device.is_in_persistent_mode()?),
    },
    Row {
        name: "device.accounting",
        unit: "",
        call: "nvmlDeviceGetAccountingMode",
        read: |device| flag(device.is_accounting_enabled()?),
    },
    Row {
        name: "device.vbios",
        unit: "",
        call: "nvmlDeviceGetVbiosVersion",
        read: |device| text(device.vbios_version()?),
    },
    Row {
        name: "device.gsp_firmware",
        unit: "",
        call: "nvmlDeviceGetGspFirmwareVersion",
        read: |device| text(device.gsp_firmware_version()?),
    },
    Row {
        name: "nvml.version",
        unit: "",
        call: "nvmlSystemGetNVMLVersion",
        read: |device| text(device.nvml().sys_nvml_version()?),
    },
    Row {
        name: "temperature.slowdown_millicelsius",
        unit: "m°C",
        call: "nvmlDeviceGetTemperatureThreshold",
        read: |device| degrees(device, TemperatureThreshold::Slowdown),
    },
    Row {
        name: "temperature.shutdown_millicelsius",
        unit: "m°C",
        call: "nvmlDeviceGetTemperatureThreshold",
        read: |device| degrees(device, TemperatureThreshold::Shutdown),
    },
    Row {
        name: "temperature.memory_max_millicelsius",
        unit: "m°C",
        call: "nvmlDeviceGetTemperatureThreshold",
        read: |device| degrees(device, TemperatureThreshold::MemoryMax),
    },
];

fn degrees(device: &Device<'static>, threshold: TemperatureThreshold) -> Read {
    count(u64::from(device.temperature_threshold(threshold)?) * 1000)
}

/// Clocks that somebody may have set, beside those of the factory.
fn clock_policy(device: &Device<'static>) -> Read {
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
