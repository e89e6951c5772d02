//! The other threads' side of the ledger's writer.

use super::content::{Content, examine};
use super::history::RecordedClass;
use super::openings::Openings;
use super::request::{CommitRequest, IncomingReport};
use fleet_config::domain::{
    CellId, Commitment, DeviceDescription, DeviceId, Fence, LeafIndex, PolicyId, RecordId, Submission,
    SubmissionId,
};
use fleet_config::refusal::Refusal;
use fleet_config::wire::v1::{RecordVerdict, Recorded};
use ledger::blob::BlobStore;
use ledger::entry::Kind;
use ledger::entry::predicate::{Finding, NodeEnrol, NodeRevoke, OpenedHoldout, PolicyAdded, TaskAdded};
use ledger::index::{EntrySummary, Index, ResultSummary, ReuseKey};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// Reports whose blobs are checked at one time: bounds the memory of the checks.
pub(super) const EXAMINED_AT_ONCE: usize = 4;

/// Sends requests to the writer and reads what it publishes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CommitHandle {
    pub(super) sender: mpsc::Sender<CommitRequest>,
    pub(super) shared: Arc<Shared>,
}

/// What the writer publishes.
#[derive(Debug)]
pub(super) struct Shared {
    /// Entries committed.
    pub(super) size: AtomicU64,
    /// The query index, written after each batch.
    pub(super) index: Mutex<Index>,
    /// The comparability class that each device last recorded under a policy, with its fields.
    pub(super) classes: Mutex<BTreeMap<(DeviceId, PolicyId), RecordedClass>>,
    /// Written by the writer alone, before the entries that they are in are durable.
    pub(super) openings: Mutex<Openings>,
    pub(super) blobs: Arc<BlobStore>,
    pub(super) examining: Semaphore,
    /// The newest signed checkpoint.
    pub(super) checkpoint: watch::Sender<String>,
}

impl Shared {
    /// The entry of this very record, as the index keeps it.
    pub(super) fn entry(&self, record: RecordId) -> Result<Option<EntrySummary>, Refusal> {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let known = index.record(record).map_err(|error| {
            Refusal::new("ledger/index", record.to_string(), error.to_string(), "start the coordinator again")
        })?;
        Ok(known.found)
    }
}

impl CommitHandle {
    /// Entries committed so far.
    pub fn size(&self) -> u64 {
        self.shared.size.load(Ordering::Acquire)
    }

    /// The result that has this name, as the index keeps it.
    pub fn result(&self, record: RecordId) -> Result<Option<ResultSummary>, Refusal> {
        let found = self.shared.entry(record)?;
        let is_result = |entry: &EntrySummary| entry.kind == Kind::Result.word();
        Ok(found.filter(is_result).and_then(|entry| entry.result))
    }

    /// Whether a finding brought this result down, or it is suspected with its node.
    pub fn is_fallen(&self, record: RecordId) -> Result<bool, Refusal> {
        let index = self.shared.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.is_fallen(record).map_err(|error| {
            Refusal::new("ledger/index", record.to_string(), error.to_string(), "start the coordinator again")
        })
    }

    /// How often a holdout was opened so far.
    pub fn openings(&self, commitment: Commitment) -> u64 {
        self.shared.openings.lock().unwrap_or_else(PoisonError::into_inner).count(commitment)
    }

    /// What was opened for an attempt; nothing for one that searches.
    pub fn opened_for(&self, cell: CellId, fence: Fence) -> Option<OpenedHoldout> {
        self.shared.openings.lock().unwrap_or_else(PoisonError::into_inner).of(cell, fence)
    }

    /// Appends a task entry.
    pub async fn add_task(&self, entry: TaskAdded) -> Result<LeafIndex, Refusal> {
        self.ask(|reply| CommitRequest::AddTask { entry: Box::new(entry), reply }).await?
    }

    /// Appends a policy entry.
    pub async fn add_policy(&self, entry: PolicyAdded) -> Result<LeafIndex, Refusal> {
        self.ask(|reply| CommitRequest::AddPolicy { entry: Box::new(entry), reply }).await?
    }

