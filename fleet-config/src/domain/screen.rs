//! Screens: named, versioned checks for faults that a right answer can hide, run on a small case after validation.

use super::CheckName;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One screen. Vendor-neutral: how a device kind looks for the fault is its own business, and which it offers too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Screen {
    /// Buffers against guards on either side.
    Fences,
    /// Threads and blocks begin forwards, backwards and in a drawn order: the answer must not depend on it.
    Orders,
    /// Shared memory begins as one poison, then as another: the answer must not depend on it.
    UninitialisedShared,
    /// Threads of a block that wait at different barriers, or for threads that never come.
    DivergentBarriers,
    /// Warp operations with masks that leave out a caller, name an absent lane, or read from a lane that takes no part.
    ShuffleMasks,
    /// Outputs and scratch memory that are read before anything was written to them.
    UninitialisedMemory,
    /// Every access inside its buffer, array or variable, to the byte.
    Address,
    /// Two threads of a block at one place, one of them writing, with nothing between that orders them.
    RacesInBlock,
    /// The same for threads of different blocks.
    RacesBetweenBlocks,
}

/// A name that is no screen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no screen; known are {known}", known = Screen::ALL.map(Screen::name).join(", "))]
pub struct ScreenError(String);

impl Screen {
    /// Every screen, cheapest first.
    pub const ALL: [Self; 9] = [
        Self::Fences,
        Self::Orders,
        Self::UninitialisedShared,
        Self::DivergentBarriers,
        Self::ShuffleMasks,
        Self::UninitialisedMemory,
        Self::Address,
        Self::RacesInBlock,
        Self::RacesBetweenBlocks,
    ];
    /// Those that need no further compilation on a CPU and that are asked for together: milliseconds each.
    pub const CHEAP: [Self; 5] =
        [Self::Fences, Self::Orders, Self::UninitialisedShared, Self::DivergentBarriers, Self::ShuffleMasks];

    /// The word used on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fences => "fences",
            Self::Orders => "orders",
            Self::UninitialisedShared => "uninitialised-shared",
            Self::DivergentBarriers => "divergent-barriers",
            Self::ShuffleMasks => "shuffle-masks",
            Self::UninitialisedMemory => "uninitialised-memory",
            Self::Address => "address",
            Self::RacesInBlock => "races-in-block",
            Self::RacesBetweenBlocks => "races-between-blocks",
        }
    }

    /// Raised when a screen finds more or less than before.
    pub fn version(self) -> u32 {
        match self {
            Self::Fences
            | Self::Orders
            | Self::UninitialisedShared
            | Self::DivergentBarriers
            | Self::ShuffleMasks
            | Self::UninitialisedMemory
            | Self::Address
            | Self::RacesInBlock
            | Self::RacesBetweenBlocks => 1,
        }
    }

    /// The name under which records keep its evidence.
    pub fn check(self) -> CheckName {
        CheckName::of(self.name(), self.version())
    }

    /// The screens of a list such as `address,orders`, `cheap`, `all` or `none`; each once, cheapest first.
    pub fn list(text: &str) -> Result<Vec<Self>, ScreenError> {
        let mut screens = Vec::new();
        for word in text.split(',').map(str::trim) {
            match word {
                "none" => {}
                "cheap" => screens.extend(Self::CHEAP),
                "all" => screens.extend(Self::ALL),
                word => screens.push(word.parse()?),
            }
        }
        screens.sort_unstable();
        screens.dedup();
        Ok(screens)
    }
}

/// `name/version`, as policies and records write it.
impl fmt::Display for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name(), self.version())
    }
}

/// With or without a version; another version than this build's is no screen that it knows.
impl FromStr for Screen {
    type Err = ScreenError;
    fn from_str(text: &str) -> Result<Self, ScreenError> {
        let found = Self::ALL.into_iter().find(|screen| text == screen.name() || text == screen.to_string());
        found.ok_or_else(|| ScreenError(text.chars().take(60).collect()))
    }
}

impl From<Screen> for String {
    fn from(screen: Screen) -> Self {
        screen.to_string()
    }
}

impl TryFrom<String> for Screen {
    type Error = ScreenError;
    fn try_from(text: String) -> Result<Self, ScreenError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::canonical;

    #[test]
    fn a_screen_is_written_with_its_version_and_read_back() {
        let bytes = canonical::to_bytes(&Screen::ALL.to_vec()).unwrap();
        let golden = r#"["fences/1","orders/1","uninitialised-shared/1","divergent-barriers/1","shuffle-masks/1","uninitialised-memory/1","address/1","races-in-block/1","races-between-blocks/1"]"#;
        assert_eq!(String::from_utf8(bytes.clone()).unwrap(), golden);
        assert_eq!(canonical::from_bytes::<Vec<Screen>>(&bytes).unwrap(), Screen::ALL);
    }

    #[test]
    fn lists_are_read_in_any_order_and_held_in_one() {
        let check = |text: &str, expected: &[Screen]| assert_eq!(Screen::list(text).unwrap(), expected);
        check("none", &[]);
        check("cheap", &Screen::CHEAP);
        check("all", &Screen::ALL);
        check("address, fences/1,address", &[Screen::Fences, Screen::Address]);
        for wrong in ["", "fences/2", "race", "Address"] {
            assert!(Screen::list(wrong).unwrap_err().to_string().contains("known are fences"), "{wrong:?}");
        }
    }
}
