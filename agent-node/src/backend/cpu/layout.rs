//! Where buffers lie in the shared file, and the canaries in the slack beside them.

use super::control::{BUFFERS_MAX, CONTROL_BYTES};
use crate::backend::Buffer;

const PAGE: usize = 4096;

/// How a buffer lies in its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// At the start of its pages, as aligned as a GPU's allocator would: underruns fault, overruns meet canaries.
    AtStart,
    /// Against the guard behind it, aligned to this many bytes: overruns fault. For a second run, to find the place.
    AtEnd(usize),
}

/// One buffer's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// Of the first page in the shared file.
    pub file_offset: usize,
    /// Whole pages.
    pub mapped: usize,
    /// Of the buffer in its pages.
    pub start: usize,
    pub bytes: usize,
}

impl Segment {
    /// Place of the buffer in the shared file.
    pub(super) fn offset(&self) -> usize {
        self.file_offset + self.start
    }
    /// The slack: (place in the shared file, length) before and behind the buffer.
    pub(super) fn slack(&self) -> [(usize, usize); 2] {
        let end = self.start + self.bytes;
        [(self.file_offset, self.start), (self.file_offset + end, self.mapped - end)]
    }
}

/// Bytes that the pages of `bytes` in buffers take at most.
pub(super) fn file_bytes(bytes: u64) -> Option<usize> {
    usize::try_from(bytes).ok()?.checked_add(BUFFERS_MAX * PAGE)?.checked_next_multiple_of(PAGE)
}

/// Segments of `buffers`, one behind the other.
pub(super) fn layout(buffers: &[Buffer], placement: Placement) -> Option<Vec<Segment>> {
    let mut file_offset = CONTROL_BYTES;
    let mut segments = Vec::with_capacity(buffers.len());
    for buffer in buffers {
        let bytes = usize::try_from(buffer.bytes).ok()?;
        let mapped = bytes.max(1).checked_next_multiple_of(PAGE)?;
        let start = match placement {
            Placement::AtStart => 0,
            Placement::AtEnd(alignment) => (mapped - bytes) / alignment * alignment,
        };
        segments.push(Segment { file_offset, mapped, start, bytes });
        file_offset = file_offset.checked_add(mapped)?;
    }
    Some(segments)
}

/// The bytes of the slack: never repeating within a page in a way that a stray store of one value would keep.
pub(super) fn canary(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|index| mix(seed ^ (index / 8)).to_le_bytes()[(index % 8) as usize]).collect()
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BufferUse;
    use fleet_config::domain::ElementType;

    fn buffer(bytes: u64) -> Buffer {
        Buffer { name: "x".to_owned(), use_: BufferUse::Scratch, element: ElementType::F32, bytes }
    }

    #[test]
    fn buffers_lie_in_pages_of_their_own_with_the_slack_behind_or_before_them() {
        let buffers = [buffer(4096), buffer(10), buffer(0)];
        let left = layout(&buffers, Placement::AtStart).unwrap();
        assert_eq!(left[0].slack()[1].1, 0);
        assert_eq!((left[1].start, left[1].slack()[1].1), (0, 4086));
        assert_eq!(left[2].slack()[1].1, 4096);
        assert_eq!(left[1].file_offset, CONTROL_BYTES + 4096);
        let right = layout(&buffers, Placement::AtEnd(4)).unwrap();
        assert_eq!((right[1].start, right[1].slack()[1].1), (4084, 2));
        assert!(left[2].file_offset + 4096 - CONTROL_BYTES <= file_bytes(4106).unwrap());
    }

    #[test]
    fn canaries_depend_on_the_seed_and_hold_no_run_of_one_byte() {
        let (one, other) = (canary(1, 64), canary(2, 64));
        assert_ne!(one, other);
        assert!(one.windows(4).all(|w| w.iter().any(|byte| *byte != w[0])));
    }
}
