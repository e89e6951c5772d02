//! Architectures as `vendor:name`, neutral across vendors.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Who makes the device. `cpu` is a device kind of its own and never ranked with GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vendor {
    Cpu,
    Nvidia,
    Amd,
    Intel,
}

/// `nvidia:sm_90a`, `amd:gfx942`, `cpu:x86-64-v3`, `cpu:aarch64`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Architecture {
    text: String,
    vendor: Vendor,
}

/// A text that is no `vendor:name`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no architecture; write `vendor:name` as in `cpu:x86-64-v3` or `nvidia:sm_90a` (vendors: cpu, nvidia, amd, intel)"
)]
pub struct ArchitectureError {
    text: String,
}

impl Architecture {
    /// The vendor.
    pub fn vendor(&self) -> Vendor {
        self.vendor
    }
    /// The vendor's own name of the architecture, such as `sm_90a`.
    pub fn name(&self) -> &str {
        self.text.split_once(':').map_or("", |(_, name)| name)
    }
    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Architecture {
    type Err = ArchitectureError;
    fn from_str(text: &str) -> Result<Self, ArchitectureError> {
        let bad = || ArchitectureError { text: text.chars().take(80).collect() };
        let (vendor, name) = text.split_once(':').ok_or_else(bad)?;
        let vendor = match vendor {
            "cpu" => Vendor::Cpu,
            "nvidia" => Vendor::Nvidia,
            "amd" => Vendor::Amd,
            "intel" => Vendor::Intel,
            _ => return Err(bad()),
        };
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > 40 || !name.chars().all(legal) {
            return Err(bad());
        }
        Ok(Self { text: text.to_owned(), vendor })
    }
}

impl TryFrom<String> for Architecture {
    type Error = ArchitectureError;
    fn try_from(text: String) -> Result<Self, ArchitectureError> {
        text.parse()
    }
}

impl From<Architecture> for String {
    fn from(architecture: Architecture) -> Self {
        architecture.text
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
