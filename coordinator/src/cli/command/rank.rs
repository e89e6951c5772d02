//! `muster rank`: the ranking of a task, computed from the ledger alone; and what other commands ask of the same entries.

use crate::cli::args::RankArgs;
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use fleet_config::domain::{SandboxLevel, Task};
use fleet_config::refusal::Refusal;
use ledger::rank::{RankInput, Ranking, collect, rank, render};

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &RankArgs) -> Result<Ending, Refusal> {
    let reading = Reading::of(&context.state, &args.source)?;
    let answer = ask_of(&reading, &args.task, args.as_of, args.sandbox)?;
    context.output.print(&answer.ranking, render::render);
    Ok(Ending::Done)
}

/// A ranking with what it was made from.
pub(super) struct Answer {
    pub task: Task,
    pub results: Vec<RankInput>,
    pub ranking: Ranking,
}

/// Ranks `task`, named by name, id or prefix, as the ledger stood at `as_of` or stands now.
pub(super) fn ask(
    context: &Context,
    task: &str,
    as_of: Option<u64>,
    least: SandboxLevel,
) -> Result<Answer, Refusal> {
    ask_of(&Reading::open(&context.state)?, task, as_of, least)
}

/// The same of a ledger that is open already.
pub(super) fn ask_of(
    reading: &Reading,
    task: &str,
    as_of: Option<u64>,
    least: SandboxLevel,
) -> Result<Answer, Refusal> {
    let size = reading.log.size();
    let as_of = as_of.unwrap_or(size);
    if as_of > size {
        return Err(Refusal::new(
            "rank/as-of",
            as_of.to_string(),
            format!("the ledger has {size} entries"),
            "give a size that the ledger has had",
        ));
    }
    let entries = reading.entries(as_of)?;
    let (id, _) = reading.task(&entries, task)?;
    let (task, results) = collect(id, entries, &mut |digest| reading.blob(digest))
        .map_err(|error| Refusal::new("rank/task", task, error.to_string(), "run `muster ledger verify`"))?;
    let ranking = rank(&task, id, results.clone(), as_of, least);
    Ok(Answer { task, results, ranking })
}
