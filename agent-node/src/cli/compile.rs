//! `muster-node compile`: one row for each kernel and architecture, with no GPU present.

use super::cuda::Sandbox;
use agent_node::backend::cuda::{
    Bound, KernelRow, OfflineArguments, OfflineReport, Row, ThreadsFrom, ToolchainFacts, compile_offline,
};
use clap::Args;
use fleet_config::domain::{Digest, Outcome};
use std::path::PathBuf;
use std::process::ExitCode;

/// A source did not compile for an architecture.
const FAILED: u8 = 1;
/// Nothing could be tried.
const UNUSABLE: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  muster-node compile kernel.cu --arch sm_80,sm_89,sm_90a,sm_100a,sm_120a
  muster-node compile kernel.cu --arch sm_90a --threads 128 --dynamic-shared 65536
  muster-node compile --task tasks/matmul --candidate tiled.cu --arch sm_90a --toolchain 12 --json
Exit codes: 0 all compiled, 1 a source did not compile for an architecture, 2 wrong usage or nothing could be tried.";

/// Arguments of `compile`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompileArguments {
    /// The CUDA C++ source.
    #[arg(required_unless_present = "task", conflicts_with = "task")]
    file: Option<PathBuf>,
    /// A task's folder or file: compiles its reference and baseline, and the candidates named by `--candidate`.
    #[arg(long, value_name = "DIR")]
    task: Option<PathBuf>,
    /// A candidate of the task, as `muster submit` takes it; may be repeated.
    #[arg(long, value_name = "FILE", requires = "task")]
    candidate: Vec<PathBuf>,
    /// Architectures, separated by commas.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "ARCH,…",
        default_value = "sm_80,sm_89,sm_90a,sm_100a,sm_120a"
    )]
    arch: Vec<String>,
    /// Kernels that the file must define; templates with their arguments.
    #[arg(long, value_name = "NAME", conflicts_with = "task")]
    kernel: Vec<String>,
    /// A compiler flag beside those of the default policy: -std=c++14|17|20, --use_fast_math, -lineinfo, --restrict,
    /// --extra-device-vectorization; may be repeated.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    flag: Vec<String>,
    /// Threads of a block, for the occupancy [default: the task's plan, else the kernel's own, else 256]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Option<u64>,
    /// Bytes of dynamic shared memory of a block [default: the task's plan, else 0]
    #[arg(long, value_name = "BYTES")]
    dynamic_shared: Option<u64>,
    /// Look for NVRTC here alone: files and folders, separated by colons [default: $MUSTER_NVRTC, else the usual places]
    #[arg(long, value_name = "PATHS")]
    nvrtc: Option<PathBuf>,
    /// The toolchain to take where there are several: its version (12, 13.0) or the first digits of its digest
    #[arg(long, value_name = "NAME")]
    toolchain: Option<String>,
    /// Where cubins are kept; by default below the user's cache folder.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    #[command(flatten)]
    sandbox: Sandbox,
    /// One JSON document instead of text.
    #[arg(long)]
    json: bool,
}

/// `muster-node compile`.
pub(crate) fn compile(arguments: &CompileArguments) -> anyhow::Result<ExitCode> {
    let offline = OfflineArguments {
        file: arguments.file.clone(),
        task: arguments.task.clone(),
        candidates: arguments.candidate.clone(),
        kernels: arguments.kernel.clone(),
        architectures: arguments.arch.clone(),
        flags: arguments.flag.clone(),
        threads: arguments.threads,
        dynamic_shared_bytes: arguments.dynamic_shared,
        nvrtc: arguments.nvrtc.clone(),
        toolchain: arguments.toolchain.clone(),
        cache: arguments.cache.clone(),
        confinement: arguments.sandbox.confinement(),
    };
    let report = match compile_offline(&offline) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("muster-node compile: {error}");
            return Ok(ExitCode::from(UNUSABLE));
        }
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", text(&report));
    }
    let done = report.rows.iter().all(|row| row.outcome.is_none());
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

const HEADER: [&str; 13] = [
    "ARCH",
    "KERNEL",
    "REGS",
    "SPILL ST/LD",
    "STACK",
    "SHARED",
    "BARRIERS",
    "CONST",
    "CODE",
    "OCCUPANCY",
    "CUBIN",
    "CUBIN BLAKE3",
    "SASS BLAKE3",
];

