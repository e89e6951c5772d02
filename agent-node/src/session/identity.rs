//! The node's two keys: one for TLS, one that signs results. Made on first start, private to their owner.

use fleet_config::domain::{NodeId, Sha256};
use fleet_config::identity::SecretKey;
use fleet_config::refusal::Refusal;
use fleet_config::state::{TlsKey, signing_key};
use std::path::Path;

/// Name in the certificate; nobody resolves it.
const NAME: &str = "muster-node";

/// The 32 bytes of the Ed25519 signing key.
const SIGNING_FILE: &str = "signing";

/// What to do about a damaged key: its node cannot be the same again without it.
const REMEDY: &str = "restore this key file from a backup, or start on a new state folder with an invite";

/// The keys with the certificate that shows the TLS key.
pub struct NodeIdentity {
    signing: SecretKey,
    tls: TlsKey,
}

impl std::fmt::Debug for NodeIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeIdentity({})", self.node())
    }
}

impl NodeIdentity {
    /// The keys in the folder `keys`, made on first use.
    pub fn open(keys: &Path) -> Result<Self, Refusal> {
        let signing = signing_key(&keys.join(SIGNING_FILE), REMEDY)?;
        Ok(Self { signing, tls: TlsKey::open(keys, NAME, REMEDY)? })
    }

    /// The key that results are signed with.
    pub fn signing(&self) -> &SecretKey {
        &self.signing
    }
    /// The id of this node: the hash of its signing key.
    pub fn node(&self) -> NodeId {
        self.signing.public().node_id()
    }
    /// SHA-256 of the SubjectPublicKeyInfo of the TLS key.
    pub fn tls_fingerprint(&self) -> Sha256 {
        self.tls.fingerprint()
    }
    pub(crate) fn tls(&self) -> &TlsKey {
        &self.tls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::state::write_private;
    use std::os::unix::fs::PermissionsExt;

    const TLS_FILE: &str = "tls.key.der";

    #[test]
    fn keys_last_and_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let first = NodeIdentity::open(folder.path()).unwrap();
        let again = NodeIdentity::open(folder.path()).unwrap();
        assert_eq!(first.node(), again.node());
        assert_eq!(first.tls_fingerprint(), again.tls_fingerprint());
        for file in [TLS_FILE, SIGNING_FILE] {
            let path = folder.path().join(file);
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
            assert_eq!(NodeIdentity::open(folder.path()).unwrap_err().code, "state/secret-readable");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    #[test]
    fn a_damaged_key_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        NodeIdentity::open(folder.path()).unwrap();
        for file in [TLS_FILE, SIGNING_FILE] {
            let path = folder.path().join(file);
            let whole = std::fs::read(&path).unwrap();
            write_private(&path, &whole[..16]).unwrap();
            assert_eq!(NodeIdentity::open(folder.path()).unwrap_err().code, "state/key");
            assert_eq!(std::fs::read(&path).unwrap(), whole[..16]);
            write_private(&path, &whole).unwrap();
        }
    }
}
