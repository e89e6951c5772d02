//! Workers that are kept from one question to the next: the candidate's until its validation is over, those of reference
//! and baseline also from one attempt to the next.
//!
//! Starting a process on a GPU, making its context and ending it again takes far longer than most launches, and each party
//! is asked in every stage. Each question begins with a newly loaded module and new buffers. Between two questions the
//! worker lies idle: what device code does is over when its launch is, no process reaches another's device memory, and what
//! the reference answered was copied out. A task's own worker that fails is replaced before anybody is charged. A CPU's
//! workers start at once, and what a candidate leaves behind in its process is code there: they end as before.

use super::bench::Run;
use super::fault::Party;
use crate::backend::{Interrupt, Worker};
use fleet_config::domain::{DeviceDescription, DeviceKind, Digest, Milliseconds, Picoseconds};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Buffers of more than this are given back to the device at once, whatever starting anew costs.
const KEPT_BYTES: u64 = 256 << 20;

/// A context takes up to half a gigabyte: on a device with less than this the memory is wanted for buffers.
const ROOMY: u64 = 16 << 30;

/// Nobody is kept for a task that nobody asks about.
const IDLE: Picoseconds = Picoseconds(30_000_000_000_000);

/// Whether anybody is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    Nobody,
    Everybody,
}

/// What a worker was started with; it answers for nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lodging {
    artefact: Digest,
    launch_limit: Milliseconds,
    memory: u64,
}

impl Lodging {
    fn of(run: &Run<'_>) -> Self {
        Self { artefact: run.artefact.blob.blake3, launch_limit: run.launch_limit, memory: run.memory }
    }
}

struct Resident {
    lodging: Lodging,
    worker: Box<dyn Worker>,
    since: Picoseconds,
}

/// The kept workers of one device. They end with it, and when nobody has asked for a while.
pub struct Residents {
    keeping: Keeping,
    kept: Mutex<BTreeMap<Party, Resident>>,
}

impl Residents {
    /// Those of `device`.
    pub fn on(device: &DeviceDescription) -> Self {
        let keeping = match device.kind {
            DeviceKind::Gpu if device.memory >= ROOMY => Keeping::Everybody,
            DeviceKind::Gpu | DeviceKind::Cpu | DeviceKind::Compile => Keeping::Nobody,
        };
        Self { keeping, kept: Mutex::default() }
    }

    /// The worker that was kept for what `run` is about, if there is one, as if it had been opened now. Its waits end when
    /// `interrupt` says so.
    pub(super) fn take(&self, run: &Run<'_>, interrupt: &Interrupt) -> Option<Box<dyn Worker>> {
        let resident = self.kept().remove(&run.party)?;
        let Resident { lodging, mut worker, since: _ } = resident;
        if lodging == Lodging::of(run) {
            worker.attend(interrupt);
            if worker.renew().is_ok() {
                return Some(worker);
            }
        }
        worker.finish();
        None
    }

    /// Keeps a worker that has answered, or ends it.
    pub(super) fn put(&self, run: &Run<'_>, worker: Box<dyn Worker>, now: Picoseconds) {
        let bytes = run.evaluation.buffers.iter().fold(0_u64, |sum, buffer| sum.saturating_add(buffer.bytes));
        let left = match self.keeping {
            Keeping::Everybody if bytes <= KEPT_BYTES => {
                let resident = Resident { lodging: Lodging::of(run), worker, since: now };
                self.kept().insert(run.party, resident).map(|former| former.worker)
            }
            Keeping::Everybody | Keeping::Nobody => Some(worker),
        };
        if let Some(worker) = left {
            worker.finish();
        }
    }

    /// Ends the candidate's worker: before anything is timed, and before another candidate comes.
    pub(super) fn dismiss(&self) {
        let candidate = self.kept().remove(&Party::Candidate);
        if let Some(resident) = candidate {
            resident.worker.finish();
        }
    }

    /// Ends those that nobody has asked for a while.
    pub(super) fn tidy(&self, now: Picoseconds) {
        let idle = |resident: &Resident| now.0.saturating_sub(resident.since.0) >= IDLE.0;
        let gone: Vec<Resident> = {
            let mut kept = self.kept();
            let parties: Vec<Party> =
                kept.iter().filter(|(_, resident)| idle(resident)).map(|(party, _)| *party).collect();
            parties.iter().filter_map(|party| kept.remove(party)).collect()
        };
        for resident in gone {
            resident.worker.finish();
        }
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<Party, Resident>> {
        // Every change is complete before anything can panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dismisses the candidate's worker when dropped, however its attempt ends.
pub(super) struct Visit<'a>(pub &'a Residents);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.dismiss();
    }
}
