//! What a node says.

use super::Blob;
use serde::{Deserialize, Serialize};

/// Messages on the control stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromNode {
    Hello(Box<Hello>),
    Heartbeat(Heartbeat),
    Capacity(Capacity),
}

/// First message of every connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Name for people.
    pub name: String,
    /// Ed25519 public key that results will be signed with.
    pub signing_key: [u8; 32],
    /// Signature by that key over `muster-hello/1\0` ‖ keying material exported from this TLS session (32 bytes
    /// under the label `EXPORTER-muster-hello`): binds the two keys and cannot be replayed.
    pub proof: Vec<u8>,
    /// Secret of an invite; needed until the node is enrolled, ignored after.
    pub invite: Option<[u8; 32]>,
    pub harness_version: String,
    pub devices: Vec<Device>,
    /// Attempts that this node is working on or has results of that are not yet acknowledged.
    pub running: Vec<Running>,
    /// The newest checkpoint that this node has seen, as its note text; empty when none.
    pub checkpoint: String,
}

/// One device with its canonical `DeviceDescription`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub id: String,
    pub description: Vec<u8>,
}

/// One attempt in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub cell: [u8; 32],
    pub fence: u64,
    pub device: String,
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    pub sequence: u64,
    pub running: Vec<Running>,
}

/// The devices changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    pub devices: Vec<Device>,
}

/// Answers on an assignment stream: first `Taken` or `Declined`, then any number of `Progress`; `Declined` after
/// `Taken` says that the node gave up and that no result will come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Taken,
    /// The fleet's fault, never the candidate's.
    Declined {
        code: String,
        cause: String,
    },
    Progress(Progress),
}

/// One step further.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Name of a stage.
    pub stage: String,
    /// For people; may be empty.
    pub detail: String,
}

/// First message on every stream that the node opens after its control stream: says what the stream is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    Report(Box<Report>),
    FetchBlob(BlobRequest),
}

/// A signed result, alone on its stream; the same bytes are sent again until acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub cell: [u8; 32],
    pub fence: u64,
    /// Canonical DSSE envelope.
    pub envelope: Vec<u8>,
    /// Every blob that the record names.
    pub blobs: Vec<ReportBlob>,
}

/// A blob that a report names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportBlob {
    pub blob: Blob,
}

/// Asks for one blob, alone on its stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRequest {
    pub blob: Blob,
}
