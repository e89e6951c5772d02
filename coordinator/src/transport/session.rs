//! One node's connection: hello, admission, then its streams until it ends.
//!
//! ```text
//! connected ─ hello read ─► Joining ─ Err ─► goodbye, closed (the driver hears nothing more)
//!                             │ Ok
//!                             ▼
//!                           seated ─► Joined ─► control in │ commands out │ streams in ─► Lost
//! ```

use super::assignment;
use super::event::{
    AssignmentEvent, ConnectionId, LossCause, NodeCommand, NodeConnection, PeerFacts, TransportEvent,
};
use super::frame;
use super::limits;
use super::listen::Shared;
use super::registry::{Counters, Seat};
use super::report;
use fleet_config::domain::{CellId, Fence, NodeId};
use fleet_config::identity::PublicKey;
use fleet_config::state::fingerprint_of;
use fleet_config::wire::close::{CloseCode, PROOF_LABEL, PROOF_MATERIAL};
use fleet_config::wire::v1::{FromCoordinator, FromNode, Goodbye, Hello, Welcome};
use quinn::{Connection, RecvStream, SendStream};
use rustls::pki_types::CertificateDer;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

/// What the tasks of one connection share.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) node: NodeId,
    pub(super) id: ConnectionId,
    pub(super) connection: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) reports: Arc<Semaphore>,
    pub(super) blobs: Arc<Semaphore>,
    bad_frames: Arc<AtomicU64>,
    /// Why this side closed the connection, where it was not a newer connection.
    verdict: Arc<OnceLock<LossCause>>,
}

impl Peer {
    /// Counts an illegal frame; too many close the connection.
    pub(super) fn bad_frame(&self, error: &dyn std::fmt::Display) {
        Counters::add(&self.shared.counters.bad_frames);
        tracing::warn!(node = %self.node, %error, "a stream broke the protocol");
        if self.bad_frames.fetch_add(1, Ordering::Relaxed) + 1 >= limits::BAD_FRAMES_MAX {
            self.cut_off();
        }
    }
    fn cut_off(&self) {
        // The first verdict stands.
        let _second = self.verdict.set(LossCause::Misbehaved);
        close(&self.connection, CloseCode::BadFrame);
    }
    /// What an error of the connection means for the node.
    fn loss(&self, error: &quinn::ConnectionError) -> LossCause {
        match error {
            quinn::ConnectionError::LocallyClosed => {
                self.verdict.get().cloned().unwrap_or(LossCause::Replaced)
            }
            quinn::ConnectionError::ApplicationClosed(_) => LossCause::NodeLeft,
            quinn::ConnectionError::VersionMismatch
            | quinn::ConnectionError::TransportError(_)
            | quinn::ConnectionError::ConnectionClosed(_)
            | quinn::ConnectionError::Reset
            | quinn::ConnectionError::TimedOut
            | quinn::ConnectionError::CidsExhausted => LossCause::Network(error.to_string()),
        }
    }
    /// Passes an answer on an assignment to the driver.
    pub(super) async fn answer(&self, cell: CellId, fence: Fence, answer: AssignmentEvent) {
        self.tell(TransportEvent::Answer { node: self.node, connection: self.id, cell, fence, answer }).await;
    }
    /// A driver that takes no more events has ended; then this process is going down.
    async fn tell(&self, event: TransportEvent) {
        if self.shared.events.send(event).await.is_err() {
            close(&self.connection, CloseCode::ShuttingDown);
        }
    }
}

fn close(connection: &Connection, code: CloseCode) {
    connection.close(code.number().into(), code.to_string().as_bytes());
}

