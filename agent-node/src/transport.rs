//! The QUIC client: dial, pin the coordinator's key, frames. The one place where the node chooses a crypto
//! provider.

use crate::session::NodeIdentity;
use fleet_config::domain::Sha256;
use fleet_config::refusal::Refusal;
use fleet_config::state::fingerprint_of;
use fleet_config::wire::close::{CloseCode, PROOF_LABEL, PROOF_MATERIAL};
use fleet_config::wire::codec::{self, FrameError, PREFIX};
use fleet_config::wire::{KEEP_ALIVE_SECONDS, Version};
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig};
use quinn::{
    Connection, ConnectionError, Endpoint, IdleTimeout, ReadExactError, RecvStream, SendStream,
    TransportConfig, TransportErrorCode, VarInt,
};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, PeerIncompatible, SignatureScheme};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Name that is asked for in the handshake; the key is what counts.
const SERVER_NAME: &str = "muster";

/// A dial that has not ended by then goes on to the next address.
const DIAL_WITHIN: Duration = Duration::from_secs(10);

/// Signs of life: two thirds of what the protocol allows, since home routers forget a flow after 30 s.
const KEEP_ALIVE: Duration = Duration::from_secs(KEEP_ALIVE_SECONDS * 2 / 3);

/// A coordinator silent for this long is gone: three keep-alives lost in a row.
const IDLE_TIMEOUT_MS: u32 = 30_000;

/// Streams that the coordinator may open: one per device and some that are ending.
const STREAMS_MAX: u32 = 128;

/// TLS alert `no_application_protocol` (RFC 7301): the peer speaks no protocol of ours.
const ALERT_NO_PROTOCOL: u8 = 120;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("`{address}` does not resolve: {source}")]
    Resolve { address: String, source: std::io::Error },
    #[error("`{0}` resolves to no address")]
    NoAddress(String),
    #[error("no UDP socket: {0}")]
    Bind(std::io::Error),
    #[error("TLS settings: {0}")]
    Tls(#[from] rustls::Error),
    #[error("QUIC needs a cipher suite that the provider lacks")]
    Suite(#[from] quinn::crypto::rustls::NoInitialCipherSuite),
    #[error(transparent)]
    Start(#[from] quinn::ConnectError),
    #[error("{address} shows another key than the one that is pinned")]
    WrongCoordinator { address: SocketAddr },
    #[error("{address} speaks neither muster/2 nor muster/1")]
    WrongProtocol { address: SocketAddr },
    #[error("no connection: {0}")]
    Connection(#[from] ConnectionError),
    #[error("no keying material could be exported")]
    Exporter,
    #[error("nobody answered within {} s", DIAL_WITHIN.as_secs())]
    Late,
}

impl ConnectError {
    /// The refusal of whoever answered, where waiting does not help.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::WrongCoordinator { address } => Some(Refusal::new(
                "join/wrong-coordinator",
                address.to_string(),
                self.to_string(),
                "check the address; if the coordinator got new keys, ask for a new invite",
            )),
            Self::WrongProtocol { address } => Some(Refusal::new(
                "join/version",
                address.to_string(),
                self.to_string(),
                "use the version of muster-node that belongs to the coordinator",
            )),
            Self::Resolve { .. }
            | Self::NoAddress(_)
            | Self::Bind(_)
            | Self::Tls(_)
            | Self::Suite(_)
            | Self::Start(_)
            | Self::Connection(_)
            | Self::Exporter
            | Self::Late => None,
        }
    }
}

/// A connection whose peer holds the pinned key.
pub struct Dialled {
    pub connection: Connection,
    /// What the hello's proof signs.
    pub exporter: [u8; PROOF_MATERIAL],
    /// Lives as long as the connection.
    endpoint: Endpoint,
}

impl Dialled {
    /// The address of this side.
    pub fn local_address(&self) -> std::io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }
}

/// Dials `address` (`host:port`) and checks that the peer holds the key `pin`.
pub async fn dial(identity: &NodeIdentity, address: &str, pin: Sha256) -> Result<Dialled, ConnectError> {
    let resolve = |source| ConnectError::Resolve { address: address.to_owned(), source };
    let mut found = tokio::net::lookup_host(address).await.map_err(resolve)?;
    let peer = found.next().ok_or_else(|| ConnectError::NoAddress(address.to_owned()))?;
    tokio::time::timeout(DIAL_WITHIN, dial_peer(identity, peer, pin)).await.map_err(|_| ConnectError::Late)?
}

