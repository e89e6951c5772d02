//! What this machine can do with CUDA, and the conformance suite on each of its devices.

use super::CudaBackend;
use crate::backend::Backend as _;
use crate::backend::conformance::{AgainstItself, Bed, Finding, Verdict, against_itself, check};
use crate::backend::pair::{Cache, Setting};
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
    let backend = CudaBackend::discover(&folder.join("cache"), confinement);
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
        devices,
    };
    for device in &found.devices {
        let folder = folder.join(device.id.to_string());
        std::fs::create_dir_all(&folder)?;
        let bed = Bed { backend: &backend, device, folder: &folder, confinement };
        let start = monotonic();
        let _claimed = match backend.claim(&device.id, &|| monotonic().saturating_sub(start) > CLAIM_MAX) {
            Ok(claimed) => claimed,
            Err(failure) => {
                let text = failure.outcome.cause.map(|cause| cause.message).unwrap_or_default();
                let finding = Finding { check: "the device is free", verdict: Verdict::Failed(text) };
                found.findings.push((device.id.clone(), vec![finding]));
                continue;
            }
        };
        found.findings.push((device.id.clone(), check(&bed)));
        for elements in ELEMENTS {
            for setting in
                [Setting::Apart, Setting::Together(Cache::Flushed), Setting::Together(Cache::AsLeft)]
            {
                found.pairs.push((device.id.clone(), against_itself(&bed, setting, elements)));
            }
        }
    }
    Ok(found)
}
