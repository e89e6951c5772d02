//! `muster-node`: the daemon of one machine, and the processes that it starts from its own binary.

use clap::{Parser, Subcommand};
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
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::SandboxLaunch => agent_node::sandbox::launcher_main(),
    }
}
