//! The seeded generator behind every resampling: SplitMix64.
//!
//! Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014; constants as in the
//! reference code of S. Vigna (public domain, `splitmix64.c`). Part of the definition of every interval that is
//! shown: another generator would give other bytes.

/// A stream of 64-bit numbers.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform below `bound`, which must not be 0. Lemire: "Fast random integer generation in an interval",
    /// ACM TOMACS 29 (2019), with rejection, so that no value is more likely than another.
    pub fn below(&mut self, bound: u64) -> u64 {
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.draw()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }
}
