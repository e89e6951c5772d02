//! The command line of `muster-node`: arguments, and how an error becomes an exit code.

mod bench;
mod check_task;
mod compile;
mod cuda;
mod devices;
mod doctor;
mod run;
mod settings;
mod task_strength;

pub(crate) use bench::bench;
pub(crate) use check_task::check_task;
pub(crate) use compile::compile;
pub(crate) use cuda::check_cuda;
pub(crate) use devices::devices;
pub(crate) use doctor::doctor;
pub(crate) use run::run;
pub(crate) use task_strength::task_strength;

use clap::{Args, Parser, Subcommand};
use fleet_config::config::SandboxWish;
use fleet_config::domain::Architecture;
use fleet_config::refusal::Refusal;
use std::path::PathBuf;
use std::process::ExitCode;

/// The node failed; the message says how.
const FAILED: u8 = 1;
/// Something that the operator gave was refused. (2 is clap's own, for wrong usage.)
const REFUSED: u8 = 3;
/// The task does not hold together.
const TASK_AT_FAULT: u8 = 4;
/// The machine lacks something.
const UNFIT: u8 = 5;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 the node failed, 2 wrong usage, 3 refused (state folder, sandbox, \
                          compiler, invite, settings), 4 the task does not hold together (check-task, task-strength), \
                          5 the machine lacks something (doctor).";

/// Runs candidates for a Muster coordinator: compiles, checks and times them, confined, and signs what it found.
#[derive(Debug, Parser)]
#[command(name = "muster-node", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Join a coordinator and work for it until stopped.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Compile and run a task's reference and baseline here, and say whether a fake would pass.
    #[command(after_help = CHECK_EXAMPLES)]
    CheckTask(CheckTaskArguments),
    /// Put small faults into a task's reference and say which its cases let pass.
    #[command(after_help = STRENGTH_EXAMPLES)]
    TaskStrength(TaskStrengthArguments),
    /// Show the devices that this machine would offer.
    #[command(after_help = DEVICES_EXAMPLES)]
    Devices(DevicesArguments),
    /// Say what this machine has and lacks for being a node.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArguments),
    /// Applies the sandbox to itself and becomes the program that the node named; started by the node alone.
    #[command(hide = true)]
    SandboxLaunch,
    /// Holds one candidate for the CPU device; started by the node alone.
    #[command(hide = true)]
    WorkerCpu { artefact: PathBuf, threads: u32 },
    /// Holds one candidate for a CUDA device; started by the node alone.
    #[command(hide = true)]
    WorkerCuda,
    /// Asks the CUDA driver for its devices; started by the node alone.
    #[command(hide = true)]
    ProbeCuda,
    /// Compiles one CUDA source with NVRTC; started by the node alone.
    #[command(hide = true)]
    NvrtcCompile,
    /// Measure the CPU device over a folder of kernels such as `tests/kernels`.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Compile CUDA C++ for any architecture without a GPU: diagnostics, registers, spills, shared memory.
    Compile(compile::CompileArguments),
    /// Look for CUDA devices and NVRTC, and run the conformance suite on each device.
    CheckCuda(cuda::CheckArguments),
}

const RUN_EXAMPLES: &str = "\
Examples:
  muster node invite | muster-node run --coordinator gpu-lab:7443 --invite-file -
  muster-node run --state /var/lib/muster-node --coordinator 10.0.0.5:7443 --level cpu:x86-64-v2
Two nodes of one machine need two --state folders. Stop with SIGTERM or Ctrl-C: running workers are killed, signed
results stay in the outbox and are sent at the next start.
Exit codes: 0 done, 1 the node failed, 2 wrong usage, 3 refused.";

const CHECK_EXAMPLES: &str = "\
Examples:
  muster-node check-task tasks/matmul
  muster-node check-task tasks/matmul/task.toml --json
Exit codes: 0 the task holds together, 1 the check failed, 2 wrong usage, 3 the files are refused, 4 reference or
baseline fail, or an output of zeros or an untouched one would pass.";

const STRENGTH_EXAMPLES: &str = "\
Examples:
  muster-node task-strength tasks/matmul
  muster-node task-strength tasks/matmul --mutants 200 --json
Exit codes: 0 scored, 1 the check failed, 2 wrong usage, 3 the files are refused, 4 the task does not hold together.";

const DEVICES_EXAMPLES: &str = "\
Examples:
  muster-node devices
  muster-node devices --level cpu:x86-64-v2 --level cpu:x86-64-v3 --json";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  muster-node doctor
  muster-node doctor --full --json
