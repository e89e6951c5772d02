//! A coordinator without a scheduler: the real listener and the real admission, with the test as its driver.

use coordinator::commit::{PROMISE_CONTEXT, promise_bytes};
use coordinator::transport::admit::{Admission, EnrolledNode, OpenInvite, Register, Standing, admit};
use coordinator::transport::{
    AssignmentEvent, BlobSink, BlobSource, BlobWriter, ConnectionId, ListenError, Listener, ListenerOptions,
    LossCause, NodeConnection, ServerIdentity, Stores, TransportEvent,
};
use ed25519_dalek::SigningKey;
use fleet_config::domain::{BlobRef, Digest, LeafIndex, NodeId, Sha256};
use fleet_config::invite::{Invite, InviteId, InviteSecret};
use fleet_config::wire::v1::{Heartbeat, Hello, RecordVerdict, Recorded, Report, Welcome};
use ledger::log::LogSigner;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, ErrorKind, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Nothing here takes long; a test that waits longer than this has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Wall time of admission in these tests.
pub(crate) const NOW: u64 = 1_796_000_000_000;

/// What the test sees of the transport's events; admission is answered before it looks.
#[derive(Debug)]
pub(crate) enum Seen {
    Joined { node: NodeId, connection: NodeConnection, hello: Box<Hello> },
    Lost { node: NodeId, connection: ConnectionId, cause: LossCause },
    Heartbeat(Heartbeat),
    Answer(AssignmentEvent),
    Report { report: Box<Report>, reply: oneshot::Sender<Recorded> },
}

pub(crate) struct Coordinator {
    pub(crate) listener: Listener,
    pub(crate) address: SocketAddr,
    pub(crate) tls_key: Sha256,
    pub(crate) register: Arc<Mutex<Register>>,
    pub(crate) blobs: Arc<MemoryBlobs>,
    seen: mpsc::Receiver<Seen>,
}

impl Coordinator {
    /// On a free port of loopback, with a new key.
    pub(crate) async fn start() -> Self {
        Self::start_as(
            ServerIdentity::generate().unwrap(),
            "127.0.0.1:0".parse().unwrap(),
            Register::default(),
        )
        .await
    }

    pub(crate) async fn start_in(keys: &Path, address: SocketAddr, register: Register) -> Self {
        Self::start_as(ServerIdentity::open(keys).unwrap(), address, register).await
    }

