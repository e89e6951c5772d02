//! What this machine can do with CUDA, and the conformance suite on each of its devices.

use super::{CudaBackend, STANDBY};
use crate::backend::conformance::{AgainstItself, Bed, Finding, Verdict, against_itself, check};
use crate::backend::pair::{Cache, Setting};
use crate::backend::{Backend as _, Duty};
use crate::clock::monotonic;
use crate::sandbox::Confinement;
use fleet_config::domain::{DeviceDescription, DeviceId, Facts};
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long another node may keep a device from being checked.
const CLAIM_MAX: Duration = Duration::from_secs(60);
/// Sizes of the sum that is timed against itself: launch-bound, within the L2, beyond it.
const ELEMENTS: [u32; 3] = [1003, 1 << 20, 5 << 20];

/// The kernel that is timed with and without company: long enough to be steady, short enough to show a neighbour.
const COMPANY_ELEMENTS: u32 = 1 << 20;
/// How often each kind of company is tried.
const ROUNDS: usize = 2;
/// Until stand-bys are there.
const FILL_MAX: Duration = Duration::from_secs(20);

/// What was found.
#[derive(Debug, Clone)]
pub struct SelfCheck {
    /// Why there is no device, where there is none.
    pub absence: Option<String>,
    /// Path of the compiler, or why there is none.
    pub compiler: Result<String, String>,
    pub devices: Vec<DeviceDescription>,
    /// What each device is doing.
    pub volatile: Vec<(DeviceId, Facts)>,
    pub findings: Vec<(DeviceId, Vec<Finding>)>,
    /// One kernel against itself in every setting, or why not.
    pub pairs: Vec<(DeviceId, Result<AgainstItself, String>)>,
    /// The same with and without what a node does beside a timing.
    pub company: Vec<(DeviceId, Beside, Result<AgainstItself, String>)>,
    /// What opening, timing and ending such a pair took all together, in microseconds.
    pub took_us: Vec<(DeviceId, Beside, u64)>,
}

/// What stands or runs beside a timing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside {
    /// Workers with a context that stood by.
    pub contexts: usize,
    /// Whether sensors were sampled meanwhile.
    pub is_sampled: bool,
}

impl SelfCheck {
    /// Whether there is a device and every check of every device passed, or said plainly what is not supported.
    pub fn passed(&self) -> bool {
        let failed = |finding: &Finding| matches!(finding.verdict, Verdict::Failed(_));
        !self.findings.is_empty() && !self.findings.iter().flat_map(|(_, findings)| findings).any(failed)
    }
}

/// Looks for devices and runs the suite on each. `folder` is an absolute path that may be written to.
pub fn self_check(folder: &Path, confinement: Confinement) -> io::Result<SelfCheck> {
    let backend = CudaBackend::discover(&folder.join("cache"), confinement, STANDBY);
    let devices = backend.devices();
    let mut found = SelfCheck {
        absence: backend.absence().map(str::to_owned),
        compiler: match backend.compiler() {
            Ok(path) => Ok(path.display().to_string()),
            Err(error) => Err(error.to_string()),
        },
        volatile: devices.iter().map(|device| (device.id.clone(), backend.volatile(&device.id))).collect(),
        findings: Vec::new(),
        pairs: Vec::new(),
        company: Vec::new(),
        took_us: Vec::new(),
        devices,
    };
    for device in &found.devices {
        let folder = folder.join(device.id.to_string());
        std::fs::create_dir_all(&folder)?;
        let bed = Bed { backend: &backend, device, folder: &folder, confinement };
        let claim = |duty| {
            let start = monotonic();
            backend.claim(&device.id, duty, &|| monotonic().saturating_sub(start) > CLAIM_MAX)
        };
        let claimed = match claim(Duty::Validating) {
            Ok(claimed) => claimed,
            Err(failure) => {
                let text = failure.outcome.cause.map(|cause| cause.message).unwrap_or_default();
                let finding = Finding { check: "the device is free", verdict: Verdict::Failed(text) };
                found.findings.push((device.id.clone(), vec![finding]));
                continue;
            }
        };
        found.findings.push((device.id.clone(), check(&bed)));
        drop(claimed);
        let Ok(_claimed) = claim(Duty::Timing) else { continue };
        for elements in ELEMENTS {
            for setting in
                [Setting::Apart, Setting::Together(Cache::Flushed), Setting::Together(Cache::AsLeft)]
            {
                found.pairs.push((device.id.clone(), against_itself(&bed, setting, elements)));
            }
        }
    }
    drop(backend);
    in_company(folder, confinement, &mut found)?;
    Ok(found)
}

/// One kernel against itself with and without stand-bys and sampling, in turns: a device that warms up between the first
/// and the last must not look like a difference.
fn in_company(folder: &Path, confinement: Confinement, found: &mut SelfCheck) -> io::Result<()> {
    for _ in 0..ROUNDS {
        for standby in [0, STANDBY] {
            let backend = CudaBackend::discover(&folder.join("cache"), confinement, standby);
            for device in &found.devices {
                let folder = folder.join(device.id.to_string());
                std::fs::create_dir_all(&folder)?;
                let bed = Bed { backend: &backend, device, folder: &folder, confinement };
                let contexts = backend.stand_by(&device.id, FILL_MAX);
                let start = monotonic();
                let give_up = || monotonic().saturating_sub(start) > CLAIM_MAX;
                let Ok(_claimed) = backend.claim(&device.id, Duty::Timing, &give_up) else { continue };
                for is_sampled in [false, true] {
                    let beside = Beside { contexts, is_sampled };
                    let watch = if is_sampled { backend.watch(&device.id) } else { None };
                    let from = monotonic();
                    let pair = against_itself(&bed, Setting::Together(Cache::Flushed), COMPANY_ELEMENTS);
                    let took = monotonic().saturating_sub(from);
                    drop(watch);
                    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                    found.took_us.push((device.id.clone(), beside, micros));
                    found.company.push((device.id.clone(), beside, pair));
                }
            }
        }
    }
    Ok(())
}
