//! `muster reward`: results as numbers for training.

use super::explain;
use crate::cli::output::table;
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use crate::optimizer::feedback::{Feedback, Sources};
use crate::optimizer::reward::{RewardFunction, Rewarded, Weights};
use clap::Args;
use fleet_config::domain::{LeafIndex, Task, TaskId};
use fleet_config::refusal::Refusal;
use ledger::rank::{RankInput, collect};
use std::collections::BTreeMap;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster reward 5\n  muster reward 5 6 7 --function cuda-agent --second 4 --json\n  muster reward 5 --function penalties --compile-penalty 0.2 --wrong-penalty 1\n\nFunctions: relative (max(0, (b − t) / b), −1 on failure), cuda-agent (−1, 1, 2, 3 with a strict 5 %), apex, penalties.\nA masked result (the fleet's, the task's or the device's fault) has no reward: null in JSON. Exit code 1: refused."
)]
pub(in crate::cli) struct RewardArgs {
    /// Record ids, unique prefixes of at least eight digits, or leaf indices
    #[arg(required = true)]
    pub records: Vec<String>,
    /// Which function: its name, with or without the version that this build has
    #[arg(long, value_name = "NAME", default_value = "relative")]
    pub function: String,
    /// With cuda-agent: the result that stands for the second baseline, such as the compiler's own code
    #[arg(long, value_name = "RECORD")]
    pub second: Option<String>,
    /// With penalties: what it costs not to compile
    #[arg(long, value_name = "WEIGHT", default_value_t = Weights::default().compile)]
    pub compile_penalty: f64,
    /// With penalties: what a wrong result costs
    #[arg(long, value_name = "WEIGHT", default_value_t = Weights::default().wrong)]
    pub wrong_penalty: f64,
    /// With penalties: what it costs to crash, hang or break a limit
    #[arg(long, value_name = "WEIGHT", default_value_t = Weights::default().run)]
    pub run_penalty: f64,
}

/// Runs the subcommand.
pub(super) fn run(context: &Context, args: &RewardArgs) -> Result<Ending, Refusal> {
    let function = function(args)?;
    let reading = Reading::open(&context.state)?;
    let mut shelf = Shelf::of(&reading)?;
    let second = args.second.as_deref().map(|text| shelf.feedback(text)).transpose()?;
    let mut rewards = Vec::with_capacity(args.records.len());
    for text in &args.records {
        let own = shelf.feedback(text)?;
        let against = second.as_ref().map(|second| against(text, &own, second)).transpose()?;
        rewards.push(Rewarded::of(&own, function, against.flatten()));
    }
    context.output.print(&rewards, |rewards| render(rewards));
    Ok(Ending::Done)
}

/// The ratio of a second baseline's time to the candidate's own; none where the candidate has no time.
fn against(text: &str, own: &Feedback, second: &Feedback) -> Result<Option<f64>, Refusal> {
    let is_comparable =
        (&second.task, &second.policy, &second.architecture) == (&own.task, &own.policy, &own.architecture);
    match (second.to_baseline, own.to_baseline) {
        (Some(second), Some(own)) if is_comparable => Ok(Some(own.ratio / second.ratio)),
        (Some(_), None) if is_comparable => Ok(None),
        (Some(_) | None, _) => Err(Refusal::new(
            "reward/second",
            text,
            "the second baseline has no time, or another task, policy or architecture",
            "name an `ok` result of the same task, policy and architecture with --second",
        )),
    }
}

/// The results of the tasks that are asked about, read once however many records are named.
struct Shelf<'a> {
    reading: &'a Reading,
    entries: Vec<(LeafIndex, Vec<u8>)>,
    tasks: BTreeMap<TaskId, (Task, Vec<RankInput>)>,
}

impl<'a> Shelf<'a> {
    fn of(reading: &'a Reading) -> Result<Self, Refusal> {
        let entries = reading.entries(reading.log.size())?;
        Ok(Self { reading, entries, tasks: BTreeMap::new() })
    }

    /// Feedback on one record by itself: a reward needs its own ratio, and no competitor.
    fn feedback(&mut self, text: &str) -> Result<Feedback, Refusal> {
        let (leaf, bytes) = self.reading.find(text)?;
        let record = explain::result(leaf, &bytes)?;
        let unreadable = |cause: String| {
            Refusal::new("reward/task", record.task.to_string(), cause, "run `muster ledger verify`")
        };
        if !self.tasks.contains_key(&record.task) {
            let reading = self.reading;
            let found =
                collect(record.task, self.entries.iter().cloned(), &mut |digest| reading.blob(digest))
                    .map_err(|error| unreadable(error.to_string()))?;
            self.tasks.insert(record.task, found);
        }
        let known = self.tasks.get(&record.task);
        let own = known.and_then(|(task, results)| {
            let own = results.iter().find(|input| input.leaf == leaf)?;
            let results = std::slice::from_ref(own);
            let as_of = self.entries.len() as u64;
            let sources = Sources { task, task_id: record.task, results, as_of };
            Feedback::on(leaf, &sources, None, &|_| None)
        });
        own.ok_or_else(|| unreadable("the result is not among those of its task".to_owned()))
    }
}

fn function(args: &RewardArgs) -> Result<RewardFunction, Refusal> {
    let named: RewardFunction =
        args.function.parse().map_err(|error: crate::optimizer::reward::RewardFunctionError| {
            Refusal::new("reward/unknown-function", "--function", error.to_string(), "name one of them")
        })?;
    let weights = Weights { compile: args.compile_penalty, wrong: args.wrong_penalty, run: args.run_penalty };
    let all = [weights.compile, weights.wrong, weights.run];
    if all.iter().any(|weight| !weight.is_finite() || *weight < 0.0) {
        let cause = "a weight is no finite number of at least 0";
        return Err(Refusal::new("reward/weight", "--…-penalty", cause, "give a number such as 0.5"));
    }
    Ok(match named {
        RewardFunction::Penalties(_) => RewardFunction::Penalties(weights),
        RewardFunction::Relative | RewardFunction::CudaAgent | RewardFunction::Apex => named,
    })
}

fn render(rewards: &[Rewarded]) -> String {
    let row = |rewarded: &Rewarded| {
        let reward = rewarded.reward.map_or_else(|| "–".to_owned(), |reward| format!("{reward:.4}"));
        let why = rewarded.masked.map_or_else(
            || rewarded.ratio.map_or_else(String::new, |ratio| format!("{ratio:.4}× the baseline")),
            |reason| format!("masked: {reason}"),
        );
        vec![rewarded.record.short(), rewarded.status.to_string(), reward, rewarded.function.clone(), why]
    };
    let rows: Vec<Vec<String>> = rewards.iter().map(row).collect();
    table(&["RECORD", "STATUS", "REWARD", "FUNCTION", "FROM"], &rows)
}
