//! The only event loop: gathers events, steps the scheduler, performs its effects, at its own pace.
//!
//! ```text
//! requests (front desk) ─┐
//! ledger events (writer) ├─► Driver::run ─► Scheduler::step ─► effects: journal first, with one sync,
//! transport events       ┘                                     then writer, nodes, replies, watchers
//! ```
//!
//! The loop owns scheduler, journal and sessions; nothing else touches them. It never waits for the writer (what
//! the writer's queue cannot take waits in `overflow`), so that the writer may wait for the loop.

mod admission;
mod listing;
mod nodes;
pub mod pace;
mod perform;
pub mod request;
mod retell;
mod turn;
mod views;
pub mod watch;

use crate::clock::Clock;
use crate::commit::{CommitHandle, CommitRequest};
use crate::journal::Journal;
use crate::scheduler::Scheduler;
use crate::scheduler::effect::Reply;
use crate::scheduler::input::{LedgerEvent, RequestId, SessionId, Stop};
use crate::transport::admit::Register;
use crate::transport::{ConnectionId, NodeConnection, TransportEvent};
use fleet_config::domain::{CellId, Fence, NodeId};
use fleet_config::refusal::Refusal;
use ledger::blob::BlobStore;
use pace::Pace;
use request::Request;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use watch::Watch;

/// Events taken in one turn: bounds the batch that one journal sync carries.
const TURN_MAX: usize = 1_024;

/// How often nodes are asked to show a sign of life.
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// How often nodes are told a new checkpoint, at most.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// What the loop is made of.
#[derive(Debug)]
pub struct Parts {
    pub scheduler: Scheduler,
    pub journal: Journal,
    pub commit: CommitHandle,
    pub blobs: Arc<BlobStore>,
    pub watch: Arc<Watch>,
    pub register: Register,
    /// Names of enrolled nodes, for people.
    pub names: BTreeMap<NodeId, String>,
    pub origin: String,
    pub vkey: String,
    pub documents: Documents,
    /// Where sealed holdout sections are.
    pub sealed: PathBuf,
    pub requests: mpsc::Receiver<Request>,
    pub ledger: mpsc::Receiver<LedgerEvent>,
    pub transport: mpsc::Receiver<TransportEvent>,
}

/// Finds the documents that assignments name.
pub type Documents = Arc<crate::desk::catalog::Catalog>;

/// The loop's state.
#[derive(Debug)]
pub struct Driver {
    scheduler: Scheduler,
    journal: Journal,
    commit: CommitHandle,
    blobs: Arc<BlobStore>,
    watch: Arc<Watch>,
    register: Register,
    names: BTreeMap<NodeId, String>,
    origin: String,
    vkey: String,
    documents: Documents,
    sealed: PathBuf,
    sessions: BTreeMap<NodeId, Session>,
    replies: BTreeMap<RequestId, Waiting>,
    next_request: u64,
    /// What the writer's queue could not take yet, in order.
    overflow: VecDeque<CommitRequest>,
    /// Work of tasks that were started for the loop and report back to it.
    internal: mpsc::Sender<Internal>,
    /// The newest checkpoint, and when it may be told next.
    checkpoints: tokio::sync::watch::Receiver<String>,
    checkpoint_due: Duration,
    clock: Clock,
    pace: Pace,
    stop: bool,
}

/// What outlives the loop until the transport has said goodbye to every node: a session whose handle is dropped
/// ends without one.
#[derive(Debug)]
pub struct Farewell {
    sessions: BTreeMap<NodeId, Session>,
    transport: mpsc::Receiver<TransportEvent>,
}

impl Farewell {
    /// Takes the last words of the sessions until none is left. Questions among them get no answer, which tells a
    /// node to come again later.
    pub async fn wave(mut self) {
        while self.transport.recv().await.is_some() {}
        drop(self.sessions);
    }
}

/// One admitted connection.
#[derive(Debug)]
struct Session {
    connection: NodeConnection,
    id: SessionId,
    /// Attempts that the node was told to stop and has not said to have stopped.
    stopping: BTreeSet<(CellId, Fence)>,
}

/// Who waits for the scheduler's answer.
#[derive(Debug)]
enum Waiting {
    Desk(oneshot::Sender<Reply>),
    /// An admission whose invite is being consumed.
    Enrolment(Box<admission::Pending>),
}

/// What tasks of the loop report.
#[derive(Debug)]
enum Internal {
    /// A node's enrolment is in the ledger, or could not be recorded.
    Enrolled { pending: Box<admission::Pending>, result: Result<(), Refusal> },
    /// The writer dealt with a report of an attempt, and the node was told.
    Reported { node: NodeId, connection: ConnectionId, cell: CellId, fence: Fence, how: Stop },
}

/// Why the loop ended early.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Journal(#[from] crate::journal::AppendError),
    #[error("the journal and the ledger contradict each other: {0}")]
    Halted(Refusal),
    #[error("the scheduler numbered a fact {found} where the journal expects {expected}")]
    Sequence { expected: u64, found: u64 },
}
