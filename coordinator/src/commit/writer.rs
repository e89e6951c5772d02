//! The writer thread: takes batches of requests, stages entries, commits them with one sync, then answers.

use super::handle::{CommitHandle, EXAMINED_AT_ONCE, Shared};
use super::history::{History, RecordedClass, forget_ended, lease, lost_event};
use super::request::CommitRequest;
use crate::scheduler::acceptance::AcceptanceTable;
use crate::scheduler::effect::{CellSubject, Grant as LeasedGrant, LostReason};
use crate::scheduler::input::{EndReason, LedgerEvent};
use crate::stores::reference;
use fleet_config::domain::{CellId, Digest, Fence, LeafIndex, RecordId};
use fleet_config::identity::SecretKey;
use fleet_config::refusal::Refusal;
use fleet_config::wire::v1::{RecordVerdict, Recorded};
use ledger::blob::BlobStore;
use ledger::entry::predicate::{
    AttemptLost, Consequence, Finding, Grant, LossReason, NodeRevoke, Predicate, ResultRecord,
};
use ledger::entry::{Signers, Subject, check, seal, seal_grants};
use ledger::index::Index;
use ledger::log::{LogSigner, LogWriter};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// Requests that wait for the writer: two full batches.
const QUEUE: usize = 2 * BATCH_MAX;

/// Requests committed by one sync.
const BATCH_MAX: usize = 512;

/// How often committed entries become part of the tree.
const INTEGRATE_EVERY: Duration = Duration::from_secs(1);

/// Why a writer cannot start.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("the writer's thread cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// What a writer is made of.
#[derive(Debug)]
pub struct Parts {
    pub log: LogWriter,
    pub blobs: Arc<BlobStore>,
    pub index: Index,
    pub history: History,
    pub origin: String,
    pub operator: SecretKey,
    /// Signs promises; the log's own copy signs checkpoints.
    pub promises: LogSigner,
    /// Where events go once they are durable; bounded, and the event loop never waits for the writer.
    pub events: mpsc::Sender<LedgerEvent>,
}

/// The running thread.
#[derive(Debug)]
pub struct CommitThread {
    thread: std::thread::JoinHandle<()>,
}

impl CommitThread {
    /// Starts the writer.
    pub fn start(parts: Parts) -> Result<(Self, CommitHandle), CommitError> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            size: AtomicU64::new(parts.log.size()),
            index: Mutex::new(parts.index),
            classes: Mutex::new(parts.history.classes.clone()),
            openings: Mutex::new(parts.history.openings.clone()),
            blobs: Arc::clone(&parts.blobs),
            examining: Semaphore::new(EXAMINED_AT_ONCE),
            checkpoint: watch::Sender::new(parts.log.checkpoint_note().to_owned()),
        });
        let writer = Writer {
            log: parts.log,
            blobs: parts.blobs,
            signers: parts.history.signers,
            table: parts.history.table,
            grants: parts.history.grants,
            origin: parts.origin,
            operator: parts.operator,
            promises: parts.promises,
            events: parts.events,
            shared: Arc::clone(&shared),
            staged: Staged::default(),
            stopped: None,
        };
        let thread = std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || writer.run(receiver))?;
        Ok((Self { thread }, CommitHandle { sender, shared }))
    }

    /// Waits for the thread to end after [`CommitRequest::Stop`].
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the ledger's writer panicked; see the lines above");
        }
    }
}

/// The state of the writer; owned by its thread.
pub(super) struct Writer {
    log: LogWriter,
    pub(super) blobs: Arc<BlobStore>,
    pub(super) signers: Signers,
    pub(super) table: AcceptanceTable,
    pub(super) grants: BTreeMap<(CellId, Fence), Grant>,
    pub(super) origin: String,
    operator: SecretKey,
    pub(super) promises: LogSigner,
    events: mpsc::Sender<LedgerEvent>,
    pub(super) shared: Arc<Shared>,
    staged: Staged,
    /// Set by the first failed append: nothing is recorded after it.
    stopped: Option<Refusal>,
}

/// Entries and answers of the batch under way.
#[derive(Default)]
struct Staged {
    entries: Vec<Vec<u8>>,
    /// Statements of the operator among them.
    records: BTreeMap<RecordId, LeafIndex>,
    events: Vec<LedgerEvent>,
    answers: Vec<Answer>,
}

/// What goes out once the batch is durable, or not.
enum Answer {
    Index(oneshot::Sender<Result<LeafIndex, Refusal>>, Result<LeafIndex, Refusal>),
    Report(oneshot::Sender<Recorded>, Recorded),
    Checkpoint(oneshot::Sender<Result<String, Refusal>>),
}

