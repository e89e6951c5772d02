//! The front desk: what people and programs ask, checked before it reaches the event loop or the ledger.

mod candidate;
pub mod catalog;
mod node;
mod submit;
mod task;

use crate::commit::CommitHandle;
use crate::driver::request::{CellView, Request, Summary};
use crate::driver::watch::Watch;
use crate::http::body::SummaryView;
use catalog::Catalog;
use fleet_config::domain::{BlobRef, SubmissionId};
use fleet_config::identity::SecretKey;
use fleet_config::refusal::Refusal;
use ledger::blob::BlobStore;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Everything that request handlers share.
#[derive(Debug)]
pub struct Desk {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) blobs: Arc<BlobStore>,
    pub(crate) commit: CommitHandle,
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) operator: SecretKey,
    pub(crate) facts: Facts,
}

/// What does not change while a coordinator runs.
#[derive(Debug, Clone)]
pub struct Facts {
    pub origin: String,
    pub vkey: String,
    /// Addresses that nodes can dial, as written into invites.
    pub addresses: Vec<String>,
    /// SHA-256 of the SubjectPublicKeyInfo of the coordinator's TLS certificate.
    pub tls_key: fleet_config::domain::Sha256,
    /// Where sealed holdout sections go.
    pub sealed: PathBuf,
}

impl Desk {
    /// The event logs.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Stores one blob, durable when the entry that names it is.
    pub async fn put_blob(&self, bytes: axum::body::Bytes) -> Result<BlobRef, Refusal> {
        let store = Arc::clone(&self.blobs);
        blocking(move || store.put(&bytes)).await?.map_err(|error| {
            Refusal::new(
                "ledger/blob",
                "",
                error.to_string(),
                "check the disk of the coordinator's state folder",
            )
        })
    }

    /// How the cells of a submission stand.
    pub async fn cells(&self, id: &str) -> Result<Vec<CellView>, Refusal> {
        let submission = parse_submission(id)?;
        self.ask(|reply| Request::Cells { submission, reply }).await?
    }

    /// Makes sure that the events of a submission can be followed, and answers with its id.
    pub async fn follow(&self, id: &str) -> Result<SubmissionId, Refusal> {
        let submission = parse_submission(id)?;
        self.ask(|reply| Request::Follow { submission, reply }).await??;
        Ok(submission)
    }

    /// Who runs here and how much there is to do.
    pub async fn summary(&self) -> Result<SummaryView, Refusal> {
        let totals: Summary = self.ask(|reply| Request::Summary { reply }).await?;
        Ok(SummaryView {
            origin: self.facts.origin.clone(),
            vkey: self.facts.vkey.clone(),
            process: std::process::id(),
            listening: self.facts.addresses.join(", "),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ledger_size: self.commit.size(),
            totals,
        })
    }

    /// The newest checkpoint, after everything committed so far is in the tree.
    pub async fn checkpoint(&self) -> Result<String, Refusal> {
        self.commit.checkpoint().await
    }

    /// Asks the event loop to end.
    pub fn stop(&self) {
        // A full queue means that the loop is alive and will be asked again; a closed one has ended already.
        let _not_taken = self.requests.try_send(Request::Stop);
    }

    /// Sends a request to the event loop and waits for its answer.
    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let gone = || {
            Refusal::new(
                "internal/stopping",
                "",
                "the coordinator is stopping",
                "start it again with `muster up`",
            )
        };
        self.requests.send(request(reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

/// Runs `work` where blocking is allowed.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        Refusal::new("internal/panic", "", error.to_string(), "report this with the coordinator's log")
    })
}

/// A submission id as typed.
pub(crate) fn parse_submission(id: &str) -> Result<SubmissionId, Refusal> {
    id.parse().map_err(|_| {
        Refusal::new(
            "submit/unknown-submission",
            id.chars().take(80).collect::<String>(),
            "this is no submission id",
            "copy the 64 digits from the receipt",
        )
    })
}
