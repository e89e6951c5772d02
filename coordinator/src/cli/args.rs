//! Argument types of the command line, with help that shows examples.

use super::ledger_args::{AuditArgs, BundleArgs, LedgerCommand, LedgerSource, VerifyBundleArgs};
use super::query_args::{ExportArgs, QueryArgs};
use clap::{Args, Parser, Subcommand};
use fleet_config::domain::{Digest, OptionalStage, Screen};
use fleet_config::refusal::Refusal;
use std::path::PathBuf;

/// Muster puts candidate GPU kernels to the test on a fleet and keeps the verdicts in a ledger that anybody can
/// check.
#[derive(Debug, Parser)]
#[command(
    name = "muster",
    version,
    max_term_width = 110,
    after_help = "\
Examples:
  muster up                                  start a coordinator and this machine's CPU device
  muster task add scripts/sample             add the sample task
  muster submit matmul-f32 scripts/sample/candidates/*.cu --on cpu:x86-64-v3 --wait
  muster rank matmul-f32               the ranking, from the ledger
  muster ledger verify                       check everything, trusting the verifier key alone
  muster down

Exit codes: 0 done, 1 refused or a case failed, 2 wrong usage, 3 no coordinator answers, 4 the ledger does not verify,
5 a waited-for cell ended without a verdict, 6 the ledger shows less than a claim says."
)]
pub(super) struct Cli {
    /// State folder of the coordinator [default: $MUSTER_STATE, else the XDG data folder]
    #[arg(long, global = true, env = "MUSTER_STATE", value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Print JSON on standard output
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start a coordinator and a node for this machine's devices
    Up(UpArgs),
    /// Stop what `up` started
    #[command(after_help = "Example:\n  muster down --state /var/lib/muster")]
    Down,
    /// Make, check, add and show tasks
    #[command(subcommand)]
    Task(TaskCommand),
    /// Run case folders: one kernel against one reference, with the answer that a harness should give
    #[command(subcommand)]
    Case(CaseCommand),
    /// Submit candidates of a task to device classes
    Submit(SubmitArgs),
    /// How a submission, or the whole fleet with its recent submissions, stands
    #[command(after_help = "Examples:\n  muster status\n  muster status 3fa9c1d2")]
    Status(StatusArgs),
    /// Cancel what is open of a submission; every cancelled cell gets its final record
    #[command(after_help = "Example:\n  muster cancel SUBMISSION-ID")]
    Cancel {
        /// Submission id, from the receipt, or a unique prefix of at least four digits
        submission: String,
    },
    /// Verify a chosen candidate on the task's sealed cases and fresh values; each opening is counted in the ledger
    #[command(
        after_help = "Examples:\n  muster verify-candidate 3fa9c1d2b7e0\n  muster verify-candidate 9c41d0aa/7b2f --on cpu:x86-64-v3 --json\n\nExit codes: 0 passed, 1 failed or refused, 5 ended without a verdict."
    )]
    VerifyCandidate(VerifyArgs),
    /// Let a detector look again at recorded results; what it finds becomes entries, and rankings show what fell and why
    #[command(
        after_help = "Examples:\n  muster rejudge --detector text --task matmul-f32 --dry-run\n  muster rejudge --detector stages\n\nDetectors: text (forwards to the baseline, calls a library: labelled), floor (faster than the device's memory: falls), stages (run again under today's validation, through the fleet)."
    )]
    Rejudge(RejudgeArgs),
    /// The ranking of a task, from the ledger (no coordinator needed)
    #[command(
        after_help = "Example:\n  muster rank matmul-f32 --as-of 28\n  muster rank matmul-f32 --sandbox full"
    )]
    Rank(RankArgs),
    #[command(flatten)]
    Insight(super::command::insight::InsightCommand),
    /// One record with its evidence, from the ledger (no coordinator needed)
    #[command(after_help = "Examples:\n  muster show 5\n  muster show 5 --stages")]
    Show(ShowArgs),
    #[command(flatten)]
    Agent(super::command::agent::AgentCommand),
    /// Entries by task, candidate, node, device, status, time or number, from the ledger (no coordinator needed)
    Query(QueryArgs),
    /// Write entries as JSON lines, CSV or DSSE envelopes (no coordinator needed)
    Export(ExportArgs),
    /// What stands behind a number: every attempt, loss, refusal, retry, opening and finding (no coordinator needed)
    Audit(AuditArgs),
    /// Make and check claims: signed sentences about recorded numbers (no coordinator needed)
    #[command(subcommand)]
    Claim(super::command::claim::ClaimCommand),
    /// One result with everything that it rests on, in one file that is checked offline
    Bundle(BundleArgs),
    /// Check such a file with the log's key alone: no ledger, no network
    VerifyBundle(VerifyBundleArgs),
    /// List, invite and drain nodes
    #[command(subcommand)]
    Node(NodeCommand),
    /// Verify, prove and read the ledger (no coordinator needed)
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Compile for any NVIDIA architecture without a GPU: diagnostics, and what each kernel uses (no coordinator needed)
    Compile(CompileArgs),
    /// What this machine has and lacks, and what to do about it
    #[command(after_help = "Example:\n  muster doctor --json")]
    Doctor,
    /// Measure this fleet or this disk and print a table
    #[command(subcommand)]
    Bench(super::command::bench::BenchCommand),
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  muster up --level cpu:x86-64-v2 --level cpu:x86-64-v3")]
pub(super) struct UpArgs {
    /// Address that nodes connect to over QUIC; port 0 takes that of the last start, or a free one [default:
    /// 127.0.0.1:0]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<std::net::SocketAddr>,
    /// Further addresses to write into invites, such as a public name; needed by nodes elsewhere if the coordinator
    /// listens on every address
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Vec<String>,
    /// Level of the CPU device, one node each; the machine's best one when not given
    #[arg(long, value_name = "ARCHITECTURE")]
    pub level: Vec<String>,
    /// Start the coordinator alone
    #[arg(long)]
    pub no_node: bool,
    /// Let the node run without a sandbox: every record will show it
    #[arg(long)]
    pub unsafe_no_sandbox: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum TaskCommand {
    /// Scaffold a task file from a signature and two kernels
    #[command(
        after_help = "Example:\n  muster task new saxpy --signature 'extern \"C\" __global__ void saxpy(float a, const float* x, float* y, int n)' \\\n    --reference reference.cu --initial-kernel baseline.cu"
    )]
    New {
        /// Folder of the new task
        folder: PathBuf,
        /// The exact declaration of the entry
        #[arg(long)]
        signature: String,
        /// The trusted kernel
        #[arg(long, value_name = "FILE")]
        reference: PathBuf,
        /// The kernel that candidates are timed against
        #[arg(long, value_name = "FILE")]
        initial_kernel: PathBuf,
    },
    /// Check a task folder; refuses what would make its results worthless
    #[command(after_help = "Example:\n  muster task lint scripts/sample")]
    Lint {
        folder: PathBuf,
        /// Only what needs no compiler
        #[arg(long)]
        no_run: bool,
    },
    /// Put small faults into the reference, one at a time, and show which the task's cases let pass
    #[command(
        after_help = "Example:\n  muster task strength scripts/sample --mutants 40\n\nRuns on this machine's CPU device; needs no coordinator. Each survivor is a fault that a candidate could have too:\nadd a case that shows it, tighten the tolerance, or give the task ranges ([validation.sweep])."
    )]
    Strength {
        folder: PathBuf,
        /// Mutants to try at most, spread evenly over the reference
        #[arg(long, default_value_t = 60, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=5000))]
        mutants: u16,
    },
    /// Add a task to the ledger and seal its holdouts
    #[command(after_help = "Example:\n  muster task add scripts/sample")]
    Add { folder: PathBuf },
    /// Make a task folder from another harness's format
    #[command(subcommand)]
    Import(ImportCommand),
    /// Show one task
    #[command(after_help = "Example:\n  muster task show matmul-f32")]
    Show {
        /// Name, id or prefix of the id
        task: String,
    },
    /// List the tasks in the ledger
    #[command(after_help = "Example:\n  muster task list --json")]
    List,
}

#[derive(Debug, Subcommand)]
pub(super) enum ImportCommand {
    /// From a case folder (case.json, a reference, a candidate); see docs/CASES.md
    #[command(
        after_help = "Example:\n  muster task import case-folder cases/01-saxpy --out saxpy\n  muster task lint saxpy && muster task add saxpy\n  muster submit 01-saxpy saxpy/candidates/candidate.cu --wait"
    )]
    CaseFolder {
        /// The case folder
        folder: PathBuf,
        /// Folder of the new task; must not hold one yet
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
        /// What becomes of configs that are not visible: a sealed holdout, or cases that gate like the others
        #[arg(long, value_enum, default_value_t = HiddenConfigs::Sealed)]
        hidden: HiddenConfigs,
    },
}

/// What becomes of configs that are not visible.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum HiddenConfigs {
    Sealed,
    Open,
}

#[derive(Debug, Subcommand)]
pub(super) enum CaseCommand {
    /// Run every case of a folder on the running fleet and compare with its expected.json
    #[command(
        after_help = "Example:\n  muster case run cases --on cpu:x86-64-v3 --only '0*'\n\n`scripts/run-cases.sh` starts a fleet of its own for it. Exit code 1: a case failed."
    )]
    Run {
        /// A folder of case folders, or one case folder
        folder: PathBuf,
        /// Device class [default: that of the fleet, if it has one]
        #[arg(long, value_name = "CLASS")]
        on: Option<String>,
        /// Only cases whose folder name contains this; `*` stands for anything
        #[arg(long, value_name = "PATTERN")]
        only: Option<String>,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster submit matmul-f32 tiled.cu --on cpu:x86-64-v3 --wait\n  muster submit matmul-f32 candidates/*.cu --on cpu:x86-64-v2,cpu:x86-64-v3 --fresh --json\n  muster submit matmul-f32 tiled.cu --stages shapes,determinism --wait     ranked by itself: its policy has another name"
)]
pub(super) struct SubmitArgs {
    /// Name, id or prefix of the id of the task
    pub task: String,
    /// Candidate sources; NAME.toml beside NAME.cu may give author, licence and launch
    #[arg(required = true)]
    pub candidates: Vec<PathBuf>,
    /// Device classes; every class of the fleet when not given, if all of them are CPUs or all are GPUs
    #[arg(long, value_delimiter = ',', value_name = "CLASS,…")]
    pub on: Vec<String>,
    /// Wait for the verdicts and show progress
    #[arg(long)]
    pub wait: bool,
    /// With --wait: how many seconds a coordinator that went away is waited for
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub reconnect: u64,
    /// Measure anew even where the ledger knows the answer
    #[arg(long)]
    pub fresh: bool,
    /// Measurement policy or preset by name; `muster policy list` shows them
    #[arg(long)]
    pub policy: Option<String>,
    /// Screens to run instead of the policy's own: names, `cheap`, `all` or `none`
    #[arg(long, value_name = "LIST", value_parser = screen_list)]
    pub screens: Option<String>,
    /// Stages of validation to run beside those that always do: smoke, shapes, stress, determinism; or `all`, `fewest`
    #[arg(long, value_name = "LIST", value_parser = stage_list)]
    pub stages: Option<String>,
    /// The one toolchain that may compile for GPUs, by the digest that `muster doctor` prints; elsewhere a cell is
    /// unsupported
    #[arg(long, value_name = "DIGEST", value_parser = toolchain)]
    pub toolchain: Option<Digest>,
    /// A compiler flag beside those of the policy, such as --use_fast_math or -std=c++20; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub flag: Vec<String>,
    /// Idempotency key
    #[arg(long)]
    pub nonce: Option<String>,
    /// Write the signed receipt to this file
    #[arg(long, value_name = "FILE")]
    pub receipt: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster compile kernel.cu\n  muster compile kernel.cu --arch sm_90a --threads 128 --dynamic-shared 65536\n  muster compile scripts/sample scripts/sample/candidates/tiled.cu --arch sm_80,sm_100a --json\n\nNeeds NVRTC (a CUDA toolkit, or the Python package nvidia-cuda-nvrtc); `muster doctor` lists those found.\nExit code 1: something did not compile for an architecture."
)]
pub(super) struct CompileArgs {
    /// A source; or a task (its folder or file), then candidates of it
    #[arg(required = true, value_name = "FILE|TASK CANDIDATE…")]
    pub sources: Vec<PathBuf>,
    /// Architectures, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "ARCH,…",
        default_value = "sm_80,sm_89,sm_90a,sm_100a,sm_120a"
    )]
    pub arch: Vec<String>,
    /// Kernels that a single source must define; templates with their arguments
    #[arg(long, value_name = "NAME")]
    pub kernel: Vec<String>,
    /// A compiler flag, such as --use_fast_math, -lineinfo or -std=c++20; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub flag: Vec<String>,
    /// Threads of a block, for the occupancy [default: the task's plan, else the kernel's own, else 256]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: Option<u64>,
    /// Bytes of dynamic shared memory of a block [default: the task's plan, else 0]
    #[arg(long, value_name = "BYTES")]
    pub dynamic_shared: Option<u64>,
    /// Look for NVRTC here alone: files and folders, separated by colons [default: $MUSTER_NVRTC, else the usual places]
    #[arg(long, value_name = "PATHS")]
    pub nvrtc: Option<PathBuf>,
    /// The toolchain to take where there are several: its version (12, 13.0) or the first digits of its digest
    #[arg(long, value_name = "NAME")]
    pub toolchain: Option<String>,
    /// Let the compiler run without a sandbox
    #[arg(long)]
    pub unsafe_no_sandbox: bool,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Submission id, or a unique prefix of at least four digits; the whole fleet when not given
    pub submission: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct RankArgs {
    /// Name, id or prefix of the id of the task
    pub task: String,
    /// As the ledger stood at this size
    #[arg(long, value_name = "SIZE")]
    pub as_of: Option<u64>,
    /// Leave out results of a weaker sandbox: full, kernel or none
    #[arg(long, value_name = "LEVEL", default_value = "none")]
    pub sandbox: fleet_config::domain::SandboxLevel,
    #[command(flatten)]
    pub source: LedgerSource,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// An `ok` result: record id, prefix or leaf as in `muster rank`, or SUBMISSION/CELL
    pub result: String,
    /// Device class [default: the architecture of the result]
    #[arg(long, value_name = "CLASS")]
    pub on: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct RejudgeArgs {
    /// Which detector: text, floor or stages, with or without the version that this build has
    #[arg(long, value_name = "NAME[/VERSION]")]
    pub detector: String,
    /// Name, id or prefix of the id of the task; every task when not given
    #[arg(long)]
    pub task: Option<String>,
    /// Say what would be found; record nothing and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// With stages: screens to run beside the policy's own validation: names, `cheap`, `all` or `none`
    #[arg(long, value_name = "LIST", value_parser = screen_list)]
    pub screens: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Record id, a unique prefix of at least eight digits, or a leaf index
    pub record: String,
    /// Only what each stage of validation cost, with its share
    #[arg(long)]
    pub stages: bool,
    #[command(flatten)]
    pub source: LedgerSource,
}

#[derive(Debug, Subcommand)]
pub(super) enum NodeCommand {
    /// List the nodes with their devices
    #[command(after_help = "Example:\n  muster node list")]
    List,
    /// Make an invite; its text is shown once: pipe it into `muster-node run --invite-file -`
    #[command(
        after_help = "Example:\n  muster node invite --valid 600 | ssh gpu-box muster-node run --state /var/lib/muster-node --invite-file -"
    )]
    Invite {
        /// Life of the invite in seconds
        #[arg(long, default_value_t = 3600)]
        valid: u64,
        /// How many different nodes may use it
        #[arg(long, default_value_t = 1)]
        uses: u32,
        /// Devices of the node must belong to this class
        #[arg(long)]
        class: Option<String>,
    },
    /// Trust a node no more: its session ends, what it signs is refused, and what it signed from an entry on falls
    #[command(
        after_help = "Examples:\n  muster node revoke gpu-box --suspect-from 1200 --reason 'its clock was changed'\n  muster node revoke gpu-box --suspect-from 0 --reason 'its key was copied'"
    )]
    Revoke {
        /// Name, id or prefix of the id
        node: String,
        /// The first entry whose results by this node are ranked no more; 0 for all of them
        #[arg(long, value_name = "LEAF")]
        suspect_from: u64,
        /// For people; stands in the ledger
        #[arg(long)]
        reason: String,
    },
    /// Let a node go for good: a revocation that suspects nothing, so that what it measured stays ranked
    #[command(after_help = "Example:\n  muster node remove old-box")]
    Remove {
        /// Name, id or prefix of the id
        node: String,
    },
    /// Let a node finish what it runs and take no more
    #[command(after_help = "Example:\n  muster node drain gpu-box")]
    Drain {
        /// Name, id or prefix of the id
        node: String,
        /// Take work again instead
        #[arg(long)]
        resume: bool,
    },
}

/// The state folder: as given, else in the XDG data folder.
pub(super) fn state_folder(given: Option<PathBuf>) -> Result<PathBuf, Refusal> {
    if let Some(folder) = given {
        return Ok(folder);
    }
    let data = std::env::var_os("XDG_DATA_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = std::env::var_os("HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let folder = data.or_else(|| home.map(|home| home.join(".local/share")));
    folder.map(|folder| folder.join("muster")).ok_or_else(|| {
        Refusal::new(
            "state/no-home",
            "",
            "neither HOME nor XDG_DATA_HOME is set",
            "name a folder with --state",
        )
    })
}

/// Checks a list of stages, and hands it on as it was written.
fn stage_list(text: &str) -> Result<String, String> {
    OptionalStage::list(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Checks a list of screens, and hands it on as it was written.
fn screen_list(text: &str) -> Result<String, String> {
    Screen::list(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// A digest, with or without the name of its hash.
fn toolchain(text: &str) -> Result<Digest, String> {
    text.strip_prefix("blake3:")
        .unwrap_or(text)
        .parse()
        .map_err(|error: fleet_config::domain::DigestError| error.to_string())
}
