//! Certificates of the coordinator's side. The one place where it chooses a crypto provider.
//!
//! Nobody signs certificates here: a key is known by the SHA-256 of its SubjectPublicKeyInfo. A node pins the
//! coordinator's key; the coordinator lets any well-formed certificate through whose owner proves possession
//! of the key in the handshake, and admission decides by its hash.

use super::{limits, reset};
use crate::state;
use fleet_config::domain::Sha256;
use fleet_config::refusal::Refusal;
use fleet_config::wire::ALPN;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{IdleTimeout, TransportConfig, VarInt};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, PeerIncompatible, SignatureScheme};
use std::path::Path;
use std::sync::Arc;
use webpki::EndEntityCert;
use zeroize::Zeroizing;

/// File of the private key in the folder of keys, PKCS#8 DER.
const KEY_FILE: &str = "tls.key.der";

/// Name in the certificate; nobody resolves it.
const NAME: &str = "muster";

/// Larger certificates than any key here needs are not parsed.
const CERTIFICATE_MAX: usize = 16 * 1024;

/// Why TLS cannot be set up with a key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("no certificate for the TLS key: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("TLS settings: {0}")]
    Rustls(#[from] rustls::Error),
    #[error("no random bytes: {0}")]
    Randomness(getrandom::Error),
    #[error("QUIC needs a cipher suite that the provider lacks")]
    Suite(#[from] quinn::crypto::rustls::NoInitialCipherSuite),
}

/// The coordinator's TLS key with its certificate.
pub struct ServerIdentity {
    key: Zeroizing<Vec<u8>>,
    certificate: CertificateDer<'static>,
    fingerprint: Sha256,
}

impl std::fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerIdentity({})", self.fingerprint)
    }
}

impl ServerIdentity {
    /// A new key, kept nowhere.
    pub fn generate() -> Result<Self, TlsError> {
        Self::of(&KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
    }

    /// The key in the folder `keys`, made on first use (0600).
    pub fn open(keys: &Path) -> Result<Self, Refusal> {
        let path = keys.join(KEY_FILE);
        let place = path.display().to_string();
        let damaged = |error: &TlsError| {
            Refusal::new("state/key", &place, error.to_string(), "restore this key file from a backup")
        };
        if let Some(bytes) = state::read_private(&path)? {
            let der = PrivatePkcs8KeyDer::from(bytes.as_slice());
            let pair = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256);
            return pair.map_err(TlsError::from).and_then(|pair| Self::of(&pair)).map_err(|e| damaged(&e));
        }
        let identity = Self::generate().map_err(|error| damaged(&error))?;
        state::write_private(&path, &identity.key).map_err(|error| state::io(&place, &error))?;
        Ok(identity)
    }

    fn of(pair: &KeyPair) -> Result<Self, TlsError> {
        let certificate = CertificateParams::new([NAME.to_owned()])?.self_signed(pair)?;
        Ok(Self {
            key: Zeroizing::new(pair.serialize_der()),
            certificate: certificate.der().clone(),
            fingerprint: Sha256::of(&pair.subject_public_key_info()),
        })
    }

    /// SHA-256 of the SubjectPublicKeyInfo: what invites carry and nodes pin.
    pub fn fingerprint(&self) -> Sha256 {
        self.fingerprint
    }

    /// How the endpoint names connections and resets those of an earlier process.
    pub(super) fn endpoint_config(&self) -> Result<quinn::EndpointConfig, TlsError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(TlsError::Randomness)?;
        Ok(reset::endpoint_config(&self.key, seed))
    }

    /// The endpoint's settings: TLS 1.3 only, client certificates, no 0-RTT, no resumption.
    pub(super) fn server_config(&self) -> Result<quinn::ServerConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.to_vec()));
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(Arc::new(AnyKey { provider }))
            .with_single_cert(vec![self.certificate.clone()], key)?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.max_early_data_size = 0;
        tls.send_tls13_tickets = 0;
        tls.session_storage = Arc::new(NoServerSessionStorage {});
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
        config.transport_config(Arc::new(transport_config()));
        config.migration(true);
        config.max_incoming(limits::HANDSHAKES_MAX * 4);
        Ok(config)
    }
}

fn transport_config() -> TransportConfig {
    let mut config = TransportConfig::default();
    let idle = u32::try_from(limits::IDLE_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    config
        .keep_alive_interval(Some(limits::KEEP_ALIVE))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(idle))))
        .max_concurrent_bidi_streams(VarInt::from_u32(limits::STREAMS_MAX))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(VarInt::from_u32(limits::STREAM_WINDOW))
        .receive_window(VarInt::from_u32(limits::RECEIVE_WINDOW))
        .send_window(limits::SEND_WINDOW);
    config
}

/// SHA-256 of the SubjectPublicKeyInfo of a peer's certificate.
pub(super) fn fingerprint_of(certificate: &CertificateDer<'_>) -> Result<Sha256, rustls::Error> {
    if certificate.len() > CERTIFICATE_MAX {
        return Err(rustls::CertificateError::BadEncoding.into());
    }
    let parsed = EndEntityCert::try_from(certificate).map_err(|_| rustls::CertificateError::BadEncoding)?;
    Ok(Sha256::of(&parsed.subject_public_key_info()))
}

/// Accepts every well-formed certificate whose owner signs the handshake.
#[derive(Debug)]
struct AnyKey {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        fingerprint_of(end_entity).map(|_| ClientCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls13RequiredForQuic.into())
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_lasts_and_its_fingerprint_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = ServerIdentity::open(folder.path()).unwrap();
        let again = ServerIdentity::open(folder.path()).unwrap();
        assert_eq!(first.fingerprint(), again.fingerprint());
        assert_eq!(fingerprint_of(&again.certificate).unwrap(), first.fingerprint());
        assert_ne!(ServerIdentity::generate().unwrap().fingerprint(), first.fingerprint());
        first.server_config().unwrap();
    }

    #[test]
    fn a_damaged_key_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        state::write_private(&folder.path().join(KEY_FILE), b"not a key").unwrap();
        assert_eq!(ServerIdentity::open(folder.path()).unwrap_err().code, "state/key");
        assert_eq!(std::fs::read(folder.path().join(KEY_FILE)).unwrap(), b"not a key");
    }

    #[test]
    fn bytes_that_are_no_certificate_are_refused() {
        for bytes in [vec![], vec![0x30], vec![0x30, 0x82, 0xff, 0xff], vec![0x30; CERTIFICATE_MAX + 1]] {
            assert!(fingerprint_of(&CertificateDer::from(bytes)).is_err());
        }
    }
}
