//! Theoretical occupancy: how many blocks of a kernel one multiprocessor of an architecture holds. Pure.
//!
//! Limits of [`MULTIPROCESSORS`] are those of the CUDA Programming Guide, appendix "Compute Capabilities", tables of
//! technical specifications (CUDA 13.0; 7.0 from the guide of CUDA 12.9). In which units registers, shared memory and
//! barriers are given out is not in the guide: that is as the toolkit's own calculator counts (`cuda_occupancy.h` of
//! CUDA 12.9 and 13.0). Nothing is assumed of an architecture that neither names.

use serde::Serialize;
use std::collections::BTreeMap;

/// Threads of a warp, on every architecture so far.
const WARP: u64 = 32;
/// 32-bit registers of one multiprocessor, and the most that one block may have.
const REGISTERS: u64 = 64 << 10;
/// Registers of a warp are given out in pieces of this size.
const REGISTER_UNIT: u64 = 256;
/// Schedulers of a multiprocessor; each has its share of the registers.
const PARTITIONS: u64 = 4;
/// Threads of one block.
const THREADS_MAX: u64 = 1024;

/// What one multiprocessor holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Multiprocessor {
    /// 90 for `sm_90` and `sm_90a`.
    architecture: u32,
    warps: u64,
    blocks: u64,
    /// Shared memory in KiB: of the multiprocessor, and the most of one block (opted in).
    shared_kib: u64,
    shared_block_kib: u64,
    /// What the system keeps of each block's shared memory, in bytes.
    reserved: u64,
    /// Shared memory is given out in pieces of this many bytes.
    shared_unit: u64,
    /// Barriers for each block that fits; `None` where they bound nothing.
    barriers_per_block: Option<u64>,
}

/// Architecture, warps, blocks, shared memory of all and of one block in KiB, reserved bytes, unit, barriers.
const MULTIPROCESSORS: [Multiprocessor; 13] = [
    row(70, [64, 32, 96, 96], [0, 256], None),
    row(75, [32, 16, 64, 64], [0, 256], None),
    row(80, [64, 32, 164, 163], [1024, 128], None),
    row(86, [48, 16, 100, 99], [1024, 128], None),
    row(87, [48, 16, 164, 163], [1024, 128], None),
    row(89, [48, 24, 100, 99], [1024, 128], None),
    row(90, [64, 32, 228, 227], [1024, 128], Some(2)),
    row(100, [64, 32, 228, 227], [1024, 128], Some(2)),
    row(101, [48, 24, 228, 227], [1024, 128], Some(1)),
    row(103, [64, 32, 228, 227], [1024, 128], Some(2)),
    row(110, [48, 24, 228, 227], [1024, 128], Some(1)),
    row(120, [48, 24, 100, 99], [1024, 128], Some(1)),
    row(121, [48, 24, 100, 99], [1024, 128], Some(1)),
];

const fn row(
    architecture: u32,
    [warps, blocks, shared_kib, shared_block_kib]: [u64; 4],
    [reserved, shared_unit]: [u64; 2],
    barriers_per_block: Option<u64>,
) -> Multiprocessor {
    Multiprocessor {
        architecture,
        warps,
        blocks,
        shared_kib,
        shared_block_kib,
        reserved,
        shared_unit,
        barriers_per_block,
    }
}

/// What one block asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub threads: u64,
    /// Of one thread.
    pub registers: u64,
    /// Static and dynamic, without what the system reserves.
    pub shared_bytes: u64,
    pub barriers: u64,
}

/// What bounds the number of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    Warps,
    Blocks,
    Registers,
    SharedMemory,
    Barriers,
}

/// The answer for one block size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Occupancy {
    /// Blocks that one multiprocessor holds; 0: such a block cannot be launched.
    pub blocks: u64,
    /// Warps of these blocks, and the most that a multiprocessor holds.
    pub warps: u64,
    pub warps_max: u64,
    /// Warps in thousandths of the most.
    pub permille: u64,
    /// Everything that allows no more blocks.
    pub bound_by: Vec<Bound>,
}

/// Occupancy of `block` on `architecture`; `None` for one that is not in the table.
pub(super) fn occupancy(architecture: u32, block: Block) -> Option<Occupancy> {
    let processor = MULTIPROCESSORS.iter().find(|known| known.architecture == architecture)?;
    let warps = block.threads.div_ceil(WARP).max(1);
    let too_many = block.threads == 0 || block.threads > THREADS_MAX;
    let mut bounds = vec![
        (Bound::Blocks, processor.blocks),
        (Bound::Warps, if too_many { 0 } else { processor.warps / warps }),
        (Bound::Registers, by_registers(warps, block.registers)),
        (Bound::SharedMemory, by_shared_memory(processor, block.shared_bytes)),
    ];
    if let (Some(each), 1..) = (processor.barriers_per_block, block.barriers) {
        bounds.push((Bound::Barriers, processor.blocks.saturating_mul(each) / block.barriers));
    }
    let blocks = bounds.iter().map(|(_, blocks)| *blocks).min().unwrap_or(0);
    let mut bound_by: Vec<Bound> =
        bounds.iter().filter(|(_, most)| *most == blocks).map(|(bound, _)| *bound).collect();
    bound_by.sort_unstable();
    let resident = blocks * warps;
    let permille = resident * 1000 / processor.warps;
    Some(Occupancy { blocks, warps: resident, warps_max: processor.warps, permille, bound_by })
}