Exit codes: 0 fit, 1 the check failed, 2 wrong usage, 5 this machine lacks something that a node needs.";

/// What all commands share.
#[derive(Debug, Args)]
pub(crate) struct DeviceArguments {
    /// Architecture level of the CPU device, such as cpu:x86-64-v2; repeat it for several devices. Default: the
    /// best that this machine runs.
    #[arg(long = "level", value_name = "LEVEL")]
    pub(crate) levels: Vec<Architecture>,
    /// The C++ compiler. Default: g++, else clang++, from the usual folders.
    #[arg(long, value_name = "PATH")]
    pub(crate) compiler: Option<PathBuf>,
    /// Look for NVRTC here alone: files and folders, separated by colons. Default: MUSTER_NVRTC, else the usual places.
    #[arg(long, value_name = "PATHS")]
    pub(crate) nvrtc: Option<PathBuf>,
    /// Offer to compile for these architectures without running anything, such as sm_80,sm_100a; `all`: every one that
    /// NVRTC knows. Submissions ask for it with `--on compile:sm_80`.
    #[arg(long, env = "MUSTER_NODE_COMPILE_ONLY", value_delimiter = ',', value_name = "ARCH,…|all")]
    pub(crate) compile_only: Vec<String>,
    /// Sandbox level: best (what this machine gives, kernel at least), full (or refuse to start; no GPUs), kernel.
    #[arg(long, env = "MUSTER_NODE_SANDBOX", value_name = "LEVEL")]
    pub(crate) sandbox: Option<SandboxWish>,
    /// Run candidates without Landlock and seccomp. For candidates that you trust; every record shows it.
    #[arg(long)]
    pub(crate) unsafe_no_sandbox: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Folder of keys, outbox and caches. Default: $XDG_DATA_HOME/muster-node.
    #[arg(long, env = "MUSTER_NODE_STATE", value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Coordinator to dial, HOST:PORT, in place of the addresses in the invite; repeat it for alternatives, best
    /// first. A node that starts without an invite dials where it joined.
    #[arg(long = "coordinator", value_name = "ADDR")]
    pub(crate) coordinators: Vec<String>,
    /// File with the invite, `-` for standard input. Needed until the node has joined.
    #[arg(long, value_name = "FILE")]
    pub(crate) invite_file: Option<PathBuf>,
    /// Name for people. Default: the host's name.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Settings file; what is given on the command line wins.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Log filter, as in `info,quinn=warn`. Logs go to standard error.
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// Workers that stand by for each GPU; 0 starts each when it is needed. Default: 8, as far as the GPU's memory
    /// allows contexts.
    #[arg(long, value_name = "COUNT")]
    pub(crate) standby: Option<u32>,
    #[command(flatten)]
    pub(crate) devices: DeviceArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CheckTaskArguments {
    /// The task file, or a folder with a `task.toml`.
    pub(crate) task: PathBuf,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) devices: DeviceArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// From source to verdict, compilation with and without the precompiled header, run times, cost of screens.
    #[command(after_help = "Example: muster-node bench kernels tests/kernels --json")]
    Kernels(BenchArguments),
    /// Every right and every wrong kernel under all screens: what is caught, by what, at what cost.
    #[command(after_help = "Examples:
  muster-node bench screens tests/kernels
  muster-node bench screens tests/kernels --only reduce,scan --compiler /usr/bin/clang++
Exit codes: 0 all wrong kernels caught and no false alarm, 1 otherwise.")]
    Screens(BenchArguments),
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// A folder of task folders, each with `task.toml` and `candidate.cu`, wrong candidates under `wrong/`.
    pub(crate) folder: PathBuf,
    /// Only tasks whose name contains one of these, separated by commas.
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) devices: DeviceArguments,
}

#[derive(Debug, Args)]
pub(crate) struct TaskStrengthArguments {
    /// The task file, or a folder with a `task.toml`.
    pub(crate) task: PathBuf,
    /// Mutants to try at most, spread evenly over the reference.
    #[arg(long, default_value_t = 60, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=5000))]
    pub(crate) mutants: u16,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) devices: DeviceArguments,
}

#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    /// Print the descriptions as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) devices: DeviceArguments,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Also compile and run small kernels: the conformance suite of the CPU device. Takes half a minute.
    #[arg(long)]
    pub(crate) full: bool,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) devices: DeviceArguments,
}

/// Prints the error, if there is one, and picks the exit code.
pub(crate) fn exit(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("muster-node: {error:#}");
            ExitCode::from(if error.is::<Refusal>() { REFUSED } else { FAILED })
        }
    }
}
