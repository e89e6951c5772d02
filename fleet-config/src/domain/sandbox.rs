//! How closely a candidate was confined: recorded with every result, and a filter of rankings.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Levels from the weakest to the closest; `docs/SANDBOX.md` has their layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxLevel {
    /// Neither Landlock nor seccomp, because the operator said so.
    None,
    /// Landlock and seccomp.
    Kernel,
    /// These and namespaces of its own: user, mount, process, ipc, network, host name.
    Full,
}

/// A word that names no level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no sandbox level: full, kernel and none are")]
pub struct SandboxLevelError(String);

impl SandboxLevel {
    /// The word that records carry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Kernel => "kernel",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SandboxLevel {
    type Err = SandboxLevelError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let levels = [Self::None, Self::Kernel, Self::Full];
        let found = levels.into_iter().find(|level| level.as_str() == text);
        found.ok_or_else(|| SandboxLevelError(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_levels_and_levels_have_an_order() {
        for level in [SandboxLevel::None, SandboxLevel::Kernel, SandboxLevel::Full] {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert!(SandboxLevel::None < SandboxLevel::Kernel && SandboxLevel::Kernel < SandboxLevel::Full);
        assert!("FULL".parse::<SandboxLevel>().is_err());
    }
}
