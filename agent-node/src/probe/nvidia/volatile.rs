//! What the device is doing, and how often something happened to it.

use super::row::{Row, count, flag, word};
use fleet_config::domain::{Fact, field};
use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PerformancePolicy, TemperatureSensor,
};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;

/// `NVML_FI_DEV_MEMORY_TEMP` of nvml.h.
const MEMORY_TEMPERATURE: FieldId = FieldId(82);
/// `NVML_FI_DEV_REMAPPED_UNC` of nvml.h.
const REMAPPED_UNCORRECTABLE: FieldId = FieldId(143);
/// `NVML_FI_DEV_REMAPPED_PENDING` of nvml.h.
const REMAPPED_PENDING: FieldId = FieldId(144);

/// How many of [`ROWS`], from the first, are read again and again while something is timed.
pub(super) const SAMPLED: usize = 8;

pub(super) const ROWS: [Row; 25] = [
    Row {
        name: field::CLOCK_MHZ,
        unit: "MHz",
        call: "nvmlDeviceGetClockInfo",
        read: |device| count(device.clock_info(Clock::SM)?),
    },
    Row {
        name: "clock.memory_mhz",
        unit: "MHz",
        call: "nvmlDeviceGetClockInfo",
        read: |device| count(device.clock_info(Clock::Memory)?),
    },
    Row {
        name: field::TEMPERATURE,
        unit: "m°C",
        call: "nvmlDeviceGetTemperature",
        read: |device| count(u64::from(device.temperature(TemperatureSensor::Gpu)?) * 1000),
    },
    Row {
        name: field::POWER,
        unit: "mW",
        call: "nvmlDeviceGetPowerUsage",
        read: |device| count(device.power_usage()?),
    },
    Row {
        name: field::THROTTLE,
        unit: "",
        call: "nvmlDeviceGetCurrentClocksEventReasons",
        read: |device| Ok(Fact::Text(throttle_text(device.current_throttle_reasons()?))),
    },
    Row {
        name: "utilization.gpu_percent",
        unit: "%",
        call: "nvmlDeviceGetUtilizationRates",
        read: |device| count(device.utilization_rates()?.gpu),
    },
    Row {
        name: "utilization.memory_percent",
        unit: "%",
        call: "nvmlDeviceGetUtilizationRates",
        read: |device| count(device.utilization_rates()?.memory),
    },
    Row {
        name: "memory.used_bytes",
        unit: "bytes",
        call: "nvmlDeviceGetMemoryInfo",
        read: |device| count(device.memory_info()?.used),
    },
    Row {
        name: "memory.free_bytes",
        unit: "bytes",
        call: "nvmlDeviceGetMemoryInfo",
        read: |device| count(device.memory_info()?.free),
    },
    Row {
        name: "memory.bar1_used_bytes",
        unit: "bytes",
        call: "nvmlDeviceGetBAR1MemoryInfo",
        read: |device| count(device.bar1_memory_info()?.used),
    },
    Row {
        name: "clock.graphics_mhz",
        unit: "MHz",
        call: "nvmlDeviceGetClockInfo",
        read: |device| count(device.clock_info(Clock::Graphics)?),
    },
    Row {
        name: "temperature.memory_millicelsius",
        unit: "m°C",
        call: "nvmlDeviceGetFieldValues",
        read: |device| count(value(device, MEMORY_TEMPERATURE)?.saturating_mul(1000)),
    },
    Row {
        name: field::ENERGY,
        unit: "mJ",
        call: "nvmlDeviceGetTotalEnergyConsumption",
        read: |device| count(device.total_energy_consumption()?),
    },
    Row {
        name: "throttle.power_ns",
        unit: "ns",
        call: "nvmlDeviceGetViolationStatus",
        read: |device| count(device.violation_status(PerformancePolicy::Power)?.violation_time),
    },
    Row {
        name: "throttle.thermal_ns",
        unit: "ns",
        call: "nvmlDeviceGetViolationStatus",
        read: |device| count(device.violation_status(PerformancePolicy::Thermal)?.violation_time),
    },
    Row {
        name: "device.performance_state",
        unit: "",
        call: "nvmlDeviceGetPerformanceState",
        read: |device| word(&device.performance_state()?),
    },
    Row {
        name: "pcie.generation",
        unit: "",
        call: "nvmlDeviceGetCurrPcieLinkGeneration",
        read: |device| count(device.current_pcie_link_gen()?),
    },
    Row {
        name: "pcie.width",
        unit: "lanes",
        call: "nvmlDeviceGetCurrPcieLinkWidth",
        read: |device| count(device.current_pcie_link_width()?),
    },
    Row {
        name: "pcie.replays",
        unit: "replays",
        call: "nvmlDeviceGetPcieReplayCounter",
        read: |device| count(device.pcie_replay_counter()?),
    },
    Row {
        name: "ecc.volatile_corrected",
        unit: "errors",
        call: "nvmlDeviceGetTotalEccErrors",
        read: |device| count(device.total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile)?),
    },
    Row {
        name: field::ECC_UNCORRECTED,
        unit: "errors",
        call: "nvmlDeviceGetTotalEccErrors",
        read: |device| count(device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)?),
    },
    Row {
        name: "ecc.aggregate_corrected",
        unit: "errors",
        call: "nvmlDeviceGetTotalEccErrors",
        read: |device| count(device.total_ecc_errors(MemoryError::Corrected, EccCounter::Aggregate)?),
    },
    Row {
        name: "ecc.aggregate_uncorrected",
        unit: "errors",
        call: "nvmlDeviceGetTotalEccErrors",
        read: |device| count(device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Aggregate)?),
    },
    Row {
        name: "ecc.remapped_rows",
        unit: "rows",
        call: "nvmlDeviceGetFieldValues",
        read: |device| count(value(device, REMAPPED_UNCORRECTABLE)?),
    },
    Row {
        name: "ecc.remap_pending",
        unit: "",
        call: "nvmlDeviceGetFieldValues",
        read: |device| flag(value(device, REMAPPED_PENDING)? != 0),
    },
];

/// A whole number that NVML knows by a field's number alone.
fn value(device: &Device<'static>, wanted: FieldId) -> Result<u64, NvmlError> {
    let sample = device.field_values_for(&[wanted])?.pop().ok_or(NvmlError::NotFound)??;
    match sample.value? {
        SampleValue::U32(number) => Ok(u64::from(number)),
        SampleValue::U64(number) => Ok(number),
        SampleValue::I64(number) => u64::try_from(number).map_err(|_| NvmlError::NotSupported),
        SampleValue::F64(_) => Err(NvmlError::NotSupported),
    }
}

pub(super) fn throttle_text(reasons: ThrottleReasons) -> String {
    let names: Vec<String> =
        reasons.iter_names().map(|(name, _)| name.to_ascii_lowercase().replace('_', "-")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join("+") }
}
