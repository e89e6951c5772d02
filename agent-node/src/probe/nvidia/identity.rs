//! What the board is. Its serial number is left out: the UUID names it, and records are read by many.

use super::row::{Row, count, flag, text, word};

pub(super) const ROWS: [Row; 14] = [
    Row { name: "device.brand", unit: "", call: "nvmlDeviceGetBrand", read: |device| word(&device.brand()?) },
    Row {
        name: "device.generation",
        unit: "",
        call: "nvmlDeviceGetArchitecture",
        read: |device| word(&device.architecture()?),
    },
    Row {
        name: "device.cores",
        unit: "cores",
        call: "nvmlDeviceGetNumGpuCores",
        read: |device| count(device.num_cores()?),
    },
    Row {
        name: "device.part_number",
        unit: "",
        call: "nvmlDeviceGetBoardPartNumber",
        read: |device| text(device.board_part_number()?),
    },
    Row {
        name: "device.inforom",
        unit: "",
        call: "nvmlDeviceGetInforomImageVersion",
        read: |device| text(device.info_rom_image_version()?),
    },
    Row {
        name: "device.multi_gpu_board",
        unit: "",
        call: "nvmlDeviceGetMultiGpuBoard",
        read: |device| flag(device.is_multi_gpu_board()?),
    },
    Row {
        name: "device.minor_number",
        unit: "",
        call: "nvmlDeviceGetMinorNumber",
        read: |device| count(device.minor_number()?),
    },
    Row {
        name: "device.numa_node",
        unit: "",
        call: "nvmlDeviceGetNumaNodeId",
        read: |device| count(device.numa_node_id()?),
    },
    Row {
        name: "device.virtualization",
        unit: "",
        call: "nvmlDeviceGetVirtualizationMode",
        read: |device| word(&device.virtualization_mode()?),
    },
    Row {
        name: "pci.bus_id",
        unit: "",
        call: "nvmlDeviceGetPciInfo",
        read: |device| text(device.pci_info()?.bus_id),
    },
    Row {
        name: "pci.device_id",
        unit: "",
        call: "nvmlDeviceGetPciInfo",
        read: |device| text(format!("0x{:08x}", device.pci_info()?.pci_device_id)),
    },
    Row {
        name: "pcie.generation_max",
        unit: "",
        call: "nvmlDeviceGetMaxPcieLinkGeneration",
        read: |device| count(device.max_pcie_link_gen()?),
    },
    Row {
        name: "pcie.width_max",
        unit: "lanes",
        call: "nvmlDeviceGetMaxPcieLinkWidth",
        read: |device| count(device.max_pcie_link_width()?),
    },
    Row {
        name: "memory.bus_bits",
        unit: "bits",
        call: "nvmlDeviceGetMemoryBusWidth",
        read: |device| count(device.memory_bus_width()?),
    },
];
