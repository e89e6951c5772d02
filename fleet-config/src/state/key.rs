//! Keys in files of their own: made on first use, private to their owner, never replaced when damaged.
//!
//! Nobody signs certificates here: a TLS key is known by the SHA-256 of its SubjectPublicKeyInfo.

use super::file::{at, read_private, write_private};
use crate::domain::Sha256;
use crate::identity::SecretKey;
use crate::refusal::Refusal;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::path::Path;
use webpki::EndEntityCert;
use zeroize::Zeroizing;

/// File of the TLS key in a folder of keys, PKCS#8 DER.
const TLS_FILE: &str = "tls.key.der";

/// Larger certificates than any key here needs are not parsed.
pub const CERTIFICATE_MAX: usize = 16 * 1024;

/// The signing key whose 32 bytes lie at `path`, made on first use. `remedy` is the next step where the file is
/// damaged.
pub fn signing_key(path: &Path, remedy: &str) -> Result<SecretKey, Refusal> {
    let place = path.display().to_string();
    if let Some(bytes) = read_private(path)? {
        let cause = "this key file does not hold 32 bytes";
        let seed = bytes.as_slice().try_into();
        let seed = seed.map_err(|_| Refusal::new("state/key", place, cause, remedy))?;
        return Ok(SecretKey::from_seed(&Zeroizing::new(seed)));
    }
    let mut seed = Zeroizing::new([0u8; 32]);
    getrandom::fill(seed.as_mut()).map_err(|error| {
        Refusal::new("state/randomness", place, error.to_string(), "check the machine's random source")
    })?;
    write_private(path, seed.as_ref()).map_err(at(path))?;
    Ok(SecretKey::from_seed(&seed))
}

/// Why a key or a certificate is none.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("no certificate for the TLS key: {0}")]
    Key(#[from] rcgen::Error),
    #[error("this certificate has {0} bytes, more than {CERTIFICATE_MAX}")]
    Size(usize),
    #[error("this is no certificate: {0}")]
    Encoding(webpki::Error),
}

/// A TLS key with the certificate that shows it.
pub struct TlsKey {
    pkcs8: Zeroizing<Vec<u8>>,
    certificate: CertificateDer<'static>,
    fingerprint: Sha256,
}

impl std::fmt::Debug for TlsKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TlsKey({})", self.fingerprint)
    }
}

impl TlsKey {
    /// A new key, kept nowhere. `name` stands in the certificate; nobody resolves it.
    pub fn generate(name: &str) -> Result<Self, CertificateError> {
        Self::of(&KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?, name)
    }

    /// The key in the folder `keys`, made on first use. `remedy` is the next step where the file is damaged.
    pub fn open(keys: &Path, name: &str, remedy: &str) -> Result<Self, Refusal> {
        let path = keys.join(TLS_FILE);
        let damaged = |error: CertificateError| {
            Refusal::new("state/key", path.display().to_string(), error.to_string(), remedy)
        };
        if let Some(bytes) = read_private(&path)? {
            let der = PrivatePkcs8KeyDer::from(bytes.as_slice());
            let pair = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256);
            return pair.map_err(CertificateError::from).and_then(|p| Self::of(&p, name)).map_err(damaged);
        }
        let key = Self::generate(name).map_err(damaged)?;
        write_private(&path, &key.pkcs8).map_err(at(&path))?;
        Ok(key)
    }

    fn of(pair: &KeyPair, name: &str) -> Result<Self, CertificateError> {
        let certificate = CertificateParams::new([name.to_owned()])?.self_signed(pair)?;
        Ok(Self {
            pkcs8: Zeroizing::new(pair.serialize_der()),
            certificate: certificate.der().clone(),
            fingerprint: Sha256::of(&pair.subject_public_key_info()),
        })
    }

    /// The private key, PKCS#8 DER.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }
    /// The self-signed certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }
    /// SHA-256 of the SubjectPublicKeyInfo: what invites carry and peers pin.
    pub fn fingerprint(&self) -> Sha256 {
        self.fingerprint
    }
}

/// SHA-256 of the SubjectPublicKeyInfo of a peer's certificate.
pub fn fingerprint_of(certificate: &CertificateDer<'_>) -> Result<Sha256, CertificateError> {
    if certificate.len() > CERTIFICATE_MAX {
        return Err(CertificateError::Size(certificate.len()));
    }
    let parsed = EndEntityCert::try_from(certificate).map_err(CertificateError::Encoding)?;
    Ok(Sha256::of(&parsed.subject_public_key_info()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(keys: &Path) -> Result<TlsKey, Refusal> {
        TlsKey::open(keys, "test", "restore it")
    }

    #[test]
    fn keys_last() {
        let folder = tempfile::tempdir().unwrap();
        let (first, again) = (open(folder.path()).unwrap(), open(folder.path()).unwrap());
        assert_eq!((first.fingerprint(), first.pkcs8()), (again.fingerprint(), again.pkcs8()));
        assert_eq!(fingerprint_of(again.certificate()).unwrap(), first.fingerprint());
        assert_ne!(TlsKey::generate("test").unwrap().fingerprint(), first.fingerprint());
        let path = folder.path().join("signing");
        let key = signing_key(&path, "restore it").unwrap().public();
        assert_eq!(signing_key(&path, "restore it").unwrap().public(), key);
    }

    #[test]
    fn a_damaged_key_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        for file in [TLS_FILE, "signing"] {
            let path = folder.path().join(file);
            write_private(&path, b"not a key").unwrap();
            let opened = match file {
                TLS_FILE => open(folder.path()).map(|_| ()),
                _ => signing_key(&path, "restore it").map(|_| ()),
            };
            let refusal = opened.unwrap_err();
            assert_eq!((refusal.code.as_ref(), refusal.next.as_str()), ("state/key", "restore it"));
            assert_eq!(std::fs::read(&path).unwrap(), b"not a key");
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_are_refused() {
        for bytes in [vec![], vec![0x30], vec![0x30, 0x82, 0xff, 0xff], vec![0x30; CERTIFICATE_MAX + 1]] {
            assert!(fingerprint_of(&CertificateDer::from(bytes)).is_err());
        }
    }
}