fn text(report: &OfflineReport) -> String {
    let mut lines = Vec::new();
    for facts in &report.toolchains {
        let used = report.rows.iter().any(|row| row.toolchain == Some(facts.digest));
        lines.extend(used.then(|| toolchain(facts)));
    }
    let mut sources: Vec<&str> = report.rows.iter().map(|row| row.source.as_str()).collect();
    sources.dedup();
    let mut assumed = false;
    for source in sources {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.source == source).collect();
        let cells: Vec<Vec<String>> = rows.iter().flat_map(|row| cells(row)).collect();
        lines.push(String::new());
        lines.push(source.to_owned());
        lines.extend(table(&cells));
        lines.extend(rows.iter().filter_map(|row| failed(row, row.outcome.as_ref()?)));
        let kernels = rows.iter().flat_map(|row| &row.kernels);
        assumed |= kernels.into_iter().any(|kernel| kernel.threads_from == ThreadsFrom::Assumed);
    }
    lines.push(String::new());
    lines.push("SHARED is static + dynamic bytes of a block; OCCUPANCY is warps resident of the most possible, at blocks x threads, and what bounds it.".to_owned());
    if assumed {
        lines.push("`~`: nobody said how many threads a block has; name them with --threads.".to_owned());
    }
    lines.join("\n") + "\n"
}

fn toolchain(facts: &ToolchainFacts) -> String {
    let headers = if facts.headers.is_empty() { "none".to_owned() } else { facts.headers.join(" ") };
    format!(
        "{}  {} ({})\n  toolchain blake3:{}\n  headers of the toolkit: {headers}",
        facts.name,
        facts.library.display(),
        facts.origin.words(),
        facts.digest
    )
}

fn cells(row: &Row) -> Vec<Vec<String>> {
    let short = |digest: &Option<Digest>| digest.map_or_else(String::new, |digest| digest.short());
    let architecture = row.architecture.trim_start_matches("nvidia:").to_owned();
    let line = |kernel: &KernelRow| {
        let usage = &kernel.usage;
        let number = |value: Option<u64>| value.map_or_else(|| "?".to_owned(), |value| value.to_string());
        vec![
            architecture.clone(),
            usage.symbol.clone(),
            number(usage.registers),
            format!("{}/{}", number(usage.spill_store_bytes), number(usage.spill_load_bytes)),
            number(usage.stack_bytes),
            format!("{}+{}", usage.shared_bytes, kernel.dynamic_shared_bytes),
            number(usage.barriers),
            usage.constant_bytes.to_string(),
            usage.code_bytes.to_string(),
            occupancy(kernel),
            number(row.cubin_bytes),
            short(&row.cubin_digest),
            short(&row.code_digest),
        ]
    };
    if row.outcome.is_some() {
        return vec![vec![architecture, "failed, see below".to_owned()]];
    }
    row.kernels.iter().map(line).collect()
}

fn occupancy(kernel: &KernelRow) -> String {
    let Some(found) = &kernel.occupancy else { return "unknown".to_owned() };
    let word = |bound: &Bound| match bound {
        Bound::Warps => "warps",
        Bound::Blocks => "blocks",
        Bound::Registers => "registers",
        Bound::SharedMemory => "shared memory",
        Bound::Barriers => "barriers",
    };
    let bounds: Vec<&str> = found.bound_by.iter().map(word).collect();
    let assumed = if kernel.threads_from == ThreadsFrom::Assumed { "~" } else { "" };
    let (percent, tenth) = (found.permille / 10, found.permille % 10);
    format!("{percent}.{tenth}% {}x{assumed}{} by {}", found.blocks, kernel.threads, bounds.join(", "))
}

fn failed(row: &Row, outcome: &Outcome) -> Option<String> {
    let cause = outcome.cause.as_ref()?;
    let log = row.log.trim_end();
    let log = if log.is_empty() { String::new() } else { format!("\n    {}", log.replace('\n', "\n    ")) };
    Some(format!("{}: {}: {}{log}", row.architecture, outcome.status, cause.message))
}

/// Left-aligned columns, two spaces between.
fn table(rows: &[Vec<String>]) -> Vec<String> {
    let header = HEADER.map(str::to_owned).to_vec();
    let all: Vec<&Vec<String>> = std::iter::once(&header).chain(rows).collect();
    let width = |column: usize| {
        // A row that says less than all columns stretches none.
        let whole = all.iter().filter(|row| row.len() == HEADER.len());
        whole.filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADER.len()).map(width).collect();
    let line = |row: &&Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    all.iter().map(line).collect()
}