impl Writer {
    fn run(mut self, mut receiver: mpsc::Receiver<CommitRequest>) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime,
            Err(error) => return tracing::error!(%error, "the ledger's writer cannot wait for requests"),
        };
        let clock = crate::clock::Clock::start();
        let mut due = INTEGRATE_EVERY;
        loop {
            let wait = due.saturating_sub(clock.now());
            let first = match receive(&runtime, &mut receiver, wait) {
                Received::Request(request) => Some(request),
                Received::TimedOut => None,
                Received::Closed => break,
            };
            let mut stop = false;
            let more = std::iter::from_fn(|| receiver.try_recv().ok());
            for request in first.into_iter().chain(more.take(BATCH_MAX)) {
                stop |= matches!(request, CommitRequest::Stop);
                self.take(request);
            }
            self.commit();
            if stop {
                break;
            }
            if clock.now() >= due {
                due = clock.now() + INTEGRATE_EVERY;
                self.integrate();
            }
        }
        self.integrate();
    }

    /// Decides one request and stages what it leads to.
    fn take(&mut self, request: CommitRequest) {
        match request {
            CommitRequest::AddTask { entry, reply } => {
                let subject = Subject::of_blob("task", &entry.definition);
                let index = self.seal_and_stage(*entry, subject);
                self.staged.answers.push(Answer::Index(reply, index));
            }
            CommitRequest::AddPolicy { entry, reply } => {
                let subject = Subject::of_blob("policy", &entry.definition);
                let index = self.seal_and_stage(*entry, subject);
                self.staged.answers.push(Answer::Index(reply, index));
            }
            CommitRequest::AddFinding { entry, reply } => {
                let index = self.add_finding(*entry);
                self.staged.answers.push(Answer::Index(reply, index));
            }
            CommitRequest::Enrol { entry, reply } => {
                let index = self.enrol(*entry);
                self.staged.answers.push(Answer::Index(reply, index));
            }
            CommitRequest::Revoke { entry, reply } => {
                let index = self.revoke(*entry);
                self.staged.answers.push(Answer::Index(reply, index));
            }
            CommitRequest::Grants(grants) => self.record_grants(&grants),
            CommitRequest::Lost { about, fence, reason } => self.record_lost(about, fence, reason),
            CommitRequest::End { about, fence, reason } => self.record_end(about, fence, reason),
            CommitRequest::Report { report, content, reply } => {
                let recorded = self.judge_report(&report, content);
                self.staged.answers.push(Answer::Report(reply, recorded));
            }
            CommitRequest::Checkpoint { reply } => self.staged.answers.push(Answer::Checkpoint(reply)),
            CommitRequest::Stop => {}
        }
    }

    /// Stages entry bytes; the index is known because this thread alone appends.
    pub(super) fn stage(&mut self, bytes: Vec<u8>) -> LeafIndex {
        let index = LeafIndex(self.log.size() + self.staged.entries.len() as u64);
        self.staged.entries.push(bytes);
        index
    }

    /// Signs a statement of the operator and stages it; one that is in the log already is answered with its leaf.
    pub(super) fn seal_and_stage<P: Predicate>(
        &mut self,
        body: P,
        subject: Subject,
    ) -> Result<LeafIndex, Refusal> {
        let sealed = seal(body, subject, &self.operator).map_err(|error| {
            Refusal::new("ledger/entry", "", error.to_string(), "shorten what the entry names")
        })?;
        if let Some(leaf) = self.recorded(sealed.record)? {
            return Ok(leaf);
        }
        let checked = check(&sealed.bytes, &self.signers).map_err(|error| error.refusal())?;
        let index = self.stage(sealed.bytes);
        self.staged.records.insert(sealed.record, index);
        self.signers.fold(index, &checked);
        Ok(index)
    }

    /// Where a statement is already: the same words in the same second are one record, and a log has no record twice.
    fn recorded(&self, record: RecordId) -> Result<Option<LeafIndex>, Refusal> {
        let staged = self.staged.records.get(&record).copied();
        let index = self.shared.index.lock().unwrap_or_else(PoisonError::into_inner);
        let known = index.record(record).map_err(|error| {
            Refusal::new("ledger/index", record.to_string(), error.to_string(), "start the coordinator again")
        })?;
        Ok(staged.or(known.found.map(|entry| entry.leaf)))
    }

    /// Applies an event that holds once the batch is durable.
    pub(super) fn note(&mut self, event: &LedgerEvent) {
        self.table.apply(event);
        forget_ended(&mut self.grants, event);
        self.openings().forget_ended(event);
        self.staged.events.push(event.clone());
    }

    /// Remembers the class that a device measures in, for answering the same question from the ledger.
    pub(super) fn note_class(&mut self, result: &ResultRecord) {
        if let Some(class) = RecordedClass::of(result, &self.blobs) {
            let mut classes = self.shared.classes.lock().unwrap_or_else(PoisonError::into_inner);
            classes.insert((result.device.clone(), result.policy), class);
        }
    }

    fn add_finding(&mut self, entry: Finding) -> Result<LeafIndex, Refusal> {
        let candidate = reference(&self.blobs, &Digest(entry.candidate.0)).ok_or_else(|| {
            let cause = "the document of the candidate is missing from the store";
            Refusal::new("ledger/blob", entry.candidate.to_string(), cause, "run `muster ledger verify`")
        })?;
        self.seal_and_stage(entry, Subject::of_blob("candidate", &candidate))
    }

    fn enrol(&mut self, entry: ledger::entry::predicate::NodeEnrol) -> Result<LeafIndex, Refusal> {
        if let Some(known) = self.signers.node(&entry.node) {
            return Ok(known.leaf);
        }
        let key = fleet_config::identity::PublicKey::from_hex(&entry.signing_key).map_err(|error| {
            Refusal::new("join/key", "", error.to_string(), "let the node make a new key")
        })?;
        self.seal_and_stage(entry, Subject::of_key("signing-key", &key))
    }

    fn revoke(&mut self, entry: NodeRevoke) -> Result<LeafIndex, Refusal> {
        let key = self.signers.node(&entry.node).map(|node| node.key).ok_or_else(|| {
            let next = "see `muster node list`";
            Refusal::new("node/unknown-node", entry.node.to_string(), "no node of this id is enrolled", next)
        })?;
        let next = LeafIndex(self.log.size() + self.staged.entries.len() as u64);
        let suspect_from = entry.suspect_from.min(next);
        self.seal_and_stage(NodeRevoke { suspect_from, ..entry }, Subject::of_key("signing-key", &key))
    }

    fn record_grants(&mut self, leased: &[LeasedGrant]) {
        if let Err(refusal) = self.record_openings(leased) {
            return self.fail(&refusal.to_string());
        }
        let grants: Vec<Grant> = leased.iter().map(recorded_grant).collect();
        let (entry, document) = match seal_grants(&grants, crate::clock::wall_rfc3339()) {
            Ok(sealed) => sealed,
            Err(error) => return self.fail(&format!("grants do not seal: {error}")),
        };
        if let Err(error) = self.blobs.put(&document.bytes) {
            return self.fail(&format!("grants are not stored: {error}"));
        }
        let subject = Subject::of_blob("grants", &entry.grants);
        match self.seal_and_stage(entry, subject) {
            Ok(index) => {
                let fences = grants.iter().map(|grant| grant.fence).collect();
                for grant in grants {
                    self.table.granted(&lease(&grant));
                    self.grants.insert((grant.cell, grant.fence), grant);
                }
                self.note(&LedgerEvent::GrantsRecorded { fences, index });
            }
            Err(refusal) => self.fail(&refusal.to_string()),
        }
    }

    fn record_lost(&mut self, about: CellSubject, fence: Fence, reason: LostReason) {
        if !self.table.may_lose(about.cell, fence) {
            return;
        }
        let reason = match reason {
            LostReason::NodeSilent => LossReason::NodeSilent,
            LostReason::DeadlinePassed => LossReason::DeadlinePassed,
            LostReason::NotHeld => LossReason::NotHeld,
            LostReason::Abandoned => LossReason::Abandoned,
        };
        self.stage_loss(about, Some(fence), reason, Consequence::Retried);
    }

    fn record_end(&mut self, about: CellSubject, fence: Option<Fence>, reason: EndReason) {
        if !self.table.may_end(about.cell) {
            return;
        }
        let reason = match reason {
            EndReason::AttemptsExhausted => LossReason::AttemptsExhausted,
            EndReason::QueueBudgetSpent => LossReason::QueueBudgetSpent,
            EndReason::Cancelled => LossReason::Cancelled,
        };
        self.stage_loss(about, fence, reason, Consequence::Final);
    }

    fn stage_loss(
        &mut self,
        about: CellSubject,
        fence: Option<Fence>,
        reason: LossReason,
        consequence: Consequence,
    ) {
        let CellSubject { cell, submission, task, candidate } = about;
        let lost_on = crate::clock::wall_rfc3339();
        let entry = AttemptLost { submission, cell, fence, task, candidate, reason, consequence, lost_on };
        let Some(candidate) = reference(&self.blobs, &Digest(entry.candidate.0)) else {
            return self.fail(&format!("the document of candidate {} is missing", entry.candidate));
        };
        let subject = Subject::of_blob("candidate", &candidate);
        let lost = entry.clone();
        match self.seal_and_stage(entry, subject) {
            Ok(index) => self.note(&lost_event(&lost, index)),
            Err(refusal) => self.fail(&refusal.to_string()),
        }
    }

    /// Makes the batch durable, then answers. Crash before the sync: nothing was acknowledged, nodes send again.
    /// Crash after it: the entries are in the log, and repeats are answered with their index.
    fn commit(&mut self) {
        let staged = std::mem::take(&mut self.staged);
        let first = self.log.size();
        if !staged.entries.is_empty() && self.stopped.is_none() {
            // Blobs and their folders come first: no entry may name what a crash could lose.
            let durable = self.blobs.sync().map_err(|error| error.to_string());
            let appended =
                durable.and_then(|()| self.log.append_batch(&staged.entries).map_err(|e| e.to_string()));
            if let Err(error) = appended {
                self.fail(&error);
            }
        }
        if let Some(refusal) = self.stopped.clone() {
            return answer_stopped(staged.answers, &refusal);
        }
        self.shared.size.store(self.log.size(), Ordering::Release);
        self.index(first, &staged.entries);
        for event in staged.events {
            // The event loop drains this queue without ever waiting for us, so that blocking here ends.
            if self.events.blocking_send(event).is_err() {
                tracing::info!("the event loop has ended; the ledger stays consistent without it");
                break;
            }
        }
        for answer in staged.answers {
            match answer {
                Answer::Index(reply, index) => drop(reply.send(index)),
                Answer::Report(reply, recorded) => drop(reply.send(recorded)),
                Answer::Checkpoint(reply) => {
                    let checkpoint = self.integrate_now();
                    drop(reply.send(checkpoint));
                }
            }
        }
    }

    /// The index follows the log; a failing one is reported and rebuilt at the next start.
    fn index(&mut self, first: u64, entries: &[Vec<u8>]) {
        let mut index = self.shared.index.lock().unwrap_or_else(PoisonError::into_inner);
        for (offset, bytes) in (first..).zip(entries) {
            if let Err(error) = index.apply(LeafIndex(offset), bytes) {
                tracing::warn!(%error, leaf = offset, "the index could not follow; it is rebuilt at the next start");
                return;
            }
        }
    }

    fn integrate(&mut self) {
        if self.stopped.is_none()
            && let Err(refusal) = self.integrate_now()
        {
            tracing::error!(%refusal, "integration failed");
        }
    }

    fn integrate_now(&mut self) -> Result<String, Refusal> {
        match self.log.integrate() {
            Ok(_) => {
                let note = self.log.checkpoint_note();
                self.shared.checkpoint.send_if_modified(|known| {
                    let is_new = known != note;
                    if is_new {
                        note.clone_into(known);
                    }
                    is_new
                });
                Ok(note.to_owned())
            }
            Err(error) => {
                self.fail(&error.to_string());
                Err(stopped_refusal(&error.to_string()))
            }
        }
    }

    /// Any failure to write stops the writer: after a failed sync the page cache proves nothing.
    fn fail(&mut self, cause: &str) {
        tracing::error!(cause, "the ledger's writer stops; nothing that was acknowledged is lost");
        self.stopped.get_or_insert_with(|| stopped_refusal(cause));
    }
}

