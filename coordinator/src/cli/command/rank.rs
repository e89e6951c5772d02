//! `muster rank`: the ranking of a task, computed from the ledger alone.

use crate::cli::args::RankArgs;
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use fleet_config::refusal::Refusal;
use ledger::rank::{collect, rank, render};

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &RankArgs) -> Result<Ending, Refusal> {
    let reading = Reading::open(&context.state)?;
    let size = reading.log.size();
    let as_of = args.as_of.unwrap_or(size);
    if as_of > size {
        return Err(Refusal::new(
            "rank/as-of",
            as_of.to_string(),
            format!("the ledger has {size} entries"),
            "give a size that the ledger has had",
        ));
    }
    let entries = reading.entries(as_of)?;
    let (id, _) = reading.task(&entries, &args.task)?;
    let (task, results) = collect(id, entries, &mut |digest| reading.blob(digest)).map_err(|error| {
        Refusal::new("rank/task", &args.task, error.to_string(), "run `muster ledger verify`")
    })?;
    let ranking = rank(&task, id, results, as_of, args.sandbox);
    context.output.print(&ranking, render::render);
    Ok(Ending::Done)
}
