//! Nodes for the tests: a whole session with a runner in the test's hands, and a bare connection that misbehaves.

use crate::coordinator::{Coordinator, NOW, PATIENCE};
use agent_node::session::{
    BlobFetcher, FinishedJob, JobEnd, JobFailure, JobOrder, JobRunner, NodeIdentity, ProgressSender, Session,
    SessionEnd, SessionOptions,
};
use agent_node::transport::{self, Dialled};
use coordinator::transport::{AssignmentEvent, NodeCommand, NodeConnection};
use fleet_config::domain::{BlobRef, CellId, DeviceDescription, DeviceId, DeviceKind, NodeId, Sha256};
use fleet_config::invite::Invite;
use fleet_config::refusal::Refusal;
use fleet_config::wire::close::proof_message;
use fleet_config::wire::v1::{Blob, FromCoordinator, FromNode, Hello};
use fleet_config::wire::v2::Assign;
use quinn::{RecvStream, SendStream};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tempfile::{TempDir, tempdir};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const DEVICE: &str = "CPU-1";

pub(crate) fn device(id: &str) -> DeviceDescription {
    DeviceDescription {
        id: DeviceId(id.to_owned()),
        kind: DeviceKind::Cpu,
        architecture: "cpu:x86-64-v3".parse().unwrap(),
        memory: 1 << 30,
        identity: BTreeMap::new(),
        configuration: BTreeMap::new(),
        attributes: BTreeMap::new(),
    }
}

pub(crate) fn assign(cell: u8, fence: u64) -> Box<Assign> {
    let blob = Blob { blake3: [0; 32], sha256: [0; 32], size: 0 };
    Box::new(Assign {
        submission: [0; 32],
        cell: [cell; 32],
        fence,
        task: blob,
        candidate: blob,
        policy: blob,
        device: DEVICE.to_owned(),
        nonce: [0; 32],
        seeds: vec![1, 2],
        compile_ms: 1000,
        run_ms: 1000,
        sealed: None,
        queued_ms: 0,
    })
}

/// A job in the test's hands.
pub(crate) struct StartedJob {
    pub(crate) order: JobOrder,
    pub(crate) progress: ProgressSender,
    pub(crate) cancel: CancellationToken,
    pub(crate) end: oneshot::Sender<Result<FinishedJob, JobFailure>>,
}

impl StartedJob {
    /// Ends the job with a result that names `bodies` as blobs.
    pub(crate) fn finish(self, envelope: &[u8], bodies: &[&[u8]]) {
        let blobs = bodies.iter().map(|body| (BlobRef::of(body), body.to_vec())).collect();
        let finished = FinishedJob { envelope: envelope.to_vec(), blobs };
        assert!(self.end.send(Ok(finished)).is_ok(), "the session waits for the job");
    }
}

struct HandRunner(mpsc::Sender<StartedJob>);

impl JobRunner for HandRunner {
    fn start(&self, order: JobOrder, progress: ProgressSender, cancel: CancellationToken) -> JobEnd {
        let (end, ended) = oneshot::channel();
        let sender = self.0.clone();
        Box::pin(async move {
            let stopped = cancel.clone();
            let started = StartedJob { order, progress, cancel, end };
            assert!(sender.send(started).await.is_ok(), "the test takes jobs");
            tokio::select! {
                ended = ended => ended.unwrap_or(Err(JobFailure::Cancelled)),
                () = stopped.cancelled() => Err(JobFailure::Cancelled),
            }
        })
    }
}

/// A running session.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) fetcher: BlobFetcher,
    jobs: mpsc::Receiver<StartedJob>,
    stop: CancellationToken,
    session: JoinHandle<SessionEnd>,
    _devices: watch::Sender<Vec<DeviceDescription>>,
}

pub(crate) fn open(state: &Path, invite: Option<Invite>) -> Result<Session, Refusal> {
    Session::open(SessionOptions {
        state: state.to_owned(),
        name: "bench".to_owned(),
        harness_version: "0.1.0".to_owned(),
        invite,
        blob_cache_bytes: 1 << 30,
    })
}

impl Node {
    pub(crate) fn start(state: &Path, invite: Option<Invite>) -> Self {
        let session = open(state, invite).unwrap();
        let (sender, jobs) = mpsc::channel(16);
        let (devices, offered) = watch::channel(vec![device(DEVICE)]);
        let (id, fetcher, stop) = (session.identity().node(), session.fetcher(), CancellationToken::new());
        let session = tokio::spawn(session.run(Arc::new(HandRunner(sender)), offered, stop.clone()));
        Self { id, fetcher, jobs, stop, session, _devices: devices }
    }