/// What launch expressions may ask of any device of `architecture`. The number of multiprocessors differs between boards
/// and is not among it.
pub(super) fn attributes(architecture: u32) -> BTreeMap<String, i64> {
    let found = MULTIPROCESSORS.iter().find(|known| known.architecture == architecture);
    let shared = found.and_then(|processor| i64::try_from(processor.shared_block_kib << 10).ok());
    let mut known = BTreeMap::from([
        ("device.warp_size".to_owned(), WARP as i64),
        ("device.threads_per_block_max".to_owned(), THREADS_MAX as i64),
    ]);
    known.extend(shared.map(|bytes| ("device.shared_bytes_max".to_owned(), bytes)));
    known
}

fn by_registers(warps: u64, registers: u64) -> u64 {
    let of_warp = registers.saturating_mul(WARP).div_ceil(REGISTER_UNIT).saturating_mul(REGISTER_UNIT);
    if of_warp == 0 {
        return u64::MAX;
    }
    // A launch is refused as if its warps were spread over whole partitions.
    let whole = warps.div_ceil(PARTITIONS).saturating_mul(PARTITIONS);
    if whole.saturating_mul(of_warp) > REGISTERS {
        return 0;
    }
    (REGISTERS / PARTITIONS / of_warp) * PARTITIONS / warps
}

fn by_shared_memory(processor: &Multiprocessor, bytes: u64) -> u64 {
    if bytes > processor.shared_block_kib << 10 {
        return 0;
    }
    let taken = (bytes + processor.reserved).div_ceil(processor.shared_unit) * processor.shared_unit;
    (processor.shared_kib << 10).checked_div(taken).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(architecture: u32, block: [u64; 4], expected: (u64, u64, &[Bound])) {
        let [threads, registers, shared_bytes, barriers] = block;
        let found = occupancy(architecture, Block { threads, registers, shared_bytes, barriers }).unwrap();
        let (blocks, permille, bound_by) = expected;
        assert_eq!((found.blocks, found.permille), (blocks, permille), "sm_{architecture} {block:?}");
        assert_eq!(found.bound_by, bound_by, "sm_{architecture} {block:?}");
    }

    #[test]
    fn each_resource_bounds_in_its_own_units() {
        use Bound::{Barriers, Blocks, Registers, SharedMemory, Warps};
        check(80, [256, 32, 0, 0], (8, 1000, &[Warps, Registers]));
        check(89, [256, 32, 0, 0], (6, 1000, &[Warps]));
        // 65 registers are 9 pieces of 256 for a warp: 7 warps fit into each partition, 28 in all.
        check(80, [128, 65, 0, 0], (7, 437, &[Registers]));
        check(80, [32, 16, 0, 0], (32, 500, &[Blocks]));
        check(86, [32, 16, 0, 0], (16, 333, &[Blocks]));
        // 48 KiB and the reserved one: three such blocks fit into 164 KiB, four into 228, two into 100.
        check(80, [128, 32, 48 << 10, 1], (3, 187, &[SharedMemory]));
        check(90, [128, 32, 48 << 10, 1], (4, 250, &[SharedMemory]));
        check(120, [128, 32, 48 << 10, 1], (2, 166, &[SharedMemory]));
        check(90, [64, 32, 0, 4], (16, 500, &[Barriers]));
        check(120, [64, 16, 0, 1], (24, 1000, &[Warps, Blocks, Barriers]));
    }

    #[test]
    fn what_cannot_be_launched_has_no_block() {
        use Bound::{Registers, SharedMemory, Warps};
        check(90, [1025, 16, 0, 0], (0, 0, &[Warps]));
        check(90, [0, 16, 0, 0], (0, 0, &[Warps]));
        check(80, [1024, 96, 0, 0], (0, 0, &[Registers]));
        check(89, [128, 16, 100 << 10, 0], (0, 0, &[SharedMemory]));
        check(80, [128, 16, 163 << 10, 0], (1, 62, &[SharedMemory]));
    }

    #[test]
    fn an_architecture_that_is_not_in_the_table_has_no_answer() {
        let block = Block { threads: 32, registers: 8, shared_bytes: 0, barriers: 0 };
        for architecture in [0, 60, 88, 130, 999] {
            assert_eq!(occupancy(architecture, block), None, "sm_{architecture}");
        }
        assert!(MULTIPROCESSORS.is_sorted_by_key(|row| row.architecture));
    }

    proptest! {
        #[test]
        fn no_block_asks_for_more_than_there_is(threads in any::<u64>(), registers in any::<u64>(),
                                                shared_bytes in any::<u64>(), barriers in any::<u64>()) {
            for row in MULTIPROCESSORS {
                let found = occupancy(row.architecture, Block { threads, registers, shared_bytes, barriers });
                let found = found.unwrap();
                prop_assert!(found.warps <= found.warps_max && found.permille <= 1000);
                prop_assert!(!found.bound_by.is_empty());
            }
        }
    }
}