/// Why a connection was not admitted, other than by the driver's word.
#[derive(Debug, thiserror::Error)]
enum GreetingError {
    #[error(transparent)]
    Connection(#[from] quinn::ConnectionError),
    #[error("no hello in time")]
    Late,
    #[error(transparent)]
    Read(#[from] frame::ReadError),
    #[error("the first message is no hello")]
    NoHello,
    #[error("the peer shows no certificate that can be read")]
    Certificate,
    #[error("no keying material could be exported")]
    Exporter,
    #[error(transparent)]
    Send(#[from] frame::SendError),
}

impl GreetingError {
    fn code(&self) -> CloseCode {
        match self {
            Self::Late => CloseCode::TooLate,
            Self::Read(_) | Self::NoHello => CloseCode::BadFrame,
            Self::Certificate => CloseCode::NotAdmitted,
            Self::Connection(_) | Self::Exporter | Self::Send(_) => CloseCode::Internal,
        }
    }
}

/// A node that said hello and was welcomed.
struct Admitted {
    hello: Box<Hello>,
    peer: PeerFacts,
    welcome: Welcome,
    control: (SendStream, RecvStream),
}

/// Serves `connection` until it ends.
pub(super) async fn run(connection: Connection, shared: &Arc<Shared>) {
    let admitted = match greet(&connection, shared).await {
        Ok(Some(admitted)) => admitted,
        Ok(None) => return,
        Err(error) => {
            if matches!(error, GreetingError::Read(_) | GreetingError::NoHello) {
                Counters::add(&shared.counters.bad_frames);
            }
            tracing::info!(address = %connection.remote_address(), %error, "no greeting");
            return close(&connection, error.code());
        }
    };
    serve(connection, shared, admitted).await;
}

/// Reads the hello and asks the driver; `None` when it was told goodbye.
async fn greet(connection: &Connection, shared: &Arc<Shared>) -> Result<Option<Admitted>, GreetingError> {
    let peer = peer_facts(connection)?;
    let accepted = tokio::time::timeout(limits::HELLO_WITHIN, connection.accept_bi());
    let (mut send, mut receive) = accepted.await.map_err(|_| GreetingError::Late)??;
    let hello = match frame::read_within(&mut receive, limits::HELLO_WITHIN).await? {
        Some(FromNode::Hello(hello)) => hello,
        Some(FromNode::Heartbeat(_) | FromNode::Capacity(_)) | None => return Err(GreetingError::NoHello),
    };
    let (reply, answer) = oneshot::channel();
    let joining = TransportEvent::Joining { hello: hello.clone(), peer: peer.clone(), reply };
    let asked = async {
        shared.events.send(joining).await.ok()?;
        answer.await.ok()
    };
    let decision = tokio::select! {
        decision = tokio::time::timeout(limits::ADMISSION_WITHIN, asked) => decision.ok().flatten(),
        () = shared.shutdown.cancelled() => Some(Err(shutting_down())),
    };
    match decision.unwrap_or_else(|| Err(not_now())) {
        Ok(welcome) => Ok(Some(Admitted { hello, peer, welcome, control: (send, receive) })),
        Err(goodbye) => {
            tracing::info!(address = %peer.address, code = %goodbye.code, "not admitted");
            Counters::add(&shared.counters.joins_refused);
            say_goodbye(connection, &mut send, goodbye, CloseCode::NotAdmitted).await?;
            Ok(None)
        }
    }
}

fn peer_facts(connection: &Connection) -> Result<PeerFacts, GreetingError> {
    let identity = connection.peer_identity().ok_or(GreetingError::Certificate)?;
    let chain: Box<Vec<CertificateDer<'static>>> =
        identity.downcast().map_err(|_| GreetingError::Certificate)?;
    let certificate = chain.first().ok_or(GreetingError::Certificate)?;
    let tls_key = fingerprint_of(certificate).map_err(|_| GreetingError::Certificate)?;
    let mut exporter = [0u8; PROOF_MATERIAL];
    connection
        .export_keying_material(&mut exporter, PROOF_LABEL, &[])
        .map_err(|_| GreetingError::Exporter)?;
    Ok(PeerFacts { tls_key, exporter, address: connection.remote_address() })
}

/// Sends a goodbye, lets the node read it, and closes.
async fn say_goodbye(
    connection: &Connection,
    send: &mut SendStream,
    goodbye: Goodbye,
    code: CloseCode,
) -> Result<(), frame::SendError> {
    let message = FromCoordinator::Goodbye(goodbye);
    let sent = frame::write_within(send, &message, limits::GOODBYE_WITHIN).await;
    if sent.is_ok() && send.finish().is_ok() {
        // Whether it was read in time or not, the connection is closed now.
        let _read = tokio::time::timeout(limits::GOODBYE_WITHIN, send.stopped()).await;
    }
    close(connection, code);
    sent
}

fn shutting_down() -> Goodbye {
    Goodbye {
        code: "session/shutting-down".to_owned(),
        cause: "the coordinator shuts down".to_owned(),
        next: "wait; the node tries again by itself".to_owned(),
        retry: true,
    }
}

fn not_now() -> Goodbye {
    Goodbye {
        code: "join/not-now".to_owned(),
        cause: "the coordinator could not decide in time".to_owned(),
        next: "wait; the node tries again by itself".to_owned(),
        retry: true,
    }
}

async fn serve(connection: Connection, shared: &Arc<Shared>, admitted: Admitted) {
    let Admitted { hello, peer: facts, welcome, control: (mut send, receive) } = admitted;
    let node = NodeId(welcome.node);
    // The driver answered for this very key; anything else would mix two nodes up.
    if !PublicKey::from_bytes(&hello.signing_key).is_ok_and(|key| key.node_id() == node) {
        tracing::error!(%node, "the welcome names another node than the hello");
        return close(&connection, CloseCode::Internal);
    }
    let seat: Seat = shared.registry.seat(node, &connection, &shared.counters).await;
    let verdict = Arc::default();
    let peer = Peer {
        node,
        id: seat.id,
        connection: connection.clone(),
        shared: Arc::clone(shared),
        reports: Arc::new(Semaphore::new(limits::REPORTS_MAX)),
        blobs: Arc::new(Semaphore::new(limits::BLOBS_MAX)),
        bad_frames: Arc::default(),
        verdict: Arc::clone(&verdict),
    };
    let (commands, queue) = mpsc::channel(limits::COMMANDS_MAX);
    let welcomed =
        frame::write_within(&mut send, &FromCoordinator::Welcome(welcome), limits::GOODBYE_WITHIN).await;
    if let Err(error) = welcomed {
        tracing::info!(%node, %error, "lost before it was welcomed");
        close(&connection, CloseCode::Internal);
        return shared.registry.leave(node, seat.id);
    }
    Counters::add(&shared.counters.joined);
    let handle = NodeConnection {
        id: seat.id,
        address: facts.address,
        commands,
        connection: connection.clone(),
        verdict,
    };
    peer.tell(TransportEvent::Joined { node, connection: handle, hello, peer: facts }).await;
    let cause = converse(&peer, send, receive, queue).await;
    shared.registry.leave(node, seat.id);
    peer.tell(TransportEvent::Lost { node, connection: seat.id, cause }).await;
    drop(seat);
}

/// Runs every stream of the connection. All of its tasks have ended when this returns.
async fn converse(
    peer: &Peer,
    mut send: SendStream,
    receive: RecvStream,
    mut queue: mpsc::Receiver<NodeCommand>,
) -> LossCause {
    let mut streams = JoinSet::new();
    let mut control = JoinSet::new();
    control.spawn(listen(peer.clone(), receive));
    let cause = loop {
        tokio::select! {
            accepted = peer.connection.accept_bi() => match accepted {
                Ok((send, receive)) => { streams.spawn(report::serve(peer.clone(), send, receive)); }
                Err(error) => break peer.loss(&error),
            },
            command = queue.recv() => {
                let Some(command) = command else { break LossCause::Dismissed };
                match perform(peer, &mut send, &mut streams, command).await {
                    Ok(()) => {}
                    Err(cause) => break cause,
                }
            }
            Some(ended) = control.join_next() => break ended.unwrap_or(LossCause::Misbehaved),
            Some(_ended) = streams.join_next() => {}
            () = peer.shared.shutdown.cancelled() => {
                // Closing is what matters; that the goodbye was read is a courtesy.
                let _sent = say_goodbye(&peer.connection, &mut send, shutting_down(), CloseCode::ShuttingDown).await;
                break LossCause::ShuttingDown;
            }
        }
    };
    close(&peer.connection, CloseCode::Done);
    control.shutdown().await;
    streams.shutdown().await;
    cause
}

/// Performs one command. Only the control stream is written here, so that its messages keep their order.
async fn perform(
    peer: &Peer,
    send: &mut SendStream,
    streams: &mut JoinSet<()>,
    command: NodeCommand,
) -> Result<(), LossCause> {
    let message = match command {
        NodeCommand::Assign(assign) => {
            if streams.len() >= limits::ASSIGNMENTS_MAX {
                let (cell, fence) = (CellId(assign.cell), Fence(assign.fence));
                let cause = "too many streams of this node are open".to_owned();
                peer.answer(cell, fence, AssignmentEvent::StreamLost { cause }).await;
            } else {
                streams.spawn(assignment::run(peer.clone(), assign));
            }
            return Ok(());
        }
        NodeCommand::Goodbye(goodbye) => {
            // The connection is closed either way.
            let _sent = say_goodbye(&peer.connection, send, goodbye, CloseCode::NotAdmitted).await;
            return Err(LossCause::Dismissed);
        }
        NodeCommand::Cancel { cell, fence } => FromCoordinator::Cancel { cell: cell.0, fence: fence.0 },
        NodeCommand::Drain => FromCoordinator::Drain,
        NodeCommand::Undrain => FromCoordinator::Undrain,
        NodeCommand::Checkpoint { note } => FromCoordinator::Checkpoint { note },
    };
    match frame::write_within(send, &message, limits::STREAM_SILENCE).await {
        Ok(()) => Ok(()),
        Err(frame::SendError::Silence) => Err(LossCause::Stuck),
        Err(error) => {
            // The stream is gone with its connection, whose own reason is the better one.
            let reason = peer.connection.close_reason();
            Err(reason
                .as_ref()
                .map_or_else(|| LossCause::Network(error.to_string()), |reason| peer.loss(reason)))
        }
    }
}

/// Reads the control stream until it ends.
async fn listen(peer: Peer, mut receive: RecvStream) -> LossCause {
    let (node, connection) = (peer.node, peer.id);
    loop {
        match frame::read::<FromNode>(&mut receive).await {
            Ok(Some(FromNode::Heartbeat(heartbeat))) => {
                peer.tell(TransportEvent::Heartbeat { node, connection, heartbeat }).await;
            }
            Ok(Some(FromNode::Capacity(capacity))) => {
                peer.tell(TransportEvent::Capacity { node, connection, capacity }).await;
            }
            Ok(Some(FromNode::Hello(_))) => {
                peer.bad_frame(&"a second hello");
                peer.cut_off();
                return LossCause::Misbehaved;
            }
            Ok(None) => return LossCause::NodeLeft,
            Err(frame::ReadError::Stream(quinn::ReadError::ConnectionLost(error))) => {
                return peer.loss(&error);
            }
            Err(error) => {
                peer.bad_frame(&error);
                // The control stream cannot be found again after a bad frame, so the connection goes with it.
                peer.cut_off();
                return LossCause::Misbehaved;
            }
        }
    }
}