    /// Appends a finding entry.
    pub async fn add_finding(&self, entry: Finding) -> Result<LeafIndex, Refusal> {
        self.ask(|reply| CommitRequest::AddFinding { entry: Box::new(entry), reply }).await?
    }

    /// Appends a node-enrol entry.
    pub async fn enrol(&self, entry: NodeEnrol) -> Result<LeafIndex, Refusal> {
        self.ask(|reply| CommitRequest::Enrol { entry: Box::new(entry), reply }).await?
    }

    /// Appends a node-revoke entry. What suspects nothing has its own leaf as the first suspected one.
    pub async fn revoke(&self, entry: NodeRevoke) -> Result<LeafIndex, Refusal> {
        self.ask(|reply| CommitRequest::Revoke { entry: Box::new(entry), reply }).await?
    }

    /// Integrates everything committed and answers with the checkpoint.
    pub async fn checkpoint(&self) -> Result<String, Refusal> {
        self.ask(|reply| CommitRequest::Checkpoint { reply }).await?
    }

    /// Judges and records a report. Never fails: a writer that cannot record says `Later`.
    pub async fn report(&self, report: IncomingReport) -> Recorded {
        let record = [0; 32];
        let content = self.examine(&report).await;
        let request = |reply| CommitRequest::Report { report: Box::new(report), content, reply };
        match self.ask(request).await {
            Ok(recorded) => recorded,
            Err(refusal) => {
                let verdict = RecordVerdict::Later { code: refusal.code.into_owned(), cause: refusal.cause };
                Recorded { record, verdict }
            }
        }
    }

    /// Checks what a report says against its blobs, where reading may block.
    async fn examine(&self, report: &IncomingReport) -> Content {
        let unknown = |error: &dyn std::fmt::Display| Content::Unknown { cause: error.to_string() };
        let _permit = match self.shared.examining.acquire().await {
            Ok(permit) => permit,
            Err(error) => return unknown(&error),
        };
        let (blobs, envelope) = (Arc::clone(&self.shared.blobs), report.envelope.clone());
        let examined = tokio::task::spawn_blocking(move || examine(&envelope, &blobs)).await;
        examined.unwrap_or_else(|error| unknown(&error))
    }

    /// The newest signed checkpoint, as it changes.
    pub fn checkpoints(&self) -> watch::Receiver<String> {
        self.shared.checkpoint.subscribe()
    }

    /// Hands over a request that needs no answer; gives it back when the queue is full.
    pub fn try_send(&self, request: CommitRequest) -> Result<(), Box<CommitRequest>> {
        self.sender.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(request) | mpsc::error::TrySendError::Closed(request) => {
                Box::new(request)
            }
        })
    }

    /// Asks the writer to integrate what is committed and to end.
    pub async fn stop(&self) -> Result<(), Refusal> {
        self.sender.send(CommitRequest::Stop).await.map_err(|_| gone())
    }

    /// Cells of `submission` that a recorded result answers: same candidate, task and policy, in the class that a
    /// device of the target measures in. `devices` are those that are there now, with the targets they belong to.
    pub fn reusable(
        &self,
        submission: &Submission,
        id: SubmissionId,
        devices: &[DeviceDescription],
    ) -> BTreeMap<CellId, LeafIndex> {
        let classes = self.shared.classes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let index = self.shared.index.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = BTreeMap::new();
        for (cell, candidate, target) in submission.cells(id) {
            let of_target = devices.iter().filter(|device| target.matches(device));
            let leaves = of_target.filter_map(|device| {
                let class = classes
                    .get(&(device.id.clone(), submission.policy))
                    .filter(|class| class.is_still(device))?;
                let (task, policy) = (submission.task, submission.policy);
                let answer = index.reusable(&ReuseKey { candidate, task, policy, class: class.id }).ok()?;
                answer.found.last().map(|summary| summary.leaf)
            });
            if let Some(leaf) = leaves.max() {
                found.insert(cell, leaf);
            }
        }
        found
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> CommitRequest) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.sender.send(request(reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

fn gone() -> Refusal {
    Refusal::new(
        "ledger/stopped",
        "",
        "the ledger's writer has stopped",
        "see the coordinator's log, free disk space, and start it again",
    )
}
