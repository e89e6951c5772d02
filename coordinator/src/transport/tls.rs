//! Certificates of the coordinator's side. The one place where it chooses a crypto provider.
//!
//! Nobody signs certificates here: a key is known by the SHA-256 of its SubjectPublicKeyInfo. A node pins the
//! coordinator's key; the coordinator lets any well-formed certificate through whose owner proves possession
//! of the key in the handshake, and admission decides by its hash.

use super::{limits, reset};
use fleet_config::domain::Sha256;
use fleet_config::refusal::Refusal;
use fleet_config::state::{self, TlsKey, fingerprint_of};
use fleet_config::wire::Version;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{IdleTimeout, TransportConfig, VarInt};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, PeerIncompatible, SignatureScheme};
use std::path::Path;
use std::sync::Arc;

/// Name in the certificate; nobody resolves it.
const NAME: &str = "muster";

/// Why TLS cannot be set up with a key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(transparent)]
    Certificate(#[from] state::CertificateError),
    #[error("TLS settings: {0}")]
    Rustls(#[from] rustls::Error),
    #[error("no random bytes: {0}")]
    Randomness(getrandom::Error),
    #[error("QUIC needs a cipher suite that the provider lacks")]
    Suite(#[from] quinn::crypto::rustls::NoInitialCipherSuite),
}

/// The coordinator's TLS key with its certificate.
#[derive(Debug)]
pub struct ServerIdentity(TlsKey);

impl ServerIdentity {
    /// A new key, kept nowhere.
    pub fn generate() -> Result<Self, TlsError> {
        Ok(Self(TlsKey::generate(NAME)?))
    }

    /// The key in the folder `keys`, made on first use (0600).
    pub fn open(keys: &Path) -> Result<Self, Refusal> {
        TlsKey::open(keys, NAME, "restore this key file from a backup").map(Self)
    }

    /// SHA-256 of the SubjectPublicKeyInfo: what invites carry and nodes pin.
    pub fn fingerprint(&self) -> Sha256 {
        self.0.fingerprint()
    }

    /// How the endpoint names connections and resets those of an earlier process.
    pub(super) fn endpoint_config(&self) -> Result<quinn::EndpointConfig, TlsError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(TlsError::Randomness)?;
        Ok(reset::endpoint_config(self.0.pkcs8(), seed))
    }

    /// The endpoint's settings: TLS 1.3 only, client certificates, no 0-RTT, no resumption.
    pub(super) fn server_config(&self) -> Result<quinn::ServerConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.0.pkcs8().to_vec()));
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(Arc::new(AnyKey { provider }))
            .with_single_cert(vec![self.0.certificate().clone()], key)?;
        tls.alpn_protocols = Version::offered();
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
        // Admission decides by the key; here it must only be one.
        fingerprint_of(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        Ok(ClientCertVerified::assertion())
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
        assert_ne!(ServerIdentity::generate().unwrap().fingerprint(), first.fingerprint());
        first.server_config().unwrap();
    }
}
