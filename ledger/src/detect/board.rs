//! What boards can do at most, with where that is said. A board that no source speaks of is not in the table.
//!
//! The key is the driver's whole name of the device, compared for equality and never as a part of another: names that
//! begin alike belong to boards that differ by half.

/// Peak figures of one board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Board {
    /// As the driver names it.
    pub model: &'static str,
    /// Of the memory, in bytes a second.
    pub bandwidth: u64,
    /// Where the figures stand.
    pub source: &'static str,
}

const fn board(model: &'static str, bandwidth: u64, source: &'static str) -> Board {
    Board { model, bandwidth, source }
}

pub const BOARDS: [Board; 13] = [
    board("NVIDIA H200", 4_800_000_000_000, "NVIDIA H200 data sheet, SXM"),
    board("NVIDIA H100 80GB HBM3", 3_350_000_000_000, "NVIDIA H100 data sheet, SXM"),
    board("NVIDIA H100 PCIe", 2_000_000_000_000, "NVIDIA H100 data sheet, PCIe"),
    board("NVIDIA A100-SXM4-80GB", 2_039_000_000_000, "NVIDIA A100 data sheet"),
    board("NVIDIA A100 80GB PCIe", 1_935_000_000_000, "NVIDIA A100 data sheet"),
    board("NVIDIA A100-SXM4-40GB", 1_555_000_000_000, "NVIDIA A100 data sheet"),
    board("NVIDIA A100-PCIE-40GB", 1_555_000_000_000, "NVIDIA A100 data sheet"),
    board("NVIDIA L40S", 864_000_000_000, "NVIDIA L40S data sheet"),
    board("NVIDIA L4", 300_000_000_000, "NVIDIA L4 data sheet"),
    board("NVIDIA GeForce RTX 4090", 1_008_000_000_000, "NVIDIA Ada GPU architecture paper"),
    board("Tesla V100-SXM2-32GB", 900_000_000_000, "NVIDIA V100 data sheet"),
    board("Tesla V100-SXM2-16GB", 900_000_000_000, "NVIDIA V100 data sheet"),
    board("Tesla T4", 320_000_000_000, "NVIDIA T4 data sheet"),
];

/// The board of this name; a name that only resembles one is unknown.
pub fn board_of(model: &str) -> Option<&'static Board> {
    BOARDS.iter().find(|board| board.model == model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_known_by_its_whole_name_or_not_at_all() {
        assert_eq!(board_of("NVIDIA H200").map(|board| board.bandwidth), Some(4_800_000_000_000));
        for other in ["H200", "NVIDIA H200 NVL", "NVIDIA L40", "NVIDIA GeForce RTX 4090 Laptop GPU", ""] {
            assert_eq!(board_of(other), None, "{other}");
        }
        let mut names: Vec<&str> = BOARDS.iter().map(|board| board.model).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BOARDS.len());
    }
}
