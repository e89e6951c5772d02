//! One candidate of a task tried on this machine: a whole attempt whose record goes nowhere.

use super::context::{Assignment, Context, Hold, Machine, Node};
use super::rehearsal::Shelf;
use super::{AttemptError, attempt, resolve};
use crate::backend::{CompileRequest, Failure, Interrupt, Sources};
use crate::clock;
use crate::inventory::{Offer, Wish};
use crate::measure::clock::SystemClock;
use fleet_config::config::{LoadedCandidate, LoadedTask};
use fleet_config::domain::canonical::{self, CanonicalError};
use fleet_config::domain::{
    BlobRef, CellId, CheckEvidence, Fence, MeasurementPolicy, Milliseconds, Nonce, Picoseconds, Seed,
    SourceTree, SubmissionId,
};
use fleet_config::identity::SecretKey;
use ledger::entry::predicate::{Evidence, ResultRecord};
use ledger::entry::{Body, Entry, ReadError};
use std::io;
use std::path::Path;
use std::time::Duration;
use zeroize::Zeroizing;

/// Seeds of the draws: any do, and fixed ones make a try repeatable.
const SEEDS: [Seed; 2] = [Seed(1), Seed(2)];

/// How long compiler and device may take in all, whatever the task's own limits allow beyond.
const PATIENCE: Milliseconds = Milliseconds(600_000);

/// What is tried, and where.
#[derive(Clone, Copy)]
pub struct Tryout<'a> {
    pub task: &'a LoadedTask,
    pub candidate: &'a LoadedCandidate,
    pub policy: &'a MeasurementPolicy,
    pub offer: &'a Offer,
    pub wish: &'a Wish,
    pub machine: &'a dyn Machine,
    /// An empty folder.
    pub folder: &'a Path,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Tried {
    pub record: ResultRecord,
    /// Stages and screens.
    pub checks: Vec<CheckEvidence>,
    pub log: Option<String>,
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum TryoutError {
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    #[error(transparent)]
    Attempt(#[from] AttemptError),
    #[error("the record cannot be read back: {0}")]
    Read(#[from] ReadError),
    #[error("the attempt left no result")]
    NoResult,
}

/// A machine that is never waited for: what is tried beside other work gives verdicts and no times that count.
#[derive(Debug, Clone, Copy)]
pub struct Crowded;

impl Machine for Crowded {
    fn hold(&self, _hold: Hold, _give_up: &dyn Fn() -> bool) -> io::Result<Option<Box<dyn Send>>> {
        Ok(Some(Box::new(())))
    }
}

impl Tryout<'_> {
    /// The whole attempt.
    pub fn run(&self) -> Result<Tried, TryoutError> {
        let blobs = self.task.blobs.iter().chain(&self.candidate.blobs);
        let mut shelf = Shelf::of(blobs.cloned());
        let assignment = Assignment {
            submission: SubmissionId([0; 32]),
            cell: CellId([0; 32]),
            fence: Fence(0),
            task: shelf.put(self.task.task.document()?),
            candidate: shelf.put(self.candidate.candidate.document()?),
            policy: shelf.put(self.policy.document()?),
            device: self.offer.description.id.clone(),
            nonce: Nonce([0; 32]),
            seeds: SEEDS.to_vec(),
            compile: PATIENCE,
            run: PATIENCE,
            queued: Milliseconds(0),
            sealed: None,
        };
        let node = Node {
            key: SecretKey::from_seed(&Zeroizing::new([0; 32])),
            harness: self.wish.harness.clone(),
            confinement: self.wish.confinement,
        };
        let finished = attempt(&Context {
            assignment: &assignment,
            origin: "",
            node: &node,
            device: &self.offer.description,
            backend: self.offer.backend.as_ref(),
            hardware: &|| None,
            blobs: &shelf,
            machine: self.machine,
            clock: &SystemClock,
            folder: self.folder,
            progress: &|_, _| {},
            interrupt: Interrupt::never(),
            deadline: Picoseconds(u64::MAX),
        })?;
        let Body::Result(record) = Entry::read(&finished.envelope)?.body else {
            return Err(TryoutError::NoResult);
        };
        let bytes =
            |wanted: BlobRef| finished.blobs.iter().find(|(blob, _)| *blob == wanted).map(|(_, bytes)| bytes);
        let checks = match record.evidence.and_then(bytes) {
            Some(evidence) => canonical::from_bytes::<Evidence>(evidence)?.checks,
            None => Vec::new(),
        };
        let log = record.outcome.log.and_then(bytes).map(|log| String::from_utf8_lossy(log).into_owned());
        Ok(Tried { record: *record, checks, log })
    }

    /// Compiles the candidate alone, with `remark` behind its source, so that no earlier artefact answers. The time is
    /// that of the whole call, by the wall.
    pub fn compile(&self, remark: &str) -> Result<Duration, Box<Failure>> {
        let task = &self.task.task;
        let plan = self.candidate.candidate.plan.as_ref().unwrap_or(&task.baseline.plan);
        let mut sources = self.sources(&self.candidate.candidate.source);
        if let Some(main) = sources.files.get_mut(&sources.main) {
            main.extend(format!("\n// {remark}\n").into_bytes());
        }
        let request = CompileRequest {
            sources,
            headers: Vec::new(),
            entries: resolve::entries(task, plan),
            architecture: self.offer.description.architecture.clone(),
            policy: self.policy.clone(),
            limit: task.limits.compile,
            folder: self.folder.to_owned(),
            confinement: self.wish.confinement,
            interrupt: Interrupt::never(),
        };
        let from = clock::monotonic();
        self.offer.backend.compile(&request).map_err(Box::new)?;
        Ok(clock::monotonic().saturating_sub(from))
    }

    fn sources(&self, tree: &SourceTree) -> Sources {
        let text = |blob: &BlobRef| {
            let found = self.candidate.blobs.iter().find(|(found, _)| found == blob);
            found.map(|(_, bytes)| bytes.clone()).unwrap_or_default()
        };
        let files = tree.files.iter().map(|file| (file.path.clone(), text(&file.blob))).collect();
        Sources { main: tree.main.clone(), files }
    }
}
