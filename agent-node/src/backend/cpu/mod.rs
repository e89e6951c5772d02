//! The CPU device: CUDA C compiled by the host compiler with an embedded shim.
//!
//! ```text
//! source ─ rewrite ─ glue ─► compiler (sandbox) ─► shared object ─► worker process (sandbox)
//!                                 │                                   │ control page: doorbell, orders, faults
//!                            diagnostics                         supervisor: buffers, clock, limits, fences
//! ```
//!
//! A CPU is no GPU: its order of candidates says nothing about theirs, and a pass means that no fault was found.

mod artefacts;
mod compile;
mod control;
mod diagnostics;
mod failure;
mod fault;
mod glue;
#[doc(hidden)]
pub mod intake;
mod layout;
mod limits;
mod motion;
mod order;
mod pool;
mod rewrite;
mod runtime;
mod screen;
mod shared;
mod shim;
mod signals;
mod supervisor;
mod surroundings;
mod toolchain;
mod verdict;
mod watch;
mod worker;

pub use artefacts::ArtefactCache;
pub use toolchain::{Family, Sanitizer, Toolchain, ToolchainError, USUAL as USUAL_COMPILERS, host_levels};
pub use worker::{WorkerArguments, worker_main};

use super::screen::{ScreenOffer, ScreenRequest, Screening};
use super::{Artefact, Backend, CompileRequest, Failure, Worker, WorkerOptions};
use crate::probe::host_volatile;
use compile::Compiler;
use fleet_config::domain::{Architecture, DeviceDescription, DeviceId, Digest, Facts, Stage};
use std::collections::BTreeMap;
use std::fs;
use supervisor::CpuWorker;

/// The CPU device of a node.
#[derive(Debug)]
pub struct CpuBackend {
    compiler: Compiler,
    device: DeviceDescription,
    threads: u32,
}

impl CpuBackend {
    /// A backend that offers `device`, compiles with `toolchain`, keeps artefacts in `cache` and runs blocks on
    /// `threads` threads.
    pub fn new(toolchain: Toolchain, device: DeviceDescription, threads: u32, cache: ArtefactCache) -> Self {
        Self { compiler: Compiler::new(toolchain, cache), device, threads: threads.max(1) }
    }

    /// The compiler in use.
    pub fn toolchain(&self) -> &Toolchain {
        self.compiler.toolchain()
    }
}

/// Names that launch expressions may use on a CPU device of `threads` threads.
pub fn attributes(threads: u32) -> BTreeMap<String, i64> {
    limits::attributes(threads)
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn devices(&self) -> Vec<DeviceDescription> {
        vec![self.device.clone()]
    }

    fn compile(&self, request: &CompileRequest) -> Result<Artefact, Failure> {
        if !host_levels().contains(&request.architecture) {
            return Err(failure::architecture(&request.architecture));
        }
        self.compiler.compile(request)
    }

    fn open(
        &self,
        device: &DeviceId,
        artefact: &Artefact,
        launch: &WorkerOptions,
    ) -> Result<Box<dyn Worker>, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            failure::infrastructure(Stage::Prepare, "load the artefact", error)
        };
        if *device != self.device.id {
            return Err(failed(&format!("there is no device {device} here")));
        }
        let bytes = fs::read(&artefact.path).map_err(|error| failed(&error))?;
        if Digest::of(&bytes) != artefact.blob.blake3 {
            return Err(failed(&"the file has changed since it was compiled"));
        }
        Ok(Box::new(CpuWorker::open(artefact, self.threads, launch)?))
    }

    fn screens(&self) -> Vec<ScreenOffer> {
        screen::offers(self.compiler.toolchain())
    }

    fn screen(&self, _device: &DeviceId, request: &ScreenRequest<'_>) -> Result<Screening, Failure> {
        screen::run(&self.compiler, request)
    }

    fn volatile(&self, _device: &DeviceId) -> Facts {
        host_volatile()
    }
}

/// Whether an artefact for `architecture` can run here.
pub fn is_host(architecture: &Architecture) -> bool {
    host_levels().contains(architecture)
}
