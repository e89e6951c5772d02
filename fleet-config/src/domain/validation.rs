//! What a task allows the stages of validation beyond its cases: sizes, hard values, exactness.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The optional section of a task. A task without it has the canonical form of `muster.task/1`, one with it that of
/// `muster.task/2`: what was named before keeps its name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    pub determinism: Determinism,
    /// Sizes that the shape sweep may choose, by dimension; one that is missing keeps its value of a case.
    pub sweep: BTreeMap<String, SweepRange>,
    /// Hard values that reference and candidates must bear; empty opts out.
    pub stress: Vec<Stress>,
    /// Fakes that may pass, since what they do is the work itself.
    pub allow: Vec<Fake>,
}

/// What two launches with the same inputs must agree in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Determinism {
    /// Each is right; bits may differ, as with atomic sums.
    #[default]
    Tolerance,
    /// Every bit of every output.
    Bitwise,
}

/// From `low` to `high`, both included, in multiples of `multiple_of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepRange {
    pub low: i64,
    pub high: i64,
    pub multiple_of: i64,
}

/// Hard values in place of what floating inputs are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stress {
    /// Every element is zero.
    Zeros,
    /// Every element is one half.
    Equal,
    /// Around the smallest normal number, half of them below it.
    NearZero,
    /// Magnitudes of the draw, times or divided by 1024 at random; without signs, so that nothing cancels.
    MixedScale,
    /// So large that a sum of 1024 of them is barely finite; without signs.
    NearMax,
}

impl Stress {
    /// Every kind, gentlest first.
    pub const ALL: [Self; 5] = [Self::Zeros, Self::Equal, Self::NearZero, Self::MixedScale, Self::NearMax];

    /// The word used in task files and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Equal => "equal",
            Self::NearZero => "near-zero",
            Self::MixedScale => "mixed-scale",
            Self::NearMax => "near-max",
        }
    }
}

/// Outputs that anybody could give without the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fake {
    /// All bytes zero.
    Zeros,
    /// What the buffer held before.
    Untouched,
    /// One value everywhere, taken from another draw's right answer.
    Constant,
    /// The elements of an input.
    CopiedInput,
    /// The right answer to another draw.
    OtherSeed,
}

impl Fake {
    /// Every fake.
    pub const ALL: [Self; 5] =
        [Self::Zeros, Self::Untouched, Self::Constant, Self::CopiedInput, Self::OtherSeed];

    /// The word used in task files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Untouched => "untouched",
            Self::Constant => "constant",
            Self::CopiedInput => "copied-input",
            Self::OtherSeed => "other-seed",
        }
    }
}
