//! What the transport tells the driver and what the driver tells a node.

use super::limits::TEXT_MAX;
use fleet_config::domain::{CellId, Fence, NodeId, Sha256};
use fleet_config::wire::close::{CloseCode, PROOF_MATERIAL};
use fleet_config::wire::v1::{
    Answer, Capacity, Goodbye, Heartbeat, Hello, Progress, Recorded, Report, Welcome,
};
use fleet_config::wire::v2::Assign;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::sync::{mpsc, oneshot};

/// One connection; counted up, so that words of an old connection are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What is known of a peer from its TLS session, before anything that it says is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerFacts {
    /// SHA-256 of the SubjectPublicKeyInfo of its certificate; TLS proved that it holds the key.
    pub tls_key: Sha256,
    /// Keying material of this session that the hello's proof must sign.
    pub exporter: [u8; PROOF_MATERIAL],
    pub address: SocketAddr,
}

/// Everything that nodes do. See the table in the module's documentation.
#[derive(Debug)]
pub enum TransportEvent {
    Joining { hello: Box<Hello>, peer: PeerFacts, reply: oneshot::Sender<Result<Welcome, Goodbye>> },
    Joined { node: NodeId, connection: NodeConnection, hello: Box<Hello>, peer: PeerFacts },
    Heartbeat { node: NodeId, connection: ConnectionId, heartbeat: Heartbeat },
    Capacity { node: NodeId, connection: ConnectionId, capacity: Capacity },
    Answer { node: NodeId, connection: ConnectionId, cell: CellId, fence: Fence, answer: AssignmentEvent },
    Report { node: NodeId, connection: ConnectionId, report: Box<Report>, reply: oneshot::Sender<Recorded> },
    Lost { node: NodeId, connection: ConnectionId, cause: LossCause },
}

/// What became of an assignment so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssignmentEvent {
    Taken,
    /// Not taken, or given up without a result. The fleet's fault, never the candidate's.
    Declined {
        code: String,
        cause: String,
    },
    Progress(Progress),
    /// The stream broke while the connection lives; the node may or may not work on it. Heartbeats will tell.
    StreamLost {
        cause: String,
    },
}

impl From<Answer> for AssignmentEvent {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Taken => Self::Taken,
            Answer::Declined { code, cause } => Self::Declined { code: cut(code), cause: cut(cause) },
            Answer::Progress(Progress { stage, detail }) => {
                Self::Progress(Progress { stage: cut(stage), detail: cut(detail) })
            }
        }
    }
}

/// Bounds a text of a node to what people read.
fn cut(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        text.truncate(text.floor_char_boundary(TEXT_MAX));
    }
    text
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LossCause {
    #[error("a newer connection of the same node took its place")]
    Replaced,
    #[error("the coordinator said goodbye")]
    Dismissed,
    #[error("the coordinator shuts down")]
    ShuttingDown,
    #[error("the node closed its control stream or the connection")]
    NodeLeft,
    #[error("the node sent what the protocol does not allow")]
    Misbehaved,
    #[error("the node took no commands")]
    Stuck,
    #[error("{0}")]
    Network(String),
}

/// What a node is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeCommand {
    Assign(Box<Assign>),
    Cancel { cell: CellId, fence: Fence },
    Drain,
    Undrain,
    Checkpoint { note: String },
    Goodbye(Goodbye),
}

/// A handle on an admitted connection. The connection closes when the last clone is dropped.
#[derive(Debug, Clone)]
#[must_use = "the connection closes when its last handle is dropped"]
pub struct NodeConnection {
    pub(super) id: ConnectionId,
    pub(super) address: SocketAddr,
    pub(super) commands: mpsc::Sender<NodeCommand>,
    pub(super) connection: quinn::Connection,
    pub(super) verdict: Arc<OnceLock<LossCause>>,
}

/// Why a command was not handed over. Either way a `Lost` is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("the connection is gone")]
    Gone,
    #[error("the node takes no commands; its connection was closed")]
    Stuck,
}

impl NodeConnection {
    pub fn id(&self) -> ConnectionId {
        self.id
    }
    /// Where the node dialled from.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
    /// Hands a command over without waiting. A node that leaves its queue full is cut off.
    pub fn send(&self, command: NodeCommand) -> Result<(), CommandError> {
        match self.commands.try_send(command) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(CommandError::Gone),
            Err(mpsc::error::TrySendError::Full(_)) => {
                // The first verdict stands.
                let _second = self.verdict.set(LossCause::Stuck);
                self.connection.close(CloseCode::TooMuch.number().into(), b"commands are not taken");
                Err(CommandError::Stuck)
            }
        }
    }
}
