//! Runs attempts for the session: one at a time per device, each in a folder of its own that goes with it.

use super::context::{Assignment, BlobSource, Context, Machine, Node};
use super::{AttemptError, FinishedAttempt, Residents, attempt};
use crate::backend::Interrupt;
use crate::health::State;
use crate::health::canary::Cage;
use crate::health::keeper::Ward;
use crate::inventory::Offer;
use crate::measure::clock::Clock;
use fleet_config::domain::{DeviceDescription, DeviceId, DeviceKind, Milliseconds, Picoseconds, Stage};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, TryLockError};

/// What a lease grants beyond the attempt's own limits, less what sending the result may take. The coordinator's term is
/// compile + run + 60 s.
const LEASE_SPARE: Milliseconds = Milliseconds(45_000);

/// Why an attempt was not begun or has no result. None of these is a candidate's fault.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("this node has no device {0}")]
    UnknownDevice(DeviceId),
    #[error("the device {0} is working on another attempt")]
    Busy(DeviceId),
    #[error("the device {device} is quarantined: {cause}")]
    Quarantined { device: DeviceId, cause: String },
    #[error("the job folder {path} cannot be made: {source}")]
    Folder { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Attempt(#[from] AttemptError),
}

impl RunError {
    /// Stable code for the coordinator.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownDevice(_) => "node/unknown-device",
            Self::Busy(_) => "node/device-busy",
            Self::Quarantined { .. } => "node/device-quarantined",
            Self::Folder { .. } => "node/job-folder",
            Self::Attempt(AttemptError::Cancelled) => "node/cancelled",
            Self::Attempt(AttemptError::Unprepared(_)) => "node/missing-blob",
            Self::Attempt(AttemptError::Sign(_)) => "node/sign",
        }
    }
}

struct Slot {
    offer: Offer,
    busy: Mutex<()>,
    /// Of a GPU.
    ward: Option<Ward>,
    residents: Residents,
}

impl Slot {
    fn new(offer: Offer) -> Self {
        let ward = match offer.description.kind {
            DeviceKind::Gpu => Some(Ward::default()),
            DeviceKind::Cpu | DeviceKind::Compile => None,
        };
        let residents = Residents::on(&offer.description);
        Self { offer, busy: Mutex::new(()), ward, residents }
    }

    fn offered(&self) -> DeviceDescription {
        let description = &self.offer.description;
        self.ward.as_ref().map_or_else(|| description.clone(), |ward| ward.offered(description))
    }
}

/// The devices of this node and what their attempts share.
pub struct Runner {
    slots: BTreeMap<DeviceId, Slot>,
    node: Node,
    machine: Box<dyn Machine>,
    clock: Box<dyn Clock>,
    /// Job folders are made in here.
    jobs: PathBuf,
}

/// What one attempt talks to.
#[derive(Clone)]
pub struct Caller<'a> {
    /// Origin of the ledger that granted the attempt.
    pub origin: &'a str,
    pub blobs: &'a dyn BlobSource,
    pub progress: &'a dyn Fn(Stage, &str),
    pub interrupt: Interrupt,
}

impl Runner {
    /// A runner over `offers` whose job folders lie in `jobs`.
    pub fn new(
        offers: Vec<Offer>,
        node: Node,
        machine: Box<dyn Machine>,
        clock: Box<dyn Clock>,
        jobs: PathBuf,
    ) -> Self {
        let slot = |offer: Offer| (offer.description.id.clone(), Slot::new(offer));
        Self { slots: offers.into_iter().map(slot).collect(), node, machine, clock, jobs }
    }

    /// Runs `assignment` to its signed result. Blocks; call it on a blocking thread.
    pub fn run(&self, assignment: &Assignment, caller: &Caller<'_>) -> Result<FinishedAttempt, RunError> {
        let device = &assignment.device;
        let slot = self.slots.get(device).ok_or_else(|| RunError::UnknownDevice(device.clone()))?;
        let _busy = match slot.busy.try_lock() {
            Ok(guard) => guard,
            // A panic in an earlier attempt was caught inside it; the lock guards no data.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(RunError::Busy(device.clone())),
        };
        // A canary that runs is waited for.
        let _turn = slot.ward.as_ref().map(Ward::turn);
        if let Some(ward) = &slot.ward
            && ward.before_attempt(self.cage(slot), self.machine.as_ref()) == State::Quarantined
        {
            return Err(RunError::Quarantined { device: device.clone(), cause: ward.cause() });
        }
        let description = slot.offered();
        let hardware = || slot.ward.as_ref().and_then(|ward| ward.on_fault(self.cage(slot)));
        let folder = JobFolder::make(self.jobs.join(assignment.fence.to_string()))?;
        let context = Context {
            assignment,
            origin: caller.origin,
            node: &self.node,
            device: &description,
            hardware: &hardware,
            backend: slot.offer.backend.as_ref(),
            blobs: caller.blobs,
            residents: &slot.residents,
            machine: self.machine.as_ref(),
            clock: self.clock.as_ref(),
            folder: folder.path(),
            progress: caller.progress,
            interrupt: caller.interrupt.clone(),
            deadline: self.deadline(assignment),
        };
        Ok(attempt(&context)?)
    }
}

impl Runner {
    /// Looks after the GPUs that nobody works on: reports, canaries, and workers that nobody asks. Blocks for less than a second each.
    pub fn tend(&self) {
        for slot in self.slots.values() {
            slot.residents.tidy(self.clock.now());
            if let Some(ward) = &slot.ward {
                ward.tick(self.cage(slot), self.machine.as_ref());
            }
        }
    }

    /// The devices as they are offered now, with their health.
    pub fn offered(&self) -> Vec<DeviceDescription> {
        self.slots.values().map(Slot::offered).collect()
    }

    fn cage<'a>(&'a self, slot: &'a Slot) -> Cage<'a> {
        Cage {
            backend: slot.offer.backend.as_ref(),
            device: &slot.offer.description,
            folder: &self.jobs,
            confinement: self.node.confinement,
        }
    }

    /// Until when the attempt may wait for the machine: past it the coordinator takes the lease back.
    fn deadline(&self, assignment: &Assignment) -> Picoseconds {
        let term = assignment.compile.0.saturating_add(assignment.run.0).saturating_add(LEASE_SPARE.0);
        Picoseconds(self.clock.now().0.saturating_add(term.saturating_mul(1_000_000_000)))
    }
}

/// Removed with everything in it when the attempt ends.
struct JobFolder(PathBuf);

impl JobFolder {
    fn make(path: PathBuf) -> Result<Self, RunError> {
        let failed = |source| RunError::Folder { path: path.clone(), source };
        if path.exists() {
            std::fs::remove_dir_all(&path).map_err(failed)?;
        }
        std::fs::create_dir_all(&path).map_err(failed)?;
        Ok(Self(path))
    }
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for JobFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "a job folder stays behind until the next start");
        }
    }
}
