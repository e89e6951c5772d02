//! Peers that speak another protocol, or none.

use crate::coordinator::{Coordinator, NOW, PATIENCE};
use crate::node::{Bare, Node};
use fleet_config::domain::Sha256;
use fleet_config::invite::{Invite, InviteId, InviteSecret};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use quinn::rustls::{self, DigitallySignedStruct, SignatureScheme};
use quinn::{ConnectionError, Endpoint};
use rcgen::PublicKeyData;
use std::sync::Arc;
use tempfile::tempdir;

/// Believes anybody: a client that is no node of ours.
#[derive(Debug)]
struct Gullible;

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Dials without a certificate, speaking `alpn`; the error of the connection, whenever it comes.
async fn stranger(fleet: &Coordinator, alpn: &[u8]) -> ConnectionError {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible))
        .with_no_client_auth();
    tls.alpn_protocols = vec![alpn.to_vec()];
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = endpoint.connect_with(config, fleet.address, "muster").unwrap();
    let ended = async {
        match connecting.await {
            Ok(connection) => connection.closed().await,
            Err(error) => error,
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("an end in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn another_protocol_and_a_missing_certificate_are_refused_in_the_handshake() {
    let mut fleet = Coordinator::start().await;
    let error = stranger(&fleet, b"muster/9").await.to_string();
    assert!(error.contains("120") || error.contains("application protocol"), "{error}");
    let error = stranger(&fleet, b"muster/1").await.to_string();
    assert!(error.contains("116") || error.contains("ertificate"), "{error}");
    let keys = tempdir().unwrap();
    let _bare = Bare::join(&Bare::identity(keys.path()), &fleet.invite(1, NOW + 1)).await;
    let _connected = fleet.joined().await;
    assert_eq!(fleet.listener.counters().handshakes_failed, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_says_so_when_the_other_side_speaks_another_protocol() {
    let pair = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["x".to_owned()]).unwrap().self_signed(&pair).unwrap();
    let key = PrivatePkcs8KeyDer::from(pair.serialize_der());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let _refused = incoming.await;
        }
    });
    let invite = Invite {
        secret: InviteSecret::new([1; 32]),
        coordinator: Sha256::of(&pair.subject_public_key_info()),
        expires_unix_ms: NOW,
        id: InviteId([1; 8]),
        addresses: vec![address.to_string()],
    };
    let state = tempdir().unwrap();
    assert_eq!(Node::start(state.path(), Some(invite)).refused().await, "join/version");
}
