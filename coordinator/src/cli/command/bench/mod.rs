//! `muster bench`: what this fleet and this disk do, as a table. Ratios are taken within one run, since machines
//! are shared and noisy.

mod attempts;
mod coverage;
mod fleet;
mod ledger;

use crate::cli::{Context, Ending};
use clap::Subcommand;
use fleet_config::refusal::Refusal;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum BenchCommand {
    /// Latency and throughput of the running fleet with one candidate that is compiled already
    #[command(
        after_help = "Example:\n  muster bench fleet saxpy scripts/sample-saxpy/candidates/wide.cu --on cpu:x86-64-v2,cpu:x86-64-v3"
    )]
    Fleet {
        /// Name, id or prefix of the id of the task
        task: String,
        /// A candidate that is `ok` on every target
        candidate: PathBuf,
        #[arg(long, required = true, value_delimiter = ',', value_name = "CLASS,…")]
        on: Vec<String>,
        /// Submissions one after another
        #[arg(long, default_value_t = 500)]
        count: u32,
        /// Submissions in flight together
        #[arg(long, default_value_t = 50)]
        batch: u32,
    },
    /// What recorded attempts cost, where their time went and how steady their medians are (no coordinator needed)
    #[command(after_help = "Example:\n  muster bench attempts --from 40 --json")]
    Attempts {
        /// Leaf from which results are counted
        #[arg(long, default_value_t = 0, value_name = "LEAF")]
        from: u64,
    },
    /// Whether intervals cover and claims hold, by simulation with known truth (no coordinator, no device)
    Coverage(coverage::CoverageArgs),
    /// Durable appends against a raw append and sync loop on the same disk
    #[command(after_help = "Example:\n  muster bench ledger /var/tmp/bench")]
    Ledger {
        /// An empty folder on the disk to be measured
        folder: PathBuf,
        /// Time for each batch size
        #[arg(long, default_value_t = 3)]
        seconds: u64,
    },
}

/// One line of a table.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) value: String,
}

impl Row {
    fn new(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into() }
    }
}

/// Runs the subcommand.
pub(crate) async fn run(context: &Context, command: BenchCommand) -> Result<Ending, Refusal> {
    let rows = match command {
        BenchCommand::Attempts { from } => {
            let summary = attempts::run(context, from)?;
            context.output.print(&summary, attempts::text);
            return Ok(Ending::Done);
        }
        BenchCommand::Fleet { task, candidate, on, count, batch } => {
            fleet::run(context, &fleet::Plan { task, candidate, targets: on, count, batch }).await?
        }
        BenchCommand::Coverage(args) => return Ok(coverage::run(context, &args)),
        BenchCommand::Ledger { folder, seconds } => ledger::run(&folder, seconds)?,
    };
    context.output.print(&rows, |rows| {
        let lines: Vec<Vec<String>> =
            rows.iter().map(|row| vec![row.what.clone(), row.value.clone()]).collect();
        crate::cli::output::table(&["WHAT", "VALUE"], &lines)
    });
    Ok(Ending::Done)
}

/// The value below which the share `p` of sorted `numbers` lies.
fn percentile(sorted: &[f64], p: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    // The index is rounded to the nearest rank; an empty series has no percentile.
    sorted.get((p * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
}
