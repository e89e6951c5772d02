//! Argument types of questions to a ledger: filters, queries, exports.

use super::ledger_args::LedgerSource;
use clap::{Args, ValueEnum};
use fleet_config::domain::Status;
use ledger::entry::Kind;
use ledger::query::{Filter, MetricRange, Moment};
use std::path::PathBuf;

/// What is asked for. Several values of one option are alternatives; options must all fit.
#[derive(Debug, Clone, Args)]
#[command(
    next_help_heading = "Filters (several values are alternatives; names, ids or prefixes of eight digits)"
)]
pub(super) struct FilterArgs {
    /// Kind of entry, such as result, attempt-lost, finding
    #[arg(long, value_delimiter = ',', value_name = "KIND,…", value_parser = kind)]
    pub kind: Vec<String>,
    #[arg(long, value_delimiter = ',', value_name = "TASK,…")]
    pub task: Vec<String>,
    #[arg(long, value_delimiter = ',', value_name = "CANDIDATE,…")]
    pub candidate: Vec<String>,
    /// Candidates made from this one
    #[arg(long, value_delimiter = ',', value_name = "CANDIDATE,…")]
    pub parent: Vec<String>,
    /// The program that proposed the candidate
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub agent: Vec<String>,
    #[arg(long, value_delimiter = ',', value_name = "ID,…")]
    pub submission: Vec<String>,
    #[arg(long, value_delimiter = ',', value_name = "NODE,…")]
    pub node: Vec<String>,
    /// Part of the model of GPU or CPU, or a device's whole id
    #[arg(long, value_delimiter = ',', value_name = "MODEL,…")]
    pub gpu: Vec<String>,
    /// Version of the driver, or its beginning: 580 finds 580.159.04
    #[arg(long, value_delimiter = ',', value_name = "VERSION,…")]
    pub driver: Vec<String>,
    /// Architecture such as nvidia:sm_90a, or id of a comparability class
    #[arg(long, value_delimiter = ',', value_name = "CLASS,…")]
    pub class: Vec<String>,
    #[arg(long, value_delimiter = ',', value_name = "POLICY,…")]
    pub policy: Vec<String>,
    /// Status of a result, such as ok or wrong_result
    #[arg(long, value_delimiter = ',', value_name = "STATUS,…", value_parser = status)]
    pub status: Vec<Status>,
    /// From this moment on (UTC): 2026-11-30 or 2026-11-30T12:00:00Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<Moment>,
    /// Before this moment
    #[arg(long, value_name = "TIME")]
    pub until: Option<Moment>,
    /// A number of the result within bounds: speedup=1.2.., candidate_ps=..2000000, baseline_ps=1..9,
    /// resource.registers=..128; may be repeated, and then all must hold
    #[arg(long, value_name = "NAME=LOW..HIGH")]
    pub metric: Vec<MetricRange>,
}

impl FilterArgs {
    /// The filter that was asked for.
    pub(super) fn filter(&self) -> Filter {
        let Self {
            kind,
            task,
            candidate,
            parent,
            agent,
            submission,
            node,
            gpu,
            driver,
            class,
            policy,
            status,
            since,
            until,
            metric,
        } = self.clone();
        Filter {
            kinds: kind,
            tasks: task,
            candidates: candidate,
            parents: parent,
            agents: agent,
            submissions: submission,
            nodes: node,
            devices: gpu,
            drivers: driver,
            classes: class,
            policies: policy,
            statuses: status,
            since,
            until,
            metrics: metric,
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster query --task matmul-f32 --status ok --metric speedup=1.2..\n  muster query --kind attempt-lost --node gpu-box --since 2026-11-01\n  muster query --gpu h200 --driver 580 --as-of 1200 --folder mirror --vkey KEY --json\n\nThe answer states the tree size and root that it is about; the same question at the same size has the same answer."
)]
pub(super) struct QueryArgs {
    #[command(flatten)]
    pub filter: FilterArgs,
    /// As the ledger stood at this size
    #[arg(long, value_name = "SIZE")]
    pub as_of: Option<u64>,
    /// Rows that are shown at most, the newest; all are counted
    #[arg(long, default_value_t = 100, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    #[command(flatten)]
    pub source: LedgerSource,
}

/// Forms of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    /// JSON lines: each row with its statement
    Jsonl,
    /// Comma-separated values: one line a row, the same columns for every kind
    Csv,
    /// DSSE envelopes, one a line, byte for byte as they stand in the log
    Intoto,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster export --format csv --kind result --task matmul-f32 --out results.csv\n  muster export --format intoto --as-of 1200 --out all.intoto.jsonl\n  muster export --folder mirror --vkey KEY | jq .speedup\n\nWith --format intoto and --out FILE, FILE.leaves lists leaf, record and kind of each line. Every other row holds its leaf."
)]
pub(super) struct ExportArgs {
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    pub format: ExportFormat,
    /// File to write, whole or not at all [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// As the ledger stood at this size
    #[arg(long, value_name = "SIZE")]
    pub as_of: Option<u64>,
    #[command(flatten)]
    pub source: LedgerSource,
}

/// A kind that this version knows, or the whole predicateType of one that it does not.
fn kind(text: &str) -> Result<String, String> {
    let known = Kind::ALL.map(Kind::word);
    if known.contains(&text) || text == "unreadable" || text.contains(':') {
        return Ok(text.to_owned());
    }
    Err(format!("kinds are {}, unreadable, or a whole predicateType", known.join(", ")))
}

fn status(text: &str) -> Result<Status, String> {
    let known = Status::ALL;
    known
        .into_iter()
        .find(|status| status.name() == text)
        .ok_or_else(|| format!("statuses are {}", known.map(Status::name).join(", ")))
}
