//! The endpoint: accepts connections at a bounded rate and starts one session each.

use super::blob::{BlobSink, BlobSource};
use super::event::TransportEvent;
use super::limits;
use super::registry::{CounterValues, Counters, Registry};
use super::session;
use super::tls::{ServerIdentity, TlsError};
use fleet_config::refusal::Refusal;
use fleet_config::wire::close::CloseCode;
use quinn::{Endpoint, Incoming};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Where to listen and as whom.
#[derive(Debug)]
pub struct ListenerOptions {
    pub address: SocketAddr,
    pub identity: ServerIdentity,
}

/// Where blobs come from and go to.
#[derive(Clone)]
pub struct Stores {
    pub source: Arc<dyn BlobSource>,
    pub sink: Arc<dyn BlobSink>,
}

/// Why no listener could be started.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {address}: {source}")]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl From<ListenError> for Refusal {
    fn from(error: ListenError) -> Self {
        match &error {
            ListenError::Bind { address, source } if source.kind() == ErrorKind::AddrInUse => Self::new(
                "listen/port-in-use",
                address.to_string(),
                "another process listens there",
                "stop it, or name another address with --listen",
            ),
            ListenError::Bind { address, source } => Self::new(
                "listen/address",
                address.to_string(),
                source.to_string(),
                "name an address of this machine with --listen",
            ),
            ListenError::Tls(source) => {
                Self::new("listen/tls", "tls", source.to_string(), "restore the TLS key of the state folder")
            }
        }
    }
}

/// What all sessions share.
pub(super) struct Shared {
    pub(super) events: mpsc::Sender<TransportEvent>,
    pub(super) stores: Stores,
    pub(super) registry: Registry,
    pub(super) counters: Counters,
    pub(super) shutdown: CancellationToken,
    handshakes: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

/// A running endpoint. Dropping it leaves the endpoint running; [`Listener::shutdown`] ends it.
pub struct Listener {
    endpoint: Endpoint,
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Listener {
    /// Starts to listen; nodes' events go to `events`. Must be called within a tokio runtime.
    pub fn start(
        options: &ListenerOptions,
        stores: Stores,
        events: mpsc::Sender<TransportEvent>,
    ) -> Result<Self, ListenError> {
        let config = options.identity.server_config()?;
        let bind = |source| ListenError::Bind { address: options.address, source };
        let socket = std::net::UdpSocket::bind(options.address).map_err(bind)?;
        let names = options.identity.endpoint_config()?;
        let endpoint =
            Endpoint::new(names, Some(config), socket, Arc::new(quinn::TokioRuntime)).map_err(bind)?;
        let address = endpoint.local_addr().map_err(bind)?;
        let shared = Arc::new(Shared {
            events,
            stores,
            registry: Registry::default(),
            counters: Counters::default(),
            shutdown: CancellationToken::new(),
            handshakes: Arc::new(Semaphore::new(limits::HANDSHAKES_MAX)),
            connections: Arc::new(Semaphore::new(limits::CONNECTIONS_MAX)),
        });
        let accepting = tokio::spawn(accept(endpoint.clone(), Arc::clone(&shared)));
        Ok(Self { endpoint, address, shared, accepting })
    }

    /// The address that it is bound to, with the port that was chosen for port 0.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }
    /// What was counted so far.
    pub fn counters(&self) -> CounterValues {
        self.shared.counters.values()
    }
    /// Tells every node that the coordinator goes (it may come back) and waits until they are told. Every
    /// admitted session sends its `Lost`, so the driver must keep taking events until this returns.
    pub async fn shutdown(self) {
        self.shared.shutdown.cancel();
        self.endpoint.set_server_config(None);
        let all = u32::try_from(limits::CONNECTIONS_MAX).unwrap_or(u32::MAX);
        let ended = self.shared.connections.acquire_many(all);
        if tokio::time::timeout(limits::GOODBYE_WITHIN * 2, ended).await.is_err() {
            tracing::warn!("some sessions did not end in time");
        }
        self.endpoint.close(CloseCode::ShuttingDown.number().into(), b"shutting down");
        self.endpoint.wait_idle().await;
        // It ends with the endpoint; only a panic in it could be an error here.
        if let Err(error) = self.accepting.await {
            tracing::error!(%error, "the accepting task failed");
        }
    }
}

async fn accept(endpoint: Endpoint, shared: Arc<Shared>) {
    while let Some(incoming) = endpoint.accept().await {
        let busy = limits::HANDSHAKES_MAX - shared.handshakes.available_permits();
        if busy >= limits::HANDSHAKES_UNPROVEN && !incoming.remote_address_validated() && incoming.may_retry()
        {
            // The error would only say that a retry is not allowed here, which was just asked.
            if incoming.retry().is_err() {
                tracing::debug!("an incoming connection could not be asked to retry");
            }
            continue;
        }
        let permits = (
            Arc::clone(&shared.handshakes).try_acquire_owned(),
            Arc::clone(&shared.connections).try_acquire_owned(),
        );
        let (Ok(handshake), Ok(connection)) = permits else {
            Counters::add(&shared.counters.connections_refused);
            incoming.refuse();
            continue;
        };
        tokio::spawn(connect(incoming, handshake, connection, Arc::clone(&shared)));
    }
}

async fn connect(
    incoming: Incoming,
    handshake: OwnedSemaphorePermit,
    permit: OwnedSemaphorePermit,
    shared: Arc<Shared>,
) {
    let address = incoming.remote_address();
    let failed = |cause: &dyn std::fmt::Display| {
        Counters::add(&shared.counters.handshakes_failed);
        tracing::info!(%address, %cause, "handshake failed");
    };
    let connecting = match incoming.accept() {
        Ok(connecting) => connecting,
        Err(error) => return failed(&error),
    };
    let connection = match tokio::time::timeout(limits::HANDSHAKE_WITHIN, connecting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return failed(&error),
        Err(_) => return failed(&CloseCode::TooLate),
    };
    drop(handshake);
    session::run(connection, &shared).await;
    drop(permit);
}
