//! Screens of the CPU device: the same kernel run so that faults show which a right answer can hide.
//!
//! ```text
//! fences · orders · uninitialised-shared · divergent-barriers · shuffle-masks · uninitialised-memory
//!      the ordinary artefact in the ordinary worker, on one thread, under another arrangement (plain.rs)
//! address · races-in-block · races-between-blocks
//!      a program of its own (build.rs): candidate built with a sanitizer + runtime with hooks + a small main,
//!      run once in the sandbox on a plan in memory (plan.rs, run.rs); its report is read (report*.rs)
//! ```
//! The candidate lives in the process that reports, so a report can lower a verdict and nothing here can raise one.

mod build;
pub(super) mod intake;
mod plain;
mod plan;
mod report;
mod report_address;
mod report_thread;
mod run;

use super::compile::Compiler;
use super::failure;
use super::toolchain::{Sanitizer, Toolchain};
use crate::backend::screen::{Missing, ScreenOffer, ScreenRequest, Screening};
use crate::backend::{BufferUse, Evaluation, Failure, ResolvedStep};
use fleet_config::domain::{Blame, FaultKind, Role, Screen, Stage, Status};

/// In which order the blocks of a grid and the threads of a block begin; the numbers are the runtime's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Forwards = 0,
    Backwards = 1,
    /// Drawn from the seed.
    Drawn = 2,
}

/// How launches run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrangement {
    pub order: Order,
    pub seed: u32,
    /// What shared memory holds before it is written.
    pub shared_poison: u8,
    /// What a warp operation answers for a lane that takes no part.
    pub lane_poison: u8,
}

impl Default for Arrangement {
    /// What is validated and timed.
    fn default() -> Self {
        Self { order: Order::Forwards, seed: 0, shared_poison: 0xff, lane_poison: 0xff }
    }
}

/// Threads of all kernels of a case. A screen that runs a case of this size in an ordinary worker takes seconds.
const THREADS_MAX: u64 = 1 << 22;
/// The same with a sanitizer, which costs a hundred times as much.
const SANITIZED_THREADS_MAX: u64 = 1 << 15;

/// The screens of this device, with what keeps some from being run.
pub(super) fn offers(toolchain: &Toolchain) -> Vec<ScreenOffer> {
    let offer = |screen| ScreenOffer { screen, missing: missing(toolchain, screen) };
    Screen::ALL.map(offer).into()
}

/// Runs one.
pub(super) fn run(compiler: &Compiler, request: &ScreenRequest<'_>) -> Result<Screening, Failure> {
    if let Some(Missing { cause, next }) = missing(compiler.toolchain(), request.screen) {
        return Ok(Screening::not_run(cause, next));
    }
    let threads = threads(request.evaluation);
    let bounded = |limit: u64, run: &dyn Fn() -> Result<Screening, Failure>| {
        if threads <= limit {
            return run();
        }
        let cause = format!("the case has {threads} threads, and this screen takes {limit}");
        Ok(Screening::not_run(cause, "give the task a smaller correctness case"))
    };
    match request.screen {
        Screen::Fences
        | Screen::Orders
        | Screen::UninitialisedShared
        | Screen::DivergentBarriers
        | Screen::ShuffleMasks
        | Screen::UninitialisedMemory => bounded(THREADS_MAX, &|| plain::run(request)),
        Screen::Address => sanitized(compiler, request, build::Kind::Address, threads),
        Screen::RacesInBlock => sanitized(compiler, request, build::Kind::ThreadsOfBlock, threads),
        Screen::RacesBetweenBlocks => sanitized(compiler, request, build::Kind::Blocks, threads),
    }
}