    async fn start_as(identity: ServerIdentity, address: SocketAddr, register: Register) -> Self {
        let tls_key = identity.fingerprint();
        let blobs = Arc::new(MemoryBlobs::default());
        let stores = Stores { source: blobs.clone(), sink: blobs.clone() };
        let (events, heard) = mpsc::channel(64);
        let (teller, seen) = mpsc::channel(1024);
        let options = ListenerOptions { address, identity };
        let start = async {
            loop {
                match Listener::start(&options, stores.clone(), events.clone()) {
                    Ok(listener) => return listener,
                    // The socket of a listener that was shut down goes with its last task.
                    Err(ListenError::Bind { source, .. }) if source.kind() == ErrorKind::AddrInUse => {
                        tokio::task::yield_now().await;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let listener = tokio::time::timeout(PATIENCE, start).await.expect("the port is free again");
        let register = Arc::new(Mutex::new(register));
        tokio::spawn(drive(heard, teller, register.clone()));
        Self { address: listener.local_address(), listener, tls_key, register, blobs, seen }
    }

    /// An invite of this coordinator that is open until `expires_unix_ms`.
    pub(crate) fn invite(&self, tag: u8, expires_unix_ms: u64) -> Invite {
        let invite = Invite {
            secret: InviteSecret::new([tag; 32]),
            coordinator: self.tls_key,
            expires_unix_ms,
            id: InviteId([tag; 8]),
            addresses: vec![self.address.to_string()],
        };
        let open = OpenInvite {
            id: invite.id.to_string(),
            expires_unix_ms,
            uses: 1,
            used_by: BTreeSet::new(),
            class: None,
        };
        self.register.lock().unwrap().invites.insert(invite.secret_hash(), open);
        invite
    }

    /// The next event that is no heartbeat.
    pub(crate) async fn next(&mut self) -> Seen {
        loop {
            match self.any().await {
                Seen::Heartbeat(_) => {}
                seen => return seen,
            }
        }
    }

    async fn any(&mut self) -> Seen {
        tokio::time::timeout(PATIENCE, self.seen.recv()).await.expect("an event in time").expect("a driver")
    }

    pub(crate) async fn joined(&mut self) -> (NodeId, NodeConnection, Box<Hello>) {
        match self.next().await {
            Seen::Joined { node, connection, hello } => (node, connection, hello),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn lost(&mut self) -> (NodeId, ConnectionId, LossCause) {
        match self.next().await {
            Seen::Lost { node, connection, cause } => (node, connection, cause),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn answer(&mut self) -> AssignmentEvent {
        match self.next().await {
            Seen::Answer(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// The code by which the node declines.
    pub(crate) async fn declined(&mut self) -> String {
        match self.answer().await {
            AssignmentEvent::Declined { code, .. } => code,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn report(&mut self) -> (Box<Report>, oneshot::Sender<Recorded>) {
        match self.next().await {
            Seen::Report { report, reply } => (report, reply),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn heartbeat(&mut self) -> Heartbeat {
        let found = async {
            loop {
                if let Seen::Heartbeat(heartbeat) = self.any().await {
                    return heartbeat;
                }
            }
        };
        // Other events must not make this wait for ever.
        tokio::time::timeout(PATIENCE, found).await.expect("a heartbeat in time")
    }
}

/// The acknowledgement of a report at `index`.
pub(crate) fn accepted(report: &Report, index: u64) -> Recorded {
    let record = Digest::of(&report.envelope).0;
    let bytes = promise_bytes(ORIGIN, &record, LeafIndex(index));
    let promise = log().sign_bytes(PROMISE_CONTEXT, &bytes).to_vec();
    Recorded { record, verdict: RecordVerdict::Accepted { index, promise } }
}

const ORIGIN: &str = "muster.invalid/0011223344556677";

fn log() -> LogSigner {
    LogSigner::new(ORIGIN, SigningKey::from_bytes(&[4; 32])).unwrap()
}

async fn drive(
    mut heard: mpsc::Receiver<TransportEvent>,
    teller: mpsc::Sender<Seen>,
    register: Arc<Mutex<Register>>,
) {
    while let Some(event) = heard.recv().await {
        let seen = match event {
            TransportEvent::Joining { hello, peer, reply } => {
                let decision = decide(&mut register.lock().unwrap(), &hello, &peer);
                let _gone = reply.send(decision);
                continue;
            }
            TransportEvent::Joined { node, connection, hello, .. } => {
                Seen::Joined { node, connection, hello }
            }
            TransportEvent::Lost { node, connection, cause } => Seen::Lost { node, connection, cause },
            TransportEvent::Heartbeat { heartbeat, .. } => Seen::Heartbeat(heartbeat),
            TransportEvent::Capacity { .. } => continue,
            TransportEvent::Answer { answer, .. } => Seen::Answer(answer),
            TransportEvent::Report { report, reply, .. } => Seen::Report { report, reply },
        };
        if teller.send(seen).await.is_err() {
            return;
        }
    }
}

fn decide(
    register: &mut Register,
    hello: &Hello,
    peer: &coordinator::transport::PeerFacts,
) -> Result<Welcome, fleet_config::wire::v1::Goodbye> {
    let node = match admit(hello, peer, register, NOW) {
        Admission::Known { node, .. } => node,
        Admission::Enrol(enrolment) => {
            let invite = register.invites.values_mut().find(|invite| invite.id == enrolment.invite).unwrap();
            invite.used_by.insert(enrolment.key);
            let (node, tls_key) = (enrolment.node, enrolment.tls_key);
            register
                .nodes
                .insert(node, EnrolledNode { node, tls_key, standing: Standing::Trusted, class: None });
            node
        }
        Admission::Refused(goodbye) => return Err(goodbye),
    };
    Ok(Welcome {
        node: node.0,
        origin: ORIGIN.to_owned(),
        log_vkey: log().verifier().to_string(),
        heartbeat_ms: 100,
        stop: vec![],
    })
}

/// Blobs in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryBlobs(pub(crate) Arc<Mutex<BTreeMap<Digest, Vec<u8>>>>);

impl MemoryBlobs {
    pub(crate) fn put(&self, bytes: Vec<u8>) -> BlobRef {
        let blob = BlobRef::of(&bytes);
        self.0.lock().unwrap().insert(blob.blake3, bytes);
        blob
    }
    pub(crate) fn has(&self, blob: &BlobRef) -> bool {
        self.0.lock().unwrap().contains_key(&blob.blake3)
    }
}

impl BlobSource for MemoryBlobs {
    fn open(&self, blob: &BlobRef) -> std::io::Result<Option<Box<dyn Read + Send>>> {
        let bytes = self.0.lock().unwrap().get(&blob.blake3).cloned();
        Ok(bytes.map(|bytes| Box::new(Cursor::new(bytes)) as Box<dyn Read + Send>))
    }
}

impl BlobSink for MemoryBlobs {
    fn contains(&self, blob: &BlobRef) -> std::io::Result<bool> {
        Ok(self.has(blob))
    }
    fn begin(&self, blob: &BlobRef) -> std::io::Result<Box<dyn BlobWriter>> {
        Ok(Box::new(MemoryWriter { blob: *blob, bytes: Vec::new(), shelf: self.0.clone() }))
    }
}

struct MemoryWriter {
    blob: BlobRef,
    bytes: Vec<u8>,
    shelf: Arc<Mutex<BTreeMap<Digest, Vec<u8>>>>,
}

impl BlobWriter for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
    fn commit(self: Box<Self>) -> std::io::Result<()> {
        self.shelf.lock().unwrap().insert(self.blob.blake3, self.bytes);
        Ok(())
    }
}
