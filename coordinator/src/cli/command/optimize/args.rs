//! Arguments of `muster optimize`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster optimize matmul-f32 --template scripts/sample/search/tiles.toml --iterations 7 --out results\n  muster optimize matmul-f32 --proposer command --command './propose.py' --iterations 40 --device-seconds 3600 --target 2\n  muster optimize --resume results/run-001\n\nThe folder results/run-NNN holds history.json, summary.json, results.tsv, best.cu, best-case-N.json, heatmap.svg and .png, and\nevery attempt; a killed campaign goes on with --resume (docs/CAMPAIGNS.md).\nExit codes: 0 done, 1 refused, 3 no coordinator answers."
)]
pub(in crate::cli) struct OptimizeArgs {
    /// Name, id or prefix of the id of the task
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    pub task: Option<String>,
    /// Who proposes
    #[arg(long, value_enum, default_value_t = ProposerKind::Search)]
    pub proposer: ProposerKind,
    /// With search: the template, a source with parameters
    #[arg(long, value_name = "FILE")]
    pub template: Option<PathBuf>,
    /// With search: how its space is searched
    #[arg(long, value_enum, default_value_t = StrategyKind::Auto)]
    pub strategy: StrategyKind,
    /// With search: fixes the order of random points
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// With command: a command of the shell that answers JSON lines with JSON lines
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// How long a proposal may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub proposer_timeout: u64,
    /// Proposals at most, beside the baseline
    #[arg(long, value_name = "COUNT", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=9_999))]
    pub iterations: u32,
    /// Seconds on devices (validation and timing) after which nothing more is tried
    #[arg(long, value_name = "SECONDS")]
    pub device_seconds: Option<u64>,
    /// Seconds after which nothing more is tried
    #[arg(long, value_name = "SECONDS")]
    pub wall_seconds: Option<u64>,
    /// Enough: the whole interval of the best lies above this ratio to the baseline
    #[arg(long, value_name = "RATIO", value_parser = positive)]
    pub target: Option<f64>,
    /// Attempts in a row without a new best after which nothing more is tried
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub plateau: Option<u32>,
    /// Smallest gain over the best that counts, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub gain_min: f64,
    /// Device class [default: that of the fleet, if it has one]
    #[arg(long, value_name = "CLASS")]
    pub on: Option<String>,
    /// Measurement policy by name
    #[arg(long)]
    pub policy: Option<String>,
    /// Measure anew even where the ledger knows the answer
    #[arg(long)]
    pub fresh: bool,
    /// Attempts under way at once
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub parallel: u32,
    /// Part of the whole's time that the kernel takes, 0 to 1: below one in a hundred the campaign does not begin
    #[arg(long, value_parser = share)]
    pub share: Option<f64>,
    /// The period, in months, in which it must pay; recorded before the first attempt
    #[arg(long, value_name = "MONTHS", value_parser = positive)]
    pub payback_months: Option<f64>,
    /// The rule for going on, in your words; recorded before the first attempt
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub rule: String,
    /// Begin even where the share says that it is not worth it
    #[arg(long)]
    pub despite_share: bool,
    /// Leave the sealed cases closed at the end
    #[arg(long)]
    pub no_verify: bool,
    /// Begin although another campaign runs on this task here
    #[arg(long)]
    pub beside: bool,
    /// Where the folder run-NNN is made
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Go on with the campaign in this folder, as it was begun
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
}

/// Who proposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ProposerKind {
    /// Parameter search over a template
    Search,
    /// A command of yours
    Command,
}

/// How a space is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum StrategyKind {
    /// Exhaustive where the space is small enough, else random
    Auto,
    Exhaustive,
    Random,
    /// Many points with few stages of validation, then the better half under the whole policy, and again
    Halving,
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("no number above 0".to_owned()) }
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    if (0.0..=1000.0).contains(&number) { Ok(number) } else { Err("not between 0 and 1000".to_owned()) }
}

fn share(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err("not between 0 and 1".to_owned()) }
}
