//! What the node asks for when it starts a child.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

pub use fleet_config::domain::SandboxLevel as Level;

/// How closely children are to be confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// The best level that this machine gives, `kernel` at least, or no child at all.
    Required,
    /// Level `full`, or no child at all. What drives a GPU runs at `kernel` nevertheless.
    Full,
    /// Level `kernel`, or no child at all.
    Kernel,
    /// Level `none`: only from `--unsafe-no-sandbox`. Limits, session, descriptors and environment are still set.
    UnsafeNone,
}

/// What kind of child it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// A compiler on outside source: executes the toolchain only, no sockets, writes the job's folder only.
    Compiler,
    /// Our own binary that will load host code of a candidate; it calls [`super::lock_worker`] first. Writes nowhere, and
    /// its `memory` limit is on private memory that can be written.
    CpuWorker,
    /// Our own binary on outside source that is no host code, as for NVRTC; writes the job's folder.
    Worker,
    /// Our own binary that drives a GPU for device code of a candidate; it calls [`super::lock_cuda_worker`].
    /// Opens device nodes; threads stay allowed.
    CudaWorker,
    /// NVIDIA's compute-sanitizer around our own GPU worker: starts that worker and speaks to it over pipes and local
    /// sockets. Never root: it may write to `/proc`, where the driver names threads of a process that does not exist yet
    /// when the rules are made.
    CudaScreen,
    /// A program made from a candidate, which loads nothing and is run once: its own file is all that it executes, and
    /// the calls that it may make are listed from its start. Its addresses are not drawn: sanitizers need theirs.
    Screen,
    /// A trusted helper that no candidate steers, such as asking a compiler for its version.
    Harness,
}

/// Limits of one child. Each is lowered to the node's own hard limit where that is smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceLimits {
    /// CPU seconds of each process: `SIGXCPU` then, `SIGKILL` one second later.
    pub cpu_seconds: u64,
    /// Address space of each process in bytes; of a [`Profile::CpuWorker`] its private writable memory. `None` for CUDA
    /// and the sanitizers, which reserve terabytes.
    pub memory: Option<u64>,
    /// Size of each written file in bytes; never taken smaller than `output_max`, since output is a file too.
    pub file_size: u64,
    /// Open descriptors of each process.
    pub open_files: u64,
    /// Processes and threads beyond those that the user already has. The kernel does not apply it to root.
    pub processes: u64,
    /// Bytes of output kept; what a child writes beyond fails in the child and is lost.
    pub output_max: usize,
}

/// One child to start.
#[derive(Debug)]
pub struct Request {
    /// Absolute path; [`super::own_binary`] for a worker.
    pub program: PathBuf,
    /// Arguments after the program's name.
    pub arguments: Vec<OsString>,
    /// The whole environment. A compiler or harness also gets `PATH`, `TMPDIR` and `LC_ALL=C` where they are not given;
    /// a worker gets `MUSTER_SANDBOX_LEVEL`.
    pub environment: Vec<(OsString, OsString)>,
    /// Working folder, and the only place to write.
    pub folder: PathBuf,
    /// Files and folders to read besides `folder`; those that do not exist are left out.
    pub readable: Vec<PathBuf>,
    /// Files and folders to read and execute; those that do not exist are left out.
    pub executable: Vec<PathBuf>,
    /// Device nodes to read, write and control.
    pub devices: Vec<PathBuf>,
    /// Descriptors that the child finds under the given numbers, 3 to 99.
    pub passed: Vec<(OwnedFd, i32)>,
    /// What kind of child it is.
    pub profile: Profile,
    /// Its limits.
    pub limits: ResourceLimits,
}
