//! Guard zones: what stands beside every buffer in device memory.

/// Bytes before and behind every buffer; a multiple of 256, so that the buffer stays aligned. Wider than a row of a
/// usual matrix, so that an index that is off by one row is seen.
pub(super) const GUARD: usize = 64 << 10;
/// Alignment that CUDA promises for allocations.
const ALIGNMENT: usize = 256;

/// Bytes to allocate for a buffer of `bytes`. Saturates: such a size is refused by the allocator.
pub(super) fn span(bytes: usize) -> usize {
    let body = bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
    body.saturating_add(2 * GUARD)
}

/// The bytes of a guard zone: no run of one byte or word that a stray store would keep, and never the same twice.
pub(super) fn canary(seed: u64, buffer: usize, zone: usize, length: usize) -> Vec<u8> {
    let seed = mix(seed ^ mix((buffer as u64) << 1 | zone as u64));
    let mut bytes = Vec::with_capacity(length.next_multiple_of(8));
    for word in 0..length.div_ceil(8) as u64 {
        bytes.extend(mix(seed ^ word).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The first place where two zones differ, or where one ends.
pub(super) fn first_difference(now: &[u8], then: &[u8]) -> Option<usize> {
    if now == then {
        return None;
    }
    let same = now.iter().zip(then).take_while(|(now, then)| now == then).count();
    Some(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_differ_by_seed_buffer_and_side_and_hold_no_runs() {
        let one = canary(1, 0, 0, 100);
        assert_eq!(one.len(), 100);
        for other in [canary(2, 0, 0, 100), canary(1, 1, 0, 100), canary(1, 0, 1, 100)] {
            assert_ne!(one, other);
        }
        assert!(one.windows(4).all(|window| window.iter().any(|byte| *byte != window[0])));
    }

    #[test]
    fn the_first_changed_byte_is_found() {
        let then = canary(3, 0, 0, 64);
        let mut now = then.clone();
        assert_eq!(first_difference(&now, &then), None);
        now[17] ^= 1;
        now[40] ^= 1;
        assert_eq!(first_difference(&now, &then), Some(17));
    }

    #[test]
    fn buffers_keep_their_alignment_and_sizes_never_overflow() {
        assert_eq!(GUARD % ALIGNMENT, 0);
        assert_eq!(span(1), 2 * GUARD + 256);
        assert_eq!(span(0), 2 * GUARD);
        assert_eq!(span(usize::MAX), usize::MAX);
    }
}
