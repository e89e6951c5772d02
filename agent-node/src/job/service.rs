//! Jobs as the session asks for them: an attempt on a blocking thread, its blobs through the session's fetcher.

use super::AttemptError;
use super::context::{Assignment, BlobFault, BlobSource};
use super::runner::{Caller, RunError, Runner};
use crate::backend::Interrupt;
use crate::session::{BlobFetcher, FinishedJob, JobEnd, JobFailure, JobOrder, JobRunner, ProgressSender};
use fleet_config::domain::BlobRef;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The runner of this node with the way to its blobs.
pub struct JobService {
    runner: Arc<Runner>,
    fetcher: BlobFetcher,
}

impl JobService {
    /// Serves jobs with `runner`.
    pub fn new(runner: Arc<Runner>, fetcher: BlobFetcher) -> Self {
        Self { runner, fetcher }
    }
}

impl JobRunner for JobService {
    fn start(&self, order: JobOrder, progress: ProgressSender, cancel: CancellationToken) -> JobEnd {
        let runner = Arc::clone(&self.runner);
        let blobs = Fetched { fetcher: self.fetcher.clone(), cancel: cancel.clone() };
        let work = move || {
            let assignment = Assignment::from(order.assign.as_ref());
            let caller = Caller {
                origin: &order.origin,
                blobs: &blobs,
                progress: &|stage, detail| progress.send(stage.name(), detail),
                interrupt: Interrupt::when(move || cancel.is_cancelled()),
            };
            runner.run(&assignment, &caller)
        };
        Box::pin(async move {
            match tokio::task::spawn_blocking(work).await {
                Ok(Ok(finished)) => {
                    tracing::info!(record = %finished.record, status = %finished.outcome.status, "attempt signed");
                    Ok(FinishedJob { envelope: finished.envelope, blobs: finished.blobs })
                }
                Ok(Err(RunError::Attempt(AttemptError::Cancelled))) => Err(JobFailure::Cancelled),
                Ok(Err(error)) => {
                    Err(JobFailure::Failed { code: error.code().to_owned(), cause: error.to_string() })
                }
                // Panics inside an attempt end in its record; this one struck outside.
                Err(error) => {
                    Err(JobFailure::Failed { code: "node/panic".to_owned(), cause: error.to_string() })
                }
            }
        })
    }
}

struct Fetched {
    fetcher: BlobFetcher,
    cancel: CancellationToken,
}

impl BlobSource for Fetched {
    fn fetch(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobFault> {
        self.fetcher.fetch_blocking(blob, &self.cancel).map_err(|error| BlobFault {
            blob: blob.blake3,
            size: blob.size,
            cause: error.to_string(),
        })
    }
}
