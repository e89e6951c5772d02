//! What can be asked of recorded results beyond a ranking; none of it needs a coordinator.

use super::{best, comparable, matrix, policy, portability};
use crate::cli::{Context, Ending};
use clap::{Args, Subcommand};
use fleet_config::domain::SandboxLevel;
use fleet_config::refusal::Refusal;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum InsightCommand {
    /// Measurement policies and presets: how time is taken
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Whether two results may be compared, as times and as ratios, and in which fields they differ
    #[command(
        after_help = "Example:\n  muster comparable 3fa9c1d2b7e0 9c41d0aa7b2f\n\nExit codes: 0 at least the ratios may be compared, 1 not even these, or refused."
    )]
    Comparable {
        /// Record id, a unique prefix of at least eight digits, or a leaf index
        one: String,
        other: String,
    },
    /// Candidates of a task × device classes: what each is worth on each, or why it is not valid there
    #[command(
        after_help = "Examples:\n  muster matrix matmul-f32\n  muster matrix matmul-f32 --csv --as-of 120"
    )]
    Matrix(QuestionArgs),
    /// How far each candidate, and each family, carries over the device classes of a task
    #[command(
        after_help = "Examples:\n  muster portability matmul-f32\n  muster portability matmul-f32 --csv\n\nThe score is Pennycook's: the harmonic mean of efficiencies, 0 where a class has no valid result."
    )]
    Portability(QuestionArgs),
    /// Which candidate to use on a device class
    #[command(
        after_help = "Examples:\n  muster best matmul-f32 --for nvidia:sm_90a\n  muster best matmul-f32 --for 'NVIDIA H200' --json\n\nExit code 1: no candidate of the task is valid there."
    )]
    Best(best::BestArgs),
    /// fast_p: the share of tasks with a valid candidate that is so many times as fast as the baseline
    #[command(
        after_help = "Examples:\n  muster fast-p --for nvidia:sm_90a\n  muster fast-p --for cpu:x86-64-v3 --p 1,1.5,2 --operator at-least"
    )]
    FastP(best::FastArgs),
}

/// A question about one task.
#[derive(Debug, Args)]
pub(in crate::cli) struct QuestionArgs {
    /// Name, id or prefix of the id of the task
    pub task: String,
    /// As the ledger stood at this size
    #[arg(long, value_name = "SIZE")]
    pub as_of: Option<u64>,
    /// Leave out results of a weaker sandbox: full, kernel or none
    #[arg(long, value_name = "LEVEL", default_value = "none")]
    pub sandbox: SandboxLevel,
    /// Print comma-separated values instead, one line for each candidate and class
    #[arg(long)]
    pub csv: bool,
}

/// Runs one of them.
pub(in crate::cli) fn run(context: &Context, command: &InsightCommand) -> Result<Ending, Refusal> {
    match command {
        InsightCommand::Policy(command) => policy::run(context, command),
        InsightCommand::Comparable { one, other } => comparable::run(context, one, other),
        InsightCommand::Matrix(args) => matrix::run(context, args),
        InsightCommand::Portability(args) => portability::run(context, args),
        InsightCommand::Best(args) => best::run(context, args),
        InsightCommand::FastP(args) => best::fast(context, args),
    }
}

/// One field of comma-separated values (RFC 4180). A text that a spreadsheet would take for a formula gets a space first.
pub(super) fn csv_field(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let clean = if clean.starts_with(['=', '+', '-', '@']) { format!(" {clean}") } else { clean };
    if clean.contains([',', '"']) { format!("\"{}\"", clean.replace('"', "\"\"")) } else { clean }
}

/// Lines of comma-separated values.
pub(super) fn csv(rows: &[Vec<String>]) -> String {
    let line = |row: &Vec<String>| row.iter().map(|field| csv_field(field)).collect::<Vec<_>>().join(",");
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A ratio in thousandths, as tables show it.
pub(super) fn times(ratio: fleet_config::domain::PartsPerBillion) -> String {
    format!("{:.3}×", ratio.ratio())
}

/// A share as a percentage.
pub(super) fn percent(share: fleet_config::domain::PartsPerBillion) -> String {
    format!("{:.1} %", 100.0 * share.ratio())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_candidate_is_called_makes_no_column_no_line_and_no_formula() {
        let row = vec!["a,b".to_owned(), "say \"it\"\nnow".to_owned(), "=1+2".to_owned(), "plain".to_owned()];
        assert_eq!(csv(&[row]), "\"a,b\",\"say \"\"it\"\" now\", =1+2,plain");
    }
}
