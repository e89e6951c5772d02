//! Finding devices, in a child (`muster-node probe-cuda`): the driver starts threads and may crash; the node does neither.

use super::absence::{self, Absence, Trouble, Versions};
use super::driver::{self, Described};
use super::worker::panic_text;
use crate::sandbox::{self, Confinement, ExitHow, Profile, Request, ResourceLimits};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Name of the answer in the child's folder.
const ANSWER: &str = "devices.json";
/// Bytes of it: some hundred for each device.
const ANSWER_MAX: u64 = 1 << 20;
/// Initialising a driver with eight devices and no persistence takes some seconds each.
const LIMIT: Duration = Duration::from_secs(120);
const OUTPUT_MAX: usize = 64 << 10;

/// What the driver found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Found {
    /// 13000 for CUDA 13.0.
    pub cuda_version: i32,
    pub devices: Vec<Described>,
}

/// The hidden subcommand. Its working folder receives the answer.
pub fn probe_cuda_main() -> ExitCode {
    let found = std::panic::catch_unwind(|| {
        driver::describe_all()
            .map(|(cuda_version, devices)| Found { cuda_version, devices })
            .map_err(|error| Trouble { code: error.code, text: error.to_string() })
    });
    let found = found.unwrap_or_else(|panic| Err(Trouble::own(panic_text(panic.as_ref()))));
    let written =
        serde_json::to_vec(&found).map_err(std::io::Error::from).and_then(|text| fs::write(ANSWER, text));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probe-cuda: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Asks the driver through a child; the error says why there is no device.
pub(super) fn find(folder: &Path, confinement: Confinement) -> Result<Found, Absence> {
    let folder = folder.join(format!("probe-{}", std::process::id()));
    let made = fs::create_dir_all(&folder);
    let made = made.map_err(|error| Trouble::own(format!("{}: {error}", folder.display())));
    let found = made.and_then(|()| ask(&folder, confinement));
    let _ = fs::remove_dir_all(&folder);
    found.map_err(|trouble| absence::explain(&trouble, &Versions::of_machine(&library_folders())))
}

fn ask(folder: &Path, confinement: Confinement) -> Result<Found, Trouble> {
    let request = Request {
        program: sandbox::own_binary(),
        arguments: vec!["probe-cuda".into()],
        environment: environment(None),
        folder: folder.to_owned(),
        readable: readable(),
        executable: Vec::new(),
        devices: device_nodes(),
        passed: Vec::new(),
        profile: Profile::CudaWorker,
        limits: limits(OUTPUT_MAX),
    };
    let failed = |what: &str, error: &dyn std::fmt::Display| Trouble::own(format!("{what}: {error}"));
    let mut child =
        sandbox::spawn(request, confinement).map_err(|error| failed("cannot ask the driver", &error))?;
    let exit = child.wait(LIMIT).map_err(|error| failed("cannot wait for the driver's probe", &error))?;
    if exit.how != ExitHow::Code(0) {
        return Err(Trouble::own(format!(
            "the driver's probe ended by {:?}: {}",
            exit.how,
            exit.output.text()
        )));
    }
    let text = super::compile::read_bounded(&folder.join(ANSWER), ANSWER_MAX)
        .map_err(|error| failed("the probe left no answer", &error))?;
    let found = serde_json::from_slice::<Result<Found, Trouble>>(&text)
        .map_err(|error| failed("the probe's answer does not read", &error))?;
    found.map_err(|Trouble { code, text }| Trouble {
        code,
        text: explained(text, &exit.output.text(), confinement),
    })
}

/// Folders in which the driver's library may lie, those of the loader's path first.
fn library_folders() -> Vec<PathBuf> {
    const USUAL: [&str; 4] =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib"];
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let named = std::env::split_paths(&named).filter(|path| path.is_absolute());
    named.chain(USUAL.map(PathBuf::from)).collect()
}

/// The driver's reason with what it printed. Where there is a device node, the sandbox may be the cause.
fn explained(reason: String, output: &str, confinement: Confinement) -> String {
    let output = output.trim();
    let printed = if output.is_empty() { String::new() } else { format!("; it printed: {output}") };
    let suspect = match confinement {
        Confinement::Required | Confinement::Full | Confinement::Kernel
            if Path::new("/dev/nvidiactl").exists() =>
        {
            "; compare with --unsafe-no-sandbox to learn whether the sandbox is the cause"
        }
        Confinement::Required | Confinement::Full | Confinement::Kernel | Confinement::UnsafeNone => "",
    };
    format!("{reason}{printed}{suspect}")
}

/// What the driver reads beside its libraries. It runs without what does not exist.
pub(super) fn readable() -> Vec<PathBuf> {
    const PATHS: [&str; 17] = [
        "/proc/driver/nvidia",
        "/proc/driver/nvidia-uvm",
        "/proc/devices",
        "/proc/modules",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/proc/version",
        "/proc/sys/vm",
        "/proc/sys/kernel",
        "/sys",
        "/usr/share/nvidia",
        "/etc/nvidia",
        "/usr/local/cuda/compat",
        "/usr/local/nvidia",
        "/run/nvidia",
        "/dev/urandom",
        "/dev/zero",
    ];
    let mut paths: Vec<PathBuf> = PATHS.map(PathBuf::from).to_vec();
    // Containers and clusters place the driver's libraries where the loader's path says.
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    paths.extend(std::env::split_paths(&named).filter(|path| path.is_absolute()));
    paths
}

/// The device nodes of the driver. Which of them are opened is decided by `CUDA_VISIBLE_DEVICES`, which is set to the
/// leased device; a node that the kernel's device control denies stays denied.
pub(super) fn device_nodes() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/dev") else { return Vec::new() };
    let is_node = |name: &str| {
        let digits = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        matches!(
            name,
            "nvidiactl"
                | "nvidia-uvm"
                | "nvidia-uvm-tools"
                | "nvidia-caps"
                | "nvidia-caps-imex-channels"
                | "dxg"
        ) || name.strip_prefix("nvidia").is_some_and(digits)
    };
    let named = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(is_node);
    let mut nodes: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(named).collect();
    nodes.sort();
    nodes
}

/// Limits of children that use the driver. It reserves terabytes of address space, so that this is not limited.
pub(super) fn limits(output_max: usize) -> ResourceLimits {
    ResourceLimits {
        // The supervisor's own clock ends a launch; this only stops what outlives the supervisor.
        cpu_seconds: 3600,
        memory: None,
        // The driver's files in memory count too, and being over the limit ends the process.
        file_size: 4 << 30,
        open_files: 1024,
        processes: 256,
        output_max,
    }
}

/// The part of the environment that the driver needs, given on from the node.
pub(super) fn environment(device: Option<&str>) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let mut environment = vec![("CUDA_CACHE_DISABLE".into(), "1".into())];
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        environment.push(("LD_LIBRARY_PATH".into(), path));
    }
    if let Some(device) = device {
        environment.push(("CUDA_VISIBLE_DEVICES".into(), device.into()));
    } else if let Some(visible) = std::env::var_os("CUDA_VISIBLE_DEVICES") {
        environment.push(("CUDA_VISIBLE_DEVICES".into(), visible));
    }
    environment
}
