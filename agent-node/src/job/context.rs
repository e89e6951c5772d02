//! What an attempt is given: its assignment, and everything of the outside world that its steps may touch.

use super::fault::{Party, Stop, infrastructure, run_limit};
use crate::backend::{Backend, Failure};
use crate::measure::clock::Clock;
use crate::sandbox::Confinement;
use fleet_config::domain::{
    BlobRef, CellId, DeviceDescription, DeviceId, Digest, Fence, Milliseconds, Nonce, Picoseconds, Seed,
    Sha256, Stage, SubmissionId,
};
use fleet_config::identity::SecretKey;
use fleet_config::wire::v1;
use ledger::entry::predicate::Harness;
use std::path::Path;

/// One leased try at a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub submission: SubmissionId,
    pub cell: CellId,
    pub fence: Fence,
    pub task: BlobRef,
    pub candidate: BlobRef,
    pub policy: BlobRef,
    pub device: DeviceId,
    pub nonce: Nonce,
    pub seeds: Vec<Seed>,
    pub compile: Milliseconds,
    pub run: Milliseconds,
    pub queued: Milliseconds,
}

impl From<&v1::Assign> for Assignment {
    fn from(assign: &v1::Assign) -> Self {
        let v1::Assign {
            submission,
            cell,
            fence,
            task,
            candidate,
            policy,
            device,
            nonce,
            seeds,
            compile_ms,
            run_ms,
            queued_ms,
        } = assign;
        let blob = |blob: &v1::Blob| BlobRef {
            blake3: Digest(blob.blake3),
            sha256: Sha256(blob.sha256),
            size: blob.size,
        };
        Self {
            submission: SubmissionId(*submission),
            cell: CellId(*cell),
            fence: Fence(*fence),
            task: blob(task),
            candidate: blob(candidate),
            policy: blob(policy),
            device: DeviceId(device.clone()),
            nonce: Nonce(*nonce),
            seeds: seeds.iter().copied().map(Seed).collect(),
            compile: Milliseconds(*compile_ms),
            run: Milliseconds(*run_ms),
            queued: Milliseconds(*queued_ms),
        }
    }
}

/// Where blobs come from: the node's cache, then the coordinator.
pub trait BlobSource: Send + Sync {
    /// The bytes behind `blob`, already checked against it. Blocks.
    fn fetch(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobFault>;
}

/// A blob that could not be had; always the fleet's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the blob {blob} of {size} bytes could not be fetched: {cause}")]
pub struct BlobFault {
    pub blob: Digest,
    pub size: u64,
    pub cause: String,
}

/// How a step holds the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Beside other work: compiling, validating.
    Shared,
    /// Alone: timing.
    Alone,
}

/// The machine-wide lock; dropping the guard lets go.
pub trait Machine: Send + Sync {
    /// Waits until the machine can be held so, or `cancelled` says that nobody waits any more (`Ok(None)`).
    fn hold(&self, hold: Hold, cancelled: &dyn Fn() -> bool) -> std::io::Result<Option<Box<dyn Send>>>;
}

/// This node as its records name it.
#[derive(Debug)]
pub struct Node {
    pub key: SecretKey,
    pub harness: Harness,
    /// Word of the sandbox level that candidates run in.
    pub sandbox: String,
    pub confinement: Confinement,
}

/// What the steps of one attempt share.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub assignment: &'a Assignment,
    /// Origin of the ledger that the attempt was granted in.
    pub origin: &'a str,
    pub node: &'a Node,
    pub device: &'a DeviceDescription,
    pub backend: &'a dyn Backend,
    pub blobs: &'a dyn BlobSource,
    pub machine: &'a dyn Machine,
    pub clock: &'a dyn Clock,
    /// An empty folder of this attempt.
    pub folder: &'a Path,
    pub progress: &'a dyn Fn(Stage, &str),
    pub cancelled: &'a dyn Fn() -> bool,
}

impl Context<'_> {
    /// Stops here if nobody wants the result any more.
    pub fn go_on(&self) -> Result<(), Stop> {
        if (self.cancelled)() { Err(Stop::Cancelled) } else { Ok(()) }
    }

    /// Holds the machine for `stage`; the wait is added to `waited`, since it counts as queueing.
    pub fn hold(&self, hold: Hold, stage: Stage, waited: &mut Picoseconds) -> Result<Box<dyn Send>, Stop> {
        let from = self.clock.now();
        let guard = self
            .machine
            .hold(hold, self.cancelled)
            .map_err(|error| {
                infrastructure(stage, "machine/lock", format!("the machine-wide lock: {error}"))
            })?
            .ok_or(Stop::Cancelled)?;
        waited.0 = waited.0.saturating_add(elapsed(from, self.clock.now()).0);
        Ok(guard)
    }

    /// An empty folder `name` inside the attempt's own.
    pub fn subfolder(&self, name: &str, stage: Stage) -> Result<std::path::PathBuf, Failure> {
        let path = self.folder.join(name);
        std::fs::create_dir_all(&path).map_err(|error| {
            infrastructure(stage, "job/folder", format!("the job folder {name} cannot be made: {error}"))
        })?;
        Ok(path)
    }
}

/// What the attempt may still spend on the device.
#[derive(Debug, Clone, Copy)]
pub struct RunBudget {
    pub limit: Milliseconds,
    /// Spent in earlier stages.
    pub spent: Picoseconds,
    /// When the current stage began.
    pub since: Picoseconds,
}

impl RunBudget {
    /// Stops the attempt when it is cancelled or has used up its time.
    pub fn check(&self, context: &Context<'_>, party: Party, stage: Stage, case: &str) -> Result<(), Stop> {
        context.go_on()?;
        let total = self.spent.0.saturating_add(elapsed(self.since, context.clock.now()).0);
        if total > self.limit.0.saturating_mul(1_000_000_000) {
            return Err(run_limit(party, stage, case, self.limit.0).into());
        }
        Ok(())
    }
}

/// The time from one reading of a monotonic clock to a later one.
pub fn elapsed(from: Picoseconds, to: Picoseconds) -> Picoseconds {
    Picoseconds(to.0.saturating_sub(from.0))
}

/// In whole milliseconds, rounded to nearest.
pub fn milliseconds(time: Picoseconds) -> Milliseconds {
    Milliseconds(time.0.saturating_add(500_000_000) / 1_000_000_000)
}
