//! What the session asks of whoever runs jobs.

use super::machine::AttemptKey;
use fleet_config::domain::{BlobRef, NodeId};
use fleet_config::wire::v1::Progress;
use fleet_config::wire::v2::Assign;
use std::future::Future;
use std::pin::Pin;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// One attempt to be run.
#[derive(Debug, Clone)]
pub struct JobOrder {
    pub assign: Box<Assign>,
    /// Origin of the ledger, for the result.
    pub origin: String,
    pub node: NodeId,
}

/// A signed result with the blobs that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedJob {
    /// Canonical DSSE envelope.
    pub envelope: Vec<u8>,
    pub blobs: Vec<(BlobRef, Vec<u8>)>,
}

/// Why an attempt has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobFailure {
    #[error("cancelled")]
    Cancelled,
    /// The fleet's fault, never the candidate's.
    #[error("{cause} [{code}]")]
    Failed { code: String, cause: String },
}

/// The future of a job.
pub type JobEnd = Pin<Box<dyn Future<Output = Result<FinishedJob, JobFailure>> + Send>>;

/// Runs jobs. The future is spawned at once; it must end soon after `cancel`, with every child process gone.
pub trait JobRunner: Send + Sync + 'static {
    fn start(&self, order: JobOrder, progress: ProgressSender, cancel: CancellationToken) -> JobEnd;
}

/// Tells the coordinator how far a job is. Never waits: progress that cannot be sent is dropped.
#[derive(Debug, Clone)]
pub struct ProgressSender {
    pub(super) attempt: AttemptKey,
    pub(super) events: mpsc::Sender<(AttemptKey, Progress)>,
}

impl ProgressSender {
    /// Says that the job entered `stage`; `detail` is for people and may be empty.
    pub fn send(&self, stage: impl Into<String>, detail: impl Into<String>) {
        let progress = Progress { stage: stage.into(), detail: detail.into() };
        if self.events.try_send((self.attempt, progress)).is_err() {
            tracing::debug!("progress was dropped");
        }
    }
}
