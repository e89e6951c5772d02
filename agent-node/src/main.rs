//! `muster-node`: the daemon of one machine, and the processes that it starts from its own binary.

use agent_node::backend::cpu::{WorkerArguments, worker_main};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs candidates for a Muster coordinator.
#[derive(Debug, Parser)]
#[command(name = "muster-node", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Applies the sandbox to itself and becomes the program that the node named; started by the node alone.
    #[command(hide = true)]
    SandboxLaunch,
    /// Holds one candidate for the CPU device; started by the node alone.
    #[command(hide = true)]
    WorkerCpu { artefact: PathBuf, threads: u32 },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::SandboxLaunch => agent_node::sandbox::launcher_main(),
        Command::WorkerCpu { artefact, threads } => {
            worker_main(&WorkerArguments { artefact, threads }, agent_node::sandbox::lock_worker)
        }
    }
}
