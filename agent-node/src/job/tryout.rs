//! One candidate of a task tried on this machine: a whole attempt whose record goes nowhere.

use super::context::{Hold, Machine};
use super::local::{self, Shelf};
use super::{AttemptError, Residents, attempt, resolve};
use crate::backend::{CompileRequest, Failure, Interrupt, Sources};
use crate::clock;
use crate::inventory::{Offer, Wish};
use fleet_config::config::{LoadedCandidate, LoadedTask};
use fleet_config::domain::canonical::{self, CanonicalError};
use fleet_config::domain::{BlobRef, CheckEvidence, MeasurementPolicy, SourceTree};
use ledger::entry::predicate::{Evidence, ResultRecord};
use ledger::entry::{Body, Entry, ReadError};
use std::io;
use std::path::Path;
use std::time::Duration;

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
        let assignment = local::assignment(
            &self.task.task,
            &self.candidate.candidate,
            self.policy,
            self.offer,
            &mut shelf,
        )?;
        let node = local::node(self.wish);
        let residents = Residents::on(&self.offer.description);
        let context =
            local::context(&assignment, &node, self.offer, &shelf, &residents, self.machine, self.folder);
        let finished = attempt(&context)?;
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
