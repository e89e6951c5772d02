//! `muster-node`: the daemon of one machine, and the processes that it starts from its own binary.

mod cli;

use agent_node::backend::cpu::{WorkerArguments, worker_main};
use agent_node::backend::cuda;
use agent_node::sandbox;
use clap::Parser;
use cli::{Arguments, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::parse().command {
        // These are the node's own children: they must not start logging, threads or anything else.
        Command::SandboxLaunch => sandbox::launcher_main(),
        Command::WorkerCpu { artefact, threads } => {
            worker_main(&WorkerArguments { artefact, threads }, sandbox::lock_worker)
        }
        Command::Run(arguments) => cli::exit(cli::run(&arguments)),
        Command::Doctor(arguments) => cli::exit(cli::doctor(&arguments)),
        Command::WorkerCuda => cuda::worker_main(),
        Command::ProbeCuda => cuda::probe_cuda_main(),
        Command::NvrtcCompile => cuda::nvrtc_compile_main(),
        Command::CheckTask(arguments) => cli::exit(cli::check_task(&arguments)),
        Command::TaskStrength(arguments) => cli::exit(cli::task_strength(&arguments)),
        Command::Devices(arguments) => cli::exit(cli::devices(&arguments)),
        Command::Bench(command) => cli::exit(cli::bench(&command)),
        Command::Compile(arguments) => cli::exit(cli::compile(&arguments)),
        Command::CheckCuda(arguments) => cli::check_cuda(&arguments),
    }
}