fn answer_stopped(answers: Vec<Answer>, refusal: &Refusal) {
    for answer in answers {
        match answer {
            Answer::Index(reply, _) => drop(reply.send(Err(refusal.clone()))),
            Answer::Checkpoint(reply) => drop(reply.send(Err(refusal.clone()))),
            Answer::Report(reply, recorded) => {
                let code = refusal.code.clone().into_owned();
                let verdict = RecordVerdict::Later { code, cause: refusal.cause.clone() };
                drop(reply.send(Recorded { record: recorded.record, verdict }));
            }
        }
    }
}

pub(super) fn stopped_refusal(cause: &str) -> Refusal {
    Refusal::new(
        "ledger/stopped",
        "ledger",
        format!("the ledger cannot record: {cause}"),
        "free disk space or repair the disk, then start the coordinator again; nothing acknowledged is lost",
    )
}

fn recorded_grant(grant: &LeasedGrant) -> Grant {
    Grant {
        submission: grant.submission,
        cell: grant.cell,
        fence: grant.fence,
        task: grant.task,
        candidate: grant.candidate,
        policy: grant.policy,
        node: grant.node,
        device: grant.device.clone(),
        nonce: grant.nonce,
        seeds: grant.seeds.clone(),
    }
}

enum Received {
    Request(CommitRequest),
    TimedOut,
    Closed,
}

/// Waits for the next request at most `wait`; this thread is no task, so it brings its own small runtime.
fn receive(
    runtime: &tokio::runtime::Runtime,
    receiver: &mut mpsc::Receiver<CommitRequest>,
    wait: Duration,
) -> Received {
    match runtime.block_on(async { tokio::time::timeout(wait, receiver.recv()).await }) {
        Ok(Some(request)) => Received::Request(request),
        Ok(None) => Received::Closed,
        Err(_) => Received::TimedOut,
    }
}
