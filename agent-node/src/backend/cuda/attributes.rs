//! What the driver tells of a device beyond the limits of a launch: rows of the fingerprint's identity.

use cudarc::driver::sys::CUdevice_attribute as Attribute;

/// A documented field that the driver answers with a number; `docs/FINGERPRINT.md` lists them.
pub(super) struct Row {
    pub name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the page's test reads it"))]
    pub unit: &'static str,
    pub attribute: Attribute,
}

const fn row(name: &'static str, unit: &'static str, attribute: Attribute) -> Row {
    Row { name, unit, attribute }
}

/// Asked one by one with `cuDeviceGetAttribute`; what an old driver does not know is left out.
pub(super) const ROWS: [Row; 22] = [
    row("cuda.capability_major", "", Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
    row("cuda.capability_minor", "", Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    row("cuda.warp_size", "threads", Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
    row("cuda.block_threads_max", "threads", Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
    row(
        "cuda.multiprocessor_threads_max",
        "threads",
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
    ),
    row(
        "cuda.multiprocessor_blocks_max",
        "blocks",
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
    ),
    row("cuda.block_registers_max", "registers", Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
    row(
        "cuda.multiprocessor_registers",
        "registers",
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
    ),
    row("cuda.block_shared_bytes", "bytes", Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
    row(
        "cuda.block_shared_bytes_max",
        "bytes",
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    ),
    row(
        "cuda.multiprocessor_shared_bytes",
        "bytes",
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
    ),
    row(
        "cuda.block_shared_bytes_reserved",
        "bytes",
        Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
    ),
    row("cuda.constant_bytes", "bytes", Attribute::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
    row("cuda.clock_khz", "kHz", Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
    row("cuda.memory_clock_khz", "kHz", Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
    row("cuda.memory_bus_bits", "bits", Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
    row("cuda.copy_engines", "engines", Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT),
    row("cuda.concurrent_kernels", "", Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS),
    row("cuda.cooperative_launch", "", Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH),
    row("cuda.preemption", "", Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED),
    row("cuda.persisting_l2_bytes_max", "bytes", Attribute::CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE),
    row(
        "cuda.double_precision_ratio",
        "",
        Attribute::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
    ),
];

#[cfg(test)]
mod tests {
    use super::ROWS;
    use std::collections::BTreeSet;

    #[test]
    fn the_page_lists_every_row_once() {
        let page = include_str!("../../../../docs/FINGERPRINT.md");
        let mut seen = BTreeSet::new();
        for row in &ROWS {
            assert!(seen.insert(row.name), "{} stands twice", row.name);
            let wanted = format!("| `{}` | identity | {} | `{:?}` |", row.name, row.unit, row.attribute);
            assert!(page.contains(&wanted), "docs/FINGERPRINT.md lacks: {wanted}");
        }
    }
}
