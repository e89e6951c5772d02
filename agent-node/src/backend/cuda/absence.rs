//! Why there is no CUDA device, and what somebody can do about it.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// What keeps the driver from being used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trouble {
    /// `CUresult` in cuda.h; 0 where no call of the driver failed.
    pub code: u32,
    pub text: String,
}

impl Trouble {
    /// Something beside the driver's calls.
    pub(super) fn own(text: impl Into<String>) -> Self {
        Self { code: 0, text: text.into() }
    }
}

/// Told to people: the cause and the next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Absence {
    pub cause: String,
    pub next: String,
}

/// Codes of `CUresult` (cuda.h) that an installation, and not a program, brings about.
const NOT_INITIALIZED: u32 = 3;
const STUB_LIBRARY: u32 = 34;
const DEVICE_UNAVAILABLE: u32 = 46;
const NO_DEVICE: u32 = 100;
const INVALID_DEVICE: u32 = 101;
const SYSTEM_NOT_READY: u32 = 802;
const SYSTEM_DRIVER_MISMATCH: u32 = 803;
const COMPAT_NOT_SUPPORTED: u32 = 804;

/// The versions of the driver's two halves, as far as they can be had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Versions {
    pub kernel_module: Option<String>,
    pub library: Option<String>,
}

impl Versions {
    /// Those of this machine; `folders` hold the driver's library.
    pub(super) fn of_machine(folders: &[PathBuf]) -> Self {
        let told = fs::read_to_string("/proc/driver/nvidia/version").ok();
        let kernel_module = told.as_deref().and_then(module_version).map(str::to_owned);
        let real = folders.iter().find_map(|folder| fs::canonicalize(folder.join("libcuda.so.1")).ok());
        let library = real.as_deref().and_then(library_version).map(str::to_owned);
        Self { kernel_module, library }
    }
}

/// The version in `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue …`.
fn module_version(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    line.split_whitespace().find(|word| is_version(word))
}

/// The version in `libcuda.so.580.159.04`.
fn library_version(path: &Path) -> Option<&str> {
    let version = path.file_name()?.to_str()?.strip_prefix("libcuda.so.")?;
    is_version(version).then_some(version)
}

fn is_version(word: &str) -> bool {
    let numbers: Vec<&str> = word.split('.').collect();
    numbers.len() >= 2
        && numbers.iter().all(|number| number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty())
}

/// What to tell of `trouble`.
pub(super) fn explain(trouble: &Trouble, versions: &Versions) -> Absence {
    let Trouble { code, text } = trouble;
    let (more, next) = match *code {
        0 => (
            String::new(),
            "for GPUs install the NVIDIA driver (in a container, pass it in: `--gpus all`); without one the node works with its CPU device",
        ),
        NO_DEVICE | INVALID_DEVICE => (
            String::new(),
            "see whether `nvidia-smi -L` lists a GPU; in a container pass one in (`--gpus all`); look at CUDA_VISIBLE_DEVICES",
        ),
        SYSTEM_DRIVER_MISMATCH => (
            halves(versions),
            "the driver was upgraded while the old one is loaded: restart the machine, or unload and load the nvidia kernel modules",
        ),
        COMPAT_NOT_SUPPORTED => (
            halves(versions),
            "a compatibility library is in front of the driver's own and does not support this GPU: take it out of LD_LIBRARY_PATH, or upgrade the driver",
        ),
        SYSTEM_NOT_READY => (
            String::new(),
            "start the service that this machine's GPUs need (nvidia-fabricmanager), then the node again",
        ),
        DEVICE_UNAVAILABLE => (
            String::new(),
            "another process has the GPU for itself, or its compute mode forbids use: `nvidia-smi -q -d COMPUTE`",
        ),
        STUB_LIBRARY => (
            String::new(),
            "the toolkit's stub of libcuda is found before the driver's: take its `stubs` folder out of LD_LIBRARY_PATH",
        ),
        NOT_INITIALIZED => {
            (halves(versions), "see whether `nvidia-smi` works; if it does not, install the driver again")
        }
        _ => (halves(versions), "see whether `nvidia-smi` works, and what the kernel's log says of NVRM"),
    };
    Absence { cause: format!("{text}{more}"), next: next.to_owned() }
}

/// Both versions, where they are known.
fn halves(versions: &Versions) -> String {
    let Versions { kernel_module, library } = versions;
    let part =
        |what: &str, version: &Option<String>| version.as_ref().map(|version| format!("{what} {version}"));
    let parts: Vec<String> =
        [part("kernel module", kernel_module), part("libcuda", library)].into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_where_the_driver_writes_them() {
        let text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Nov  3 10:11:12 UTC 2026\nGCC version:  gcc 12.2.0\n";
        assert_eq!(module_version(text), Some("580.159.04"));
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n";
        assert_eq!(module_version(open), Some("570.86.15"));
        assert_eq!(module_version("something else 1.2\n"), None);
        assert_eq!(library_version(Path::new("/usr/lib/libcuda.so.580.159.04")), Some("580.159.04"));
        assert_eq!(library_version(Path::new("/usr/lib/libcuda.so.1")), None);
    }

    #[test]
    fn each_trouble_says_what_to_do() {
        let versions =
            Versions { kernel_module: Some("580.159.04".to_owned()), library: Some("590.12.01".to_owned()) };
        let told = |code, text: &str| explain(&Trouble { code, text: text.to_owned() }, &versions);
        let mismatch = told(SYSTEM_DRIVER_MISMATCH, "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)");
        assert!(
            mismatch.cause.contains("580.159.04") && mismatch.cause.contains("590.12.01"),
            "{mismatch:?}"
        );
        assert!(mismatch.next.contains("restart"), "{mismatch:?}");
        assert!(told(NO_DEVICE, "x").next.contains("nvidia-smi -L"));
        assert!(told(0, "no driver").next.contains("install the NVIDIA driver"));
        assert_eq!(told(NO_DEVICE, "x").cause, "x");
        assert!(!told(999, "x").next.is_empty());
    }
}
