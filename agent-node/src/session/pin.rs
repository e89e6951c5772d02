//! The pinned coordinator: where it listens, which key it has, whose ledger it keeps.

use fleet_config::domain::Sha256;
use fleet_config::invite::{ADDRESSES_MAX, check_address};
use fleet_config::refusal::Refusal;
use fleet_config::state;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Longest pin file: eight addresses and three short texts.
const FILE_MAX: u64 = 16 * 1024;

/// What every start after the first joins by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// `host:port`, tried in order.
    pub addresses: Vec<String>,
    /// SHA-256 of the SubjectPublicKeyInfo of the coordinator's TLS key.
    pub tls_key: Sha256,
    /// Origin of its ledger.
    pub origin: String,
    /// C2SP verifier key of its log.
    pub log_vkey: String,
}

impl Pin {
    /// The pin in the file at `path`, if there is one.
    pub fn load(path: &Path) -> Result<Option<Self>, Refusal> {
        let place = path.display().to_string();
        let damaged = |cause: String| {
            Refusal::new("state/pin", &place, cause, "delete this file and join with a new invite")
        };
        let Some(bytes) = state::read_bounded(path, FILE_MAX).map_err(|error| state::io(&place, &error))?
        else {
            return Ok(None);
        };
        let pin: Self = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if pin.addresses.is_empty() || pin.addresses.len() > ADDRESSES_MAX {
            return Err(damaged("it names no address or too many".to_owned()));
        }
        pin.addresses.iter().try_for_each(|address| check_address(address))?;
        Ok(Some(pin))
    }

    /// Writes the pin so that a crash leaves the old one or the new one.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        state::write_private(path, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_comes_back_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.json");
        assert_eq!(Pin::load(&path).unwrap(), None);
        let pin = Pin {
            addresses: vec!["127.0.0.1:7421".to_owned()],
            tls_key: Sha256([3; 32]),
            origin: "muster.invalid/00".to_owned(),
            log_vkey: "v".to_owned(),
        };
        pin.save(&path).unwrap();
        assert_eq!(Pin::load(&path).unwrap(), Some(pin.clone()));
        Pin { addresses: vec![], ..pin.clone() }.save(&path).unwrap();
        assert_eq!(Pin::load(&path).unwrap_err().code, "state/pin");
        Pin { addresses: vec!["nowhere".to_owned()], ..pin }.save(&path).unwrap();
        assert_eq!(Pin::load(&path).unwrap_err().code, "join/invite-address");
        std::fs::write(&path, "{").unwrap();
        assert_eq!(Pin::load(&path).unwrap_err().code, "state/pin");
    }
}
