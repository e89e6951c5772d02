//! The node's two keys: one for TLS, one that signs results. Made on first start, private to their owner.

use super::folder;
use fleet_config::domain::{NodeId, Sha256};
use fleet_config::identity::SecretKey;
use fleet_config::refusal::Refusal;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::path::Path;
use zeroize::Zeroizing;

/// PKCS#8 DER of the TLS key.
const TLS_FILE: &str = "tls.key.der";

/// The 32 bytes of the Ed25519 signing key.
const SIGNING_FILE: &str = "signing";

/// The keys with the certificate that shows the TLS key.
pub struct NodeIdentity {
    signing: SecretKey,
    tls_key: Zeroizing<Vec<u8>>,
    certificate: CertificateDer<'static>,
    tls_fingerprint: Sha256,
}

impl std::fmt::Debug for NodeIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeIdentity({})", self.node())
    }
}

impl NodeIdentity {
    /// The keys in the folder `keys`, made on first use.
    pub fn open(keys: &Path) -> Result<Self, Refusal> {
        let signing = signing_key(&keys.join(SIGNING_FILE))?;
        let path = keys.join(TLS_FILE);
        let place = path.display().to_string();
        let damaged = |error: rcgen::Error| damaged(&place, &error.to_string());
        let pair = match folder::read_private(&path)? {
            Some(bytes) => {
                let der = PrivatePkcs8KeyDer::from(bytes.as_slice());
                KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256).map_err(damaged)?
            }
            None => {
                let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(damaged)?;
                let bytes = Zeroizing::new(pair.serialize_der());
                folder::replace(&path, &bytes).map_err(|error| folder::io(&place, &error))?;
                pair
            }
        };
        let certificate = CertificateParams::new(["muster-node".to_owned()])
            .and_then(|params| params.self_signed(&pair))
            .map_err(damaged)?;
        Ok(Self {
            signing,
            tls_key: Zeroizing::new(pair.serialize_der()),
            certificate: certificate.der().clone(),
            tls_fingerprint: Sha256::of(&pair.subject_public_key_info()),
        })
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
        self.tls_fingerprint
    }
    pub(crate) fn tls_key(&self) -> &[u8] {
        &self.tls_key
    }
    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }
}

fn signing_key(path: &Path) -> Result<SecretKey, Refusal> {
    let place = path.display().to_string();
    if let Some(bytes) = folder::read_private(path)? {
        let seed = bytes.as_slice().try_into().map_err(|_| damaged(&place, "it does not hold 32 bytes"))?;
        return Ok(SecretKey::from_seed(&Zeroizing::new(seed)));
    }
    let mut seed = Zeroizing::new([0u8; 32]);
    getrandom::fill(seed.as_mut()).map_err(|error| {
        Refusal::new("state/randomness", &place, error.to_string(), "check the machine's random source")
    })?;
    folder::replace(path, seed.as_ref()).map_err(|error| folder::io(&place, &error))?;
    Ok(SecretKey::from_seed(&seed))
}

fn damaged(place: &str, cause: &str) -> Refusal {
    Refusal::new(
        "state/key",
        place,
        cause,
        "restore this key file from a backup, or start on a new state folder with an invite",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

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
            folder::replace(&path, &whole[..16]).unwrap();
            assert_eq!(NodeIdentity::open(folder.path()).unwrap_err().code, "state/key");
            assert_eq!(std::fs::read(&path).unwrap(), whole[..16]);
            folder::replace(&path, &whole).unwrap();
        }
    }
}
