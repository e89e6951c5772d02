//! What an attempt is given: its assignment, and everything of the outside world that its steps may touch.

use super::fault::{Party, Stop, infrastructure, run_limit};
use super::residents::Residents;
use crate::backend::{Backend, Duty, Failure, Interrupt};
use crate::measure::clock::Clock;
use crate::sandbox::Confinement;
use fleet_config::domain::{
    BlobRef, CellId, DeviceDescription, DeviceId, Digest, Fence, Milliseconds, Nonce, Picoseconds, Seed,
    Sha256, Stage, SubmissionId,
};
use fleet_config::identity::SecretKey;
use fleet_config::wire::{v1, v2};
use ledger::entry::predicate::Harness;
use std::cell::Cell;
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
    /// Present in a verification lease: the holdout that is opened for it.
    pub sealed: Option<v2::Sealed>,
}

impl From<&v2::Assign> for Assignment {
    fn from(assign: &v2::Assign) -> Self {
        let v2::Assign {
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
            sealed,
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
            sealed: sealed.clone(),
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
    /// Waits until the machine can be held so, or `give_up` says that it is of no use any more (`Ok(None)`).
    fn hold(&self, hold: Hold, give_up: &dyn Fn() -> bool) -> std::io::Result<Option<Box<dyn Send>>>;
}

/// This node as its records name it.
#[derive(Debug)]
pub struct Node {
    pub key: SecretKey,
    pub harness: Harness,
    pub confinement: Confinement,
}

/// What the steps of one attempt share.
#[derive(Clone)]
pub struct Context<'a> {
    pub assignment: &'a Assignment,
    /// Origin of the ledger that the attempt was granted in.
    pub origin: &'a str,
    pub node: &'a Node,
    pub device: &'a DeviceDescription,
    pub backend: &'a dyn Backend,
    /// After a fault: what of the device's own doing the driver reports, if anything.
    pub hardware: &'a dyn Fn() -> Option<String>,
    pub blobs: &'a dyn BlobSource,
    /// Workers that earlier questions left behind.
    pub residents: &'a Residents,
    pub machine: &'a dyn Machine,
    pub clock: &'a dyn Clock,
    /// An empty folder of this attempt.
    pub folder: &'a Path,
    pub progress: &'a dyn Fn(Stage, &str),
    /// Says when nobody waits for the result any more.
    pub interrupt: Interrupt,
    /// When the lease ends, by `clock`.
    pub deadline: Picoseconds,
}

impl Context<'_> {
    /// Stops here if nobody wants the result any more.
    pub fn go_on(&self) -> Result<(), Stop> {
        if self.interrupt.asked() { Err(Stop::Cancelled) } else { Ok(()) }
    }

    /// Holds the machine for `stage`; the wait is added to `waited`, since it counts as queueing. Waits no longer than
    /// leaves `needed` of the lease: an attempt that is crowded out is the fleet's fault and tried again.
    pub fn hold(
        &self,
        hold: Hold,
        stage: Stage,
        needed: Milliseconds,
        waited: &mut Picoseconds,
    ) -> Result<Box<dyn Send>, Stop> {
        self.go_on()?;
        let from = self.clock.now();
        let latest = self.deadline.0.saturating_sub(needed.0.saturating_mul(1_000_000_000));
        let give_up = || self.interrupt.asked() || self.clock.now().0 > latest;
        let held = self.machine.hold(hold, &give_up).map_err(|error| {
            infrastructure(stage, "machine/lock", format!("the machine-wide lock: {error}"))
        })?;
        let took = elapsed(from, self.clock.now());
        waited.0 = waited.0.saturating_add(took.0);
        if let Some(guard) = held {
            return Ok(guard);
        }
        self.go_on()?;
        let message = format!(
            "the machine was in use by others for {}, and what is left of the lease is too short for this attempt",
            milliseconds(took)
        );
        Err(infrastructure(stage, "machine/crowded", message).into())
    }

    /// Has the device for this node alone, while the machine is held; what stands above about waiting holds here too.
    pub fn claim(
        &self,
        duty: Duty,
        stage: Stage,
        needed: Milliseconds,
        waited: &mut Picoseconds,
    ) -> Result<Box<dyn Send>, Stop> {
        let from = self.clock.now();
        let latest = self.deadline.0.saturating_sub(needed.0.saturating_mul(1_000_000_000));
        let give_up = || self.interrupt.asked() || self.clock.now().0 > latest;
        let claimed = self.backend.claim(&self.device.id, duty, &give_up);
        waited.0 = waited.0.saturating_add(elapsed(from, self.clock.now()).0);
        claimed.map_err(|mut failure| {
            failure.outcome.stage = stage;
            failure.into()
        })
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

/// What each party of an attempt may spend on the device, and has. A party pays for its own process alone: what the node
/// does beside it, on a machine that others crowd, is nobody's fault of theirs.
#[derive(Debug)]
pub struct RunBudget {
    limit: Milliseconds,
    /// In picoseconds.
    reference: Cell<u64>,
    baseline: Cell<u64>,
    candidate: Cell<u64>,
}

impl RunBudget {
    /// `limit` for each party.
    pub fn new(limit: Milliseconds) -> Self {
        Self { limit, reference: Cell::default(), baseline: Cell::default(), candidate: Cell::default() }
    }

    fn spent(&self, party: Party) -> &Cell<u64> {
        match party {
            Party::Reference => &self.reference,
            Party::Baseline => &self.baseline,
            Party::Candidate => &self.candidate,
        }
    }

    /// Adds what `party` used its process for.
    pub fn spend(&self, party: Party, time: Picoseconds) {
        let spent = self.spent(party);
        spent.set(spent.get().saturating_add(time.0));
    }

    /// What the candidate may still spend.
    pub fn left(&self) -> Milliseconds {
        let spent = self.candidate.get();
        Milliseconds(self.limit.0.saturating_sub(spent / 1_000_000_000))
    }

    /// Stops the attempt when it is cancelled, when `party` has used up its time, or when the lease is over, which is the
    /// fleet's fault.
    pub fn check(&self, context: &Context<'_>, party: Party, stage: Stage, case: &str) -> Result<(), Stop> {
        context.go_on()?;
        if self.spent(party).get() > self.limit.0.saturating_mul(1_000_000_000) {
            return Err(run_limit(party, stage, case, self.limit.0).into());
        }
        if context.clock.now() > context.deadline {
            let message = "this node was too slow: the lease ended before the attempt";
            return Err(infrastructure(stage, "run/lease-over", message).into());
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
