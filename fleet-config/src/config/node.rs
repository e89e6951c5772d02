//! Settings of a node.

use super::document::{Room, parse};
use crate::refusal::Refusal;
use serde::Deserialize;

/// `node.toml`. Every key may be left out; unknown keys are refused with their line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSettings {
    /// Folder of keys, outbox and caches. Default: empty, which means `$MUSTER_STATE`, else the XDG data folder.
    pub state: String,
    /// Coordinators to dial, `host:port`, in the order of preference. Default: none; `--coordinator` then names
    /// one.
    pub coordinators: Vec<String>,
    /// File with the invite; `-` is standard input. Default: empty, for a node that has already joined.
    pub invite_file: String,
    /// Name for people. Default: empty, which means the host's name.
    pub name: String,
    /// Log filter, as in `info,quinn=warn`. Default: `info`.
    pub log: String,
    /// Devices to offer.
    pub devices: DeviceSettings,
    /// Path of the C++ compiler. Default: empty, which means `g++`, else `clang++`, from the usual folders.
    pub compiler: String,
    /// Files and folders with NVRTC, separated by colons; nothing else is searched then. Default: empty, which means
    /// `$MUSTER_NVRTC`, else the usual places.
    pub nvrtc: String,
    /// Sandbox level: `best` is what the machine gives, `kernel` at least; `full` refuses to start without namespaces and
    /// offers no GPU; `kernel` makes no namespaces. Default: `best`.
    pub sandbox: SandboxWish,
    /// Run candidates without a sandbox where the kernel has none; every record shows it. Default: false, which
    /// refuses to run.
    pub unsafe_no_sandbox: bool,
    /// Sizes and counts.
    pub limits: NodeLimits,
}

/// The sandbox level that an operator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxWish {
    /// What the machine gives.
    #[default]
    Best,
    /// Namespaces, or none of its work.
    Full,
    /// No namespaces.
    Kernel,
}

/// A word that names no wish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of best, full and kernel")]
pub struct SandboxWishError(String);

impl std::str::FromStr for SandboxWish {
    type Err = SandboxWishError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "best" => Ok(Self::Best),
            "full" => Ok(Self::Full),
            "kernel" => Ok(Self::Kernel),
            other => Err(SandboxWishError(other.chars().take(40).collect())),
        }
    }
}

/// Which devices a node offers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceSettings {
    /// Offer the CPU device. Default: true.
    pub cpu: bool,
    /// Architecture levels of the CPU device, such as `x86-64-v2`. Default: empty, which means the host's best.
    pub levels: Vec<String>,
    /// Offer the GPUs that the driver shows. Default: true.
    pub gpu: bool,
    /// Architectures to compile for without running anything, such as `sm_80`; `all` means every one that NVRTC knows.
    /// Default: empty, none.
    pub compile: Vec<String>,
}

/// Bounds of what a node keeps and takes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeLimits {
    /// Blob cache in bytes. Default: 4 GiB.
    pub blob_cache_bytes: u64,
    /// Cache of compiled artefacts in bytes. Default: 1 GiB.
    pub artefact_cache_bytes: u64,
    /// Signed results that wait for an acknowledgement. Default: 10 000; a full outbox takes no new work.
    pub outbox_entries: u32,
    /// Compilers that run at once. Default: 2.
    pub compilers: u32,
    /// Workers that stand by for each GPU, so that no attempt waits for a driver to start; 0 is none. Default: 8.
    pub standby_workers: u32,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            state: String::new(),
            coordinators: Vec::new(),
            invite_file: String::new(),
            name: String::new(),
            log: "info".to_owned(),
            devices: DeviceSettings::default(),
            compiler: String::new(),
            nvrtc: String::new(),
            sandbox: SandboxWish::Best,
            unsafe_no_sandbox: false,
            limits: NodeLimits::default(),
        }
    }
}

impl Default for DeviceSettings {
    fn default() -> Self {
        Self { cpu: true, levels: Vec::new(), gpu: true, compile: Vec::new() }
    }
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self {
            blob_cache_bytes: 4 << 30,
            artefact_cache_bytes: 1 << 30,
            outbox_entries: 10_000,
            compilers: 2,
            standby_workers: 8,
        }
    }
}

impl NodeSettings {
    /// Parses the text of the file that people know as `file`. Errors: `node/syntax`, `node/unknown-key`,
    /// `node/value`, `node/size`, each with file and line.
    pub fn parse(text: &str, file: &str) -> Result<Self, Refusal> {
        parse(text, file, Room::Node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_means_the_defaults_and_unknown_keys_are_named() {
        assert_eq!(NodeSettings::parse("", "node.toml"), Ok(NodeSettings::default()));
        let text = "coordinators = [\"localhost:7443\"]\n[devices]\nlevels = [\"x86-64-v2\"]\n";
        let settings = NodeSettings::parse(text, "node.toml").unwrap();
        assert_eq!((settings.devices.levels.len(), settings.devices.cpu), (1, true));
        let refusal =
            NodeSettings::parse("log = \"info\"\n[limits]\nblob_cash = 1\n", "node.toml").unwrap_err();
        assert_eq!((refusal.code.as_ref(), refusal.place.as_str()), ("node/unknown-key", "node.toml:3"));
        assert!(refusal.cause.contains("blob_cash"), "{}", refusal.cause);
        assert_eq!(NodeSettings::parse("log = 1", "n").unwrap_err().code, "node/value");
        assert_eq!(NodeSettings::parse("log = ", "n").unwrap_err().code, "node/syntax");
    }
}