fn missing(toolchain: &Toolchain, screen: Screen) -> Option<Missing> {
    let (sanitizer, library) = match screen {
        Screen::Fences
        | Screen::Orders
        | Screen::UninitialisedShared
        | Screen::DivergentBarriers
        | Screen::ShuffleMasks
        | Screen::UninitialisedMemory => return None,
        Screen::Address => (Sanitizer::Address, "libasan and libubsan"),
        Screen::RacesInBlock | Screen::RacesBetweenBlocks => (Sanitizer::Thread, "libtsan"),
    };
    if toolchain.sanitizers.contains(&sanitizer) {
        return None;
    }
    let next = format!(
        "install {library} of this compiler (Debian: part of libgcc-*-dev; Fedora: packages of these names; clang: compiler-rt)"
    );
    Some(Missing { cause: format!("{library} is missing for {}", toolchain.version), next })
}

/// Builds the program with its sanitizer, runs it and reads its report.
fn sanitized(
    compiler: &Compiler,
    request: &ScreenRequest<'_>,
    kind: build::Kind,
    threads: u64,
) -> Result<Screening, Failure> {
    let kernels = request.evaluation.steps.iter().filter(|step| matches!(step, ResolvedStep::Kernel { .. }));
    let whole = kernels.count() > 1;
    // Of a single kernel some blocks do; what a later kernel reads must have been written in full.
    let blocks = if whole { u64::MAX } else { kind.blocks_max(request.evaluation) };
    if whole && threads > SANITIZED_THREADS_MAX || blocks_of(request.evaluation).min(blocks) > kind.most() {
        let cause = format!("the case has {threads} threads in several kernels or too many blocks");
        return Ok(Screening::not_run(cause, "give the task a smaller correctness case"));
    }
    match build::build(compiler, request.compile, kind)? {
        build::Built::Program(program) => run::run(request, kind, &program, blocks),
        build::Built::Refused(why) => {
            let next = "look at the log of the ordinary compilation; report this if it has no error";
            Ok(Screening::not_run(format!("the build with a sanitizer failed: {why}"), next))
        }
    }
}

/// Threads of all kernels together.
fn threads(evaluation: &Evaluation) -> u64 {
    let product = |sizes: &[u64; 3]| sizes.iter().fold(1_u64, |all, size| all.saturating_mul(*size));
    evaluation.steps.iter().fold(0, |all, step| match step {
        ResolvedStep::Kernel { grid, block, .. } => {
            all.saturating_add(product(grid).saturating_mul(product(block)))
        }
        ResolvedStep::Memset { .. } => all,
    })
}

/// Blocks of the largest grid.
fn blocks_of(evaluation: &Evaluation) -> u64 {
    let blocks = |step: &ResolvedStep| match step {
        ResolvedStep::Kernel { grid, .. } => grid.iter().fold(1_u64, |all, size| all.saturating_mul(*size)),
        ResolvedStep::Memset { .. } => 0,
    };
    evaluation.steps.iter().map(blocks).max().unwrap_or(0)
}

/// Whether a buffer holds what a caller looks at.
fn is_output(use_: BufferUse) -> bool {
    match use_ {
        BufferUse::Parameter(Role::Out | Role::Inout) => true,
        BufferUse::Parameter(Role::In) | BufferUse::Scratch => false,
    }
}

/// Whether nothing of a buffer is given: the candidate is the first to write to it.
fn is_unwritten(use_: BufferUse) -> bool {
    match use_ {
        BufferUse::Parameter(Role::Out) | BufferUse::Scratch => true,
        BufferUse::Parameter(Role::In | Role::Inout) => false,
    }
}

/// A fault that a screen found by itself.
fn found(screen: Screen, fault: FaultKind, message: String, hint: &str, case: &str) -> Failure {
    let code = format!("screen/{}", screen.name());
    let mut outcome =
        failure::outcome(Status::RuntimeError, Stage::Validate, Blame::Candidate, &code, message, hint);
    if let Some(cause) = &mut outcome.cause {
        cause.fault = Some(fault);
        cause.case = Some(case.to_owned());
    }
    Failure::new(outcome)
}
