//! The front desk: what people and programs ask, checked before it reaches the event loop or the ledger.

mod candidate;
pub mod catalog;
mod finding;
mod node;
mod submit;
mod task;
mod verify;

use crate::commit::CommitHandle;
use crate::driver::request::{CellView, Request, SubmissionView, Summary};
use crate::driver::watch::Watch;
use crate::http::body::SummaryView;
use catalog::Catalog;
use fleet_config::domain::{BlobRef, SubmissionId};
use fleet_config::identity::SecretKey;
use fleet_config::refusal::Refusal;
use ledger::blob::BlobStore;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc, oneshot};

/// Submissions that a summary names: what fits on a screen.
const RECENT: usize = 10;

/// Fewest digits that may stand for a submission id.
const PREFIX_MIN: usize = 4;

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
    /// Held from the look whether a task or policy is known until its entry is: two who bring the same one make one entry.
    pub(crate) defining: Mutex<()>,
}

/// What does not change while a coordinator runs.
#[derive(Debug, Clone)]
pub struct Facts {
    pub origin: String,
    pub vkey: String,
    /// The address that the QUIC socket is bound to.
    pub bound: std::net::SocketAddr,
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
        let submission = self.submission(id).await?;
        self.ask(|reply| Request::Cells { submission, reply }).await?
    }

    /// Makes sure that the events of a submission can be followed, and answers with its id.
    pub async fn follow(&self, id: &str) -> Result<SubmissionId, Refusal> {
        let submission = self.submission(id).await?;
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
            bound: self.facts.bound.to_string(),
            listening: self.facts.addresses.join(", "),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ledger_size: self.commit.size(),
            totals,
            recent: self.recent(RECENT).await?,
        })
    }

    /// The newest submissions, newest first, at most `limit`.
    pub async fn recent(&self, limit: usize) -> Result<Vec<SubmissionView>, Refusal> {
        self.ask(|reply| Request::Recent { limit, reply }).await
    }

    /// The submission that `text` names: its id, or a unique prefix of it.
    async fn submission(&self, text: &str) -> Result<SubmissionId, Refusal> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let is_prefix = text.len() >= PREFIX_MIN && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_prefix {
            return Err(Refusal::new(
                "submit/unknown-submission",
                text.chars().take(80).collect::<String>(),
                "this is no submission id",
                format!(
                    "copy the id from the receipt, at least its first {PREFIX_MIN} digits; `muster status` lists the newest"
                ),
            ));
        }
        let prefix = text.to_ascii_lowercase();
        self.ask(|reply| Request::Named { prefix, reply }).await?
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