    pub(crate) async fn job(&mut self) -> StartedJob {
        tokio::time::timeout(PATIENCE, self.jobs.recv()).await.expect("a job in time").expect("a session")
    }

    /// Waits until the session ends by itself.
    pub(crate) async fn ended(self) -> SessionEnd {
        tokio::time::timeout(PATIENCE, self.session).await.expect("an end in time").unwrap()
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        assert_eq!(self.ended().await, SessionEnd::Stopped);
    }

    /// As a crash: nothing is said and nothing is tidied up.
    pub(crate) async fn crash(self) {
        self.session.abort();
        let _aborted = self.session.await;
    }

    pub(crate) async fn refused(self) -> String {
        match self.ended().await {
            SessionEnd::Refused(refusal) => refusal.code.into_owned(),
            SessionEnd::Stopped => panic!("stopped"),
        }
    }
}

/// A coordinator, and a node that joined it.
pub(crate) struct Pair {
    pub(crate) fleet: Coordinator,
    pub(crate) state: TempDir,
    pub(crate) node: Node,
    pub(crate) connection: NodeConnection,
}

impl Pair {
    pub(crate) async fn joined() -> Self {
        let mut fleet = Coordinator::start().await;
        let state = tempdir().unwrap();
        let node = Node::start(state.path(), Some(fleet.invite(1, NOW + 1)));
        let (_, connection, _) = fleet.joined().await;
        Self { fleet, state, node, connection }
    }

    /// Joined, and at work on cell 1 under fence 5.
    pub(crate) async fn at_work() -> (Self, StartedJob) {
        let mut pair = Self::joined().await;
        let job = pair.lease(1, 5).await;
        (pair, job)
    }

    /// Assigns a cell, which the node takes and starts.
    pub(crate) async fn lease(&mut self, cell: u8, fence: u64) -> StartedJob {
        self.connection.send(NodeCommand::Assign(assign(cell, fence))).unwrap();
        assert_eq!(self.fleet.answer().await, AssignmentEvent::Taken);
        self.node.job().await
    }
}

/// A connection without a session.
pub(crate) struct Bare {
    pub(crate) dialled: Dialled,
    pub(crate) control: (SendStream, RecvStream),
}

impl Bare {
    pub(crate) fn identity(folder: &Path) -> NodeIdentity {
        NodeIdentity::open(folder).unwrap()
    }

    pub(crate) async fn dial(identity: &NodeIdentity, address: &str, pin: Sha256) -> Self {
        let dialled = transport::dial(identity, address, pin).await.unwrap();
        let control = dialled.connection.open_bi().await.unwrap();
        Self { dialled, control }
    }

    pub(crate) fn hello(&self, identity: &NodeIdentity, invite: Option<[u8; 32]>) -> Hello {
        Hello {
            name: "bare".to_owned(),
            signing_key: identity.signing().public().to_bytes(),
            proof: identity.signing().sign(&proof_message(&self.dialled.exporter)).to_vec(),
            invite,
            harness_version: "0".to_owned(),
            devices: vec![],
            running: vec![],
            checkpoint: String::new(),
        }
    }

    pub(crate) async fn say(&mut self, message: FromNode) {
        transport::write(&mut self.control.0, &message).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> FromCoordinator {
        let heard = transport::read(&mut self.control.1);
        tokio::time::timeout(PATIENCE, heard).await.expect("a word in time").unwrap().expect("a message")
    }

    /// Joins by `invite` and waits for the welcome.
    pub(crate) async fn join(identity: &NodeIdentity, invite: &Invite) -> Self {
        let mut bare = Self::dial(identity, &invite.addresses[0], invite.coordinator).await;
        bare.say(FromNode::Hello(Box::new(bare.hello(identity, Some(invite.secret.expose()))))).await;
        assert!(matches!(bare.hear().await, FromCoordinator::Welcome(_)));
        bare
    }

    /// Waits until the other side resets the stream, and says with which code.
    pub(crate) async fn reset_code(stream: &mut RecvStream) -> u64 {
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(1 << 20)).await.expect("an end in time");
        match read {
            Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) => code.into_inner(),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the other side closes the connection, and says with which code.
    pub(crate) async fn close_code(&self) -> u64 {
        let closed = tokio::time::timeout(PATIENCE, self.dialled.connection.closed());
        match closed.await.expect("an end in time") {
            quinn::ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn cell(tag: u8) -> CellId {
    CellId([tag; 32])
}
