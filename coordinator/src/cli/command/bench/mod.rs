//! `muster bench`: what this fleet and this disk do, as a table. Ratios are taken within one run, since machines
//! are shared and noisy.

mod attempts;
mod fleet;
mod ledger;

use crate::cli::args::BenchCommand;
use crate::cli::{Context, Ending};
use fleet_config::refusal::Refusal;
use serde::Serialize;

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
