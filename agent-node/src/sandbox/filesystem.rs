//! The Landlock ruleset of a child: which files it may read, write, execute and control.

use super::handover::Order;
use super::request::{Level, Profile};
use super::toolchain::{LOADERS, RUNTIME};
use super::view::may_use_tmp;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

/// The newest ABI whose rights are asked for; an older kernel gives what it has (`doctor` says what is missing), but a
/// kernel without any Landlock is refused.
const NEWEST: ABI = ABI::V7;

#[derive(Debug, thiserror::Error)]
pub(super) enum FilesystemError {
    #[error("landlock refused the ruleset: {0}")]
    Ruleset(#[from] RulesetError),
    #[error("{0}")]
    Path(#[from] PathFdError),
    #[error("this kernel enforces no Landlock ruleset")]
    NotEnforced,
}

/// Rights in the child's own folder. No links, pipes, sockets or device nodes: the node later opens files there by name.
fn writable() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
}

/// Host code of a candidate writes nowhere: files are counted by no limit, only their sizes are.
fn own_folder(profile: Profile) -> BitFlags<AccessFs> {
    match profile {
        Profile::Compiler | Profile::Harness | Profile::Worker | Profile::CudaWorker => writable(),
        Profile::CudaScreen => writable() | AccessFs::MakeFifo,
        Profile::CpuWorker | Profile::Screen => AccessFs::ReadFile | AccessFs::ReadDir,
    }
}

/// Restricts this process, for good. Also denies TCP (ABI 4), abstract Unix sockets and signals to outside (ABI 6).
pub(super) fn restrict(order: &Order) -> Result<(), FilesystemError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let execute = read | AccessFs::Execute;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rule(PathBeneath::new(PathFd::new(&order.folder)?, own_folder(order.profile)))?
        .add_rule(PathBeneath::new(PathFd::new("/dev/null")?, AccessFs::ReadFile | AccessFs::WriteFile))?
        .add_rules(path_beneath_rules(&order.readable, read))?
        .add_rules(path_beneath_rules(&order.executable, execute))?
        .add_rules(path_beneath_rules(&order.devices, device))?;
    if order.level == Level::Full && may_use_tmp(order.profile) {
        ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new("/tmp")?, writable()))?;
    }
    ruleset = match order.profile {
        Profile::Compiler | Profile::Harness => ruleset,
        Profile::CpuWorker
        | Profile::Worker
        | Profile::CudaWorker
        | Profile::CudaScreen
        | Profile::Screen => ruleset
            .add_rule(PathBeneath::new(PathFd::new(&order.program)?, AccessFs::ReadFile | AccessFs::Execute))?
            .add_rules(path_beneath_rules(LOADERS, execute))?
            .add_rules(path_beneath_rules(RUNTIME, read))?,
    };
    let names_threads = read | AccessFs::WriteFile | AccessFs::Truncate;
    if order.profile == Profile::CudaScreen {
        // The same for a process that the tool starts: nobody knows its number yet. Root's powers are given up ([`user`]),
        // so that what this opens is what the user may change of processes of his own.
        ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new("/proc")?, names_threads))?;
    }
    if order.profile == Profile::CudaWorker {
        // CUDA's driver names its threads by writing their `comm`, and calls itself broken when it may not (seen as
        // CUDA_ERROR_OPERATING_SYSTEM from cuInit). The folder is this process's own, before and after exec.
        let own_threads = PathBeneath::new(PathFd::new("/proc/self/task")?, names_threads);
        ruleset = ruleset.add_rule(own_threads)?;
    }
    match ruleset.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(FilesystemError::NotEnforced),
    }
}