async fn dial_peer(identity: &NodeIdentity, peer: SocketAddr, pin: Sha256) -> Result<Dialled, ConnectError> {
    let mismatch = Arc::new(AtomicBool::new(false));
    let config = client_config(identity, pin, Arc::clone(&mismatch))?;
    let local: SocketAddr = match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let endpoint = Endpoint::client(local).map_err(ConnectError::Bind)?;
    let connecting = endpoint.connect_with(config, peer, SERVER_NAME)?;
    let connection = match connecting.await {
        Ok(connection) => connection,
        Err(_) if mismatch.load(Ordering::Relaxed) => {
            return Err(ConnectError::WrongCoordinator { address: peer });
        }
        Err(error) if is_wrong_protocol(&error) => {
            return Err(ConnectError::WrongProtocol { address: peer });
        }
        Err(error) => return Err(error.into()),
    };
    let mut exporter = [0u8; PROOF_MATERIAL];
    connection.export_keying_material(&mut exporter, PROOF_LABEL, &[]).map_err(|_| ConnectError::Exporter)?;
    Ok(Dialled { connection, exporter, endpoint })
}

/// The wire version that the handshake agreed on.
pub fn version(connection: &Connection) -> Version {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    let agreed = data.and_then(|data| data.protocol).and_then(|alpn| Version::of(&alpn));
    agreed.unwrap_or(Version::V1)
}

fn is_wrong_protocol(error: &ConnectionError) -> bool {
    let alert = TransportErrorCode::crypto(ALERT_NO_PROTOCOL);
    match error {
        ConnectionError::VersionMismatch => true,
        ConnectionError::TransportError(error) => error.code == alert,
        ConnectionError::ConnectionClosed(close) => close.error_code == alert,
        ConnectionError::ApplicationClosed(_)
        | ConnectionError::Reset
        | ConnectionError::TimedOut
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => false,
    }
}

/// TLS 1.3 only, our certificate, the pinned key, no resumption and so no 0-RTT.
fn client_config(
    identity: &NodeIdentity,
    pin: Sha256,
    mismatch: Arc<AtomicBool>,
) -> Result<quinn::ClientConfig, ConnectError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.tls().pkcs8().to_vec()));
    let verifier = PinnedKey { provider: Arc::clone(&provider), pin, mismatch };
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(vec![identity.tls().certificate().clone()], key)?;
    tls.alpn_protocols = Version::offered();
    tls.resumption = Resumption::disabled();
    tls.enable_early_data = false;
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let mut transport = TransportConfig::default();
    transport
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_TIMEOUT_MS))))
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_MAX))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Accepts the certificate of one key and no other.
#[derive(Debug)]
struct PinnedKey {
    provider: Arc<CryptoProvider>,
    pin: Sha256,
    /// Set when another key was shown, since QUIC reports no more than an alert.
    mismatch: Arc<AtomicBool>,
}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if fingerprint_of(end_entity).map_err(|_| CertificateError::BadEncoding)? == self.pin {
            Ok(ServerCertVerified::assertion())
        } else {
            self.mismatch.store(true, Ordering::Relaxed);
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
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

/// Why a message did not cross.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("the stream ended within a frame")]
    Cut,
    #[error("the stream ended before it said what it owes")]
    Early,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Open(#[from] ConnectionError),
    #[error(transparent)]
    Read(#[from] quinn::ReadError),
    #[error(transparent)]
    Write(#[from] quinn::WriteError),
    #[error("nothing moved in time")]
    Silence,
    #[error("cannot read a file that is sent: {0}")]
    File(#[from] std::io::Error),
    #[error("a worker thread ended early: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// The next message, or `None` where the stream ended cleanly.
pub async fn read<T: DeserializeOwned>(stream: &mut RecvStream) -> Result<Option<T>, StreamError> {
    let mut prefix = [0u8; PREFIX];
    match stream.read_exact(&mut prefix).await {
        Ok(()) => {}
        Err(ReadExactError::FinishedEarly(0)) => return Ok(None),
        Err(error) => return Err(cut_short(error)),
    }
    let mut body = vec![0u8; codec::body_length(prefix)?];
    stream.read_exact(&mut body).await.map_err(cut_short)?;
    Ok(Some(codec::decode(&body)?))
}

/// Writes one message.
pub async fn write(stream: &mut SendStream, message: &impl Serialize) -> Result<(), StreamError> {
    stream.write_all(&codec::encode(message)?).await?;
    Ok(())
}

fn cut_short(error: ReadExactError) -> StreamError {
    match error {
        ReadExactError::FinishedEarly(_) => StreamError::Cut,
        ReadExactError::ReadError(error) => StreamError::Read(error),
    }
}

/// Closes a connection with a code that says why.
pub fn close(connection: &Connection, code: CloseCode) {
    connection.close(code.number().into(), code.to_string().as_bytes());
}
