//! Settings of a coordinator.

use super::document::{Room, parse};
use crate::refusal::Refusal;
use serde::Deserialize;

/// `coordinator.toml`. Every key may be left out; unknown keys are refused with their line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoordinatorSettings {
    /// Folder of ledger, journal, keys and sealed sections. Default: empty, which means `$MUSTER_STATE`, else
    /// the XDG data folder.
    pub state: String,
    /// UDP address that nodes dial. Default: `127.0.0.1:7443`, reachable from this machine alone.
    pub listen: String,
    /// Names and addresses that the certificate states beside the listening one. Default: none.
    pub names: Vec<String>,
    /// TCP address of the HTTP API, with a bearer token. Default: empty, which means the Unix socket alone.
    pub http_listen: String,
    /// Log filter, as in `info,quinn=warn`. Default: `info`.
    pub log: String,
    /// Name of the log in its checkpoints. Default: empty, which means `muster.invalid/` with the first 16
    /// digits of the operator key's hash.
    pub origin: String,
    /// Sizes, counts and times.
    pub limits: CoordinatorLimits,
}

/// Bounds of what a coordinator takes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoordinatorLimits {
    /// Nodes that are connected at once. Default: 10 000.
    pub nodes: u32,
    /// Cells that wait or run. Default: 1 000 000; further submissions are refused.
    pub cells: u64,
    /// Candidates of one submission. Default: 4096.
    pub candidates: u32,
    /// One blob in bytes. Default: 256 MiB.
    pub blob_bytes: u64,
    /// How long a lease lives without a sign of its node, in milliseconds. Default: 60 000.
    pub lease_ms: u64,
    /// Attempts at a cell after faults of the fleet. Default: 5.
    pub attempts: u32,
}

impl Default for CoordinatorSettings {
    fn default() -> Self {
        Self {
            state: String::new(),
            listen: "127.0.0.1:7443".to_owned(),
            names: Vec::new(),
            http_listen: String::new(),
            log: "info".to_owned(),
            origin: String::new(),
            limits: CoordinatorLimits::default(),
        }
    }
}

impl Default for CoordinatorLimits {
    fn default() -> Self {
        Self {
            nodes: 10_000,
            cells: 1_000_000,
            candidates: 4096,
            blob_bytes: 256 << 20,
            lease_ms: 60_000,
            attempts: 5,
        }
    }
}

impl CoordinatorSettings {
    /// Parses the text of the file that people know as `file`. Errors: `coordinator/syntax`,
    /// `coordinator/unknown-key`, `coordinator/value`, `coordinator/size`, each with file and line.
    pub fn parse(text: &str, file: &str) -> Result<Self, Refusal> {
        parse(text, file, Room::Coordinator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_means_the_defaults_and_unknown_keys_are_named() {
        assert_eq!(CoordinatorSettings::parse("", "c.toml"), Ok(CoordinatorSettings::default()));
        let text = "listen = \"0.0.0.0:7443\"\n\n[limits]\nlease_ms = 5000\n";
        let settings = CoordinatorSettings::parse(text, "c.toml").unwrap();
        assert_eq!((settings.limits.lease_ms, settings.limits.attempts), (5000, 5));
        let refusal = CoordinatorSettings::parse("listne = \"x\"\n", "c.toml").unwrap_err();
        assert_eq!((refusal.code.as_ref(), refusal.place.as_str()), ("coordinator/unknown-key", "c.toml:1"));
        assert_eq!(CoordinatorSettings::parse("listen = 3", "c").unwrap_err().code, "coordinator/value");
    }
}
