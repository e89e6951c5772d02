//! `muster bench`: what this fleet and this disk do, as a table. Ratios are taken within one run, since machines
//! are shared and noisy.

mod attempts;
mod coverage;
mod fleet;
mod ledger;
mod scale;
mod synthetic;

use crate::cli::{Context, Ending};
use clap::Subcommand;
use fleet_config::refusal::Refusal;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum BenchCommand {
    /// Latency and throughput of the running fleet with one candidate that is compiled already
    #[command(
        after_help = "Example:\n  muster bench fleet saxpy-f32 scripts/sample-saxpy/candidates/vectorised.cu --on cpu:x86-64-v2,cpu:x86-64-v3"
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
    /// Durable appends against a raw append and sync loop on the same disk; with --records what a ledger of many costs
    #[command(
        after_help = "Examples:\n  muster bench ledger /var/tmp/bench\n  muster bench ledger /var/tmp/bench --records 100000 --json\n\nThe records of --records are made up, signed in their real form, and removed afterwards: 6 KiB of disk for each."
    )]
    Ledger {
        /// An empty folder on the disk to be measured
        folder: PathBuf,
        /// Time for each batch size
        #[arg(long, default_value_t = 3)]
        seconds: u64,
        /// Take in so many made-up results, and measure proofs, index, queries, verification and memory
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
        records: Option<u64>,
    },
}

/// One line of a table.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) value: String,
    /// What the figure should be, where somebody has said so.
    goal: Option<Goal>,
}

impl Row {
    fn new(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into(), goal: None }
    }

    fn with_goal(self, goal: Goal) -> Self {
        Self { goal: Some(goal), ..self }
    }
}

/// A bound for a figure, and whether this run kept it.
#[derive(Debug, Clone, Serialize)]
struct Goal {
    bound: String,
    verdict: GoalVerdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum GoalVerdict {
    Met,
    Missed,
}

impl Goal {
    fn at_least(measured: f64, least: f64, unit: &str) -> Self {
        let verdict = if measured >= least { GoalVerdict::Met } else { GoalVerdict::Missed };
        Self { bound: format!(">= {least}{unit}"), verdict }
    }

    fn at_most(measured: f64, most: f64, unit: &str) -> Self {
        let verdict = if measured <= most { GoalVerdict::Met } else { GoalVerdict::Missed };
        Self { bound: format!("<= {most}{unit}"), verdict }
    }

    fn line(&self) -> String {
        let word = match self.verdict {
            GoalVerdict::Met => "MET",
            GoalVerdict::Missed => "MISSED",
        };
        format!("{word} {}", self.bound)
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
        BenchCommand::Ledger { folder, seconds, records } => ledger::run(&folder, seconds, records)?,
    };
    let goal = |row: &Row| row.goal.as_ref().map(Goal::line).unwrap_or_default();
    context.output.print(&rows, |rows| {
        let lines: Vec<Vec<String>> =
            rows.iter().map(|row| vec![row.what.clone(), row.value.clone(), goal(row)]).collect();
        crate::cli::output::table(&["WHAT", "VALUE", "GOAL"], &lines)
    });
    Ok(Ending::Done)
}

/// The value below which the share `p` of sorted `numbers` lies.
fn percentile(sorted: &[f64], p: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    // The index is rounded to the nearest rank; an empty series has no percentile.
    sorted.get((p * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
}
