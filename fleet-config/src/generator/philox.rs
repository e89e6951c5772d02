//! Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
//! (SC 2011): ten rounds of two 32 × 32 → 64 bit multiplications over a 128-bit counter.

const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: u32 = 10;

/// The four words that belong to `counter` under `key`.
pub(super) fn block(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let (high0, low0) = multiply(MULTIPLIER[0], counter[0]);
        let (high1, low1) = multiply(MULTIPLIER[1], counter[2]);
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

fn multiply(left: u32, right: u32) -> (u32, u32) {
    let product = u64::from(left) * u64::from(right);
    ((product >> 32) as u32, product as u32)
}

/// The stream of one buffer: 64 random bits for each element index, in any order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    key: [u32; 2],
}

impl Stream {
    /// The stream whose key is the first eight bytes of `digest`, little-endian.
    pub(super) fn of(digest: &[u8; 32]) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *digest;
        Self { key: [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])] }
    }
    /// The first two words of the block whose counter is `index`; the first word is the low half.
    pub(super) fn bits(self, index: u64) -> u64 {
        let [first, second, ..] = block([index as u32, (index >> 32) as u32, 0, 0], self.key);
        u64::from(first) | (u64::from(second) << 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known-answer vectors published with Random123 for philox4x32, ten rounds.
    #[test]
    fn the_published_answers_are_given() {
        assert_eq!(block([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(block([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            block([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
