//! What a worker does to itself before it loads a candidate.

use super::calls;
use super::request::Level;
use super::spawn::LEVEL_VARIABLE;

/// A worker that could not lock itself must not load the candidate.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("cannot build the system call filter: {0}")]
    Build(#[source] seccompiler::Error),
    #[error("cannot apply the system call filter to all threads: {0}")]
    Apply(#[source] seccompiler::Error),
}

/// Narrows this process, all of its threads, to the calls that running a kernel on the CPU needs: memory, futexes, open
/// descriptors, opening files (which Landlock bounds), signals to itself. No exec, no new process or thread, no
/// sockets, no tracing. Called after the threads were made and before the candidate is loaded; there is no way back.
///
/// A worker that was started under `--unsafe-no-sandbox` stays as it is. Its environment says so, which only the node
/// sets.
pub fn lock_worker() -> Result<(), SandboxError> {
    lock(calls::worker)
}

/// The same for a worker whose candidate is device code only: no exec, no new process, but threads, and the calls that a
/// GPU driver makes.
pub fn lock_cuda_worker() -> Result<(), SandboxError> {
    lock(calls::cuda_worker)
}

fn lock(filter: fn() -> Result<seccompiler::BpfProgram, seccompiler::Error>) -> Result<(), SandboxError> {
    if std::env::var_os(LEVEL_VARIABLE).is_some_and(|level| level == Level::None.as_str()) {
        return Ok(());
    }
    let program = filter().map_err(SandboxError::Build)?;
    seccompiler::apply_filter_all_threads(&program).map_err(SandboxError::Apply)
}
