//! `muster explain`: one result as feedback for whoever proposed the candidate.

use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use crate::optimizer::feedback::{Feedback, Sources, long, short};
use clap::Args;
use fleet_config::domain::{Candidate, CandidateId, Digest, LeafIndex, SourcePlace, TaskId, canonical};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::{Evidence, Kind, ResultRecord};
use ledger::entry::{Body, Entry};
use ledger::rank::collect;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster explain 5\n  muster explain 3fa9c1d2b7e0 --short\n  muster explain 5 --json\n\nNothing of sealed cases is told: a verification is no result. Exit code 1: refused."
)]
pub(in crate::cli) struct ExplainArgs {
    /// Record id, a unique prefix of at least eight digits, or a leaf index
    pub record: String,
    /// One line
    #[arg(long)]
    pub short: bool,
}

/// Runs the subcommand.
pub(super) fn run(context: &Context, args: &ExplainArgs) -> Result<Ending, Refusal> {
    let reading = Reading::open(&context.state)?;
    let (leaf, bytes) = reading.find(&args.record)?;
    let (feedback, _) = look(&reading, leaf, &bytes)?;
    context.output.print(&feedback, if args.short { short } else { long });
    Ok(Ending::Done)
}

/// Feedback on the entry `bytes` at `leaf`, against everything that the ledger holds now, and what validation saw.
pub(super) fn look(
    reading: &Reading,
    leaf: LeafIndex,
    bytes: &[u8],
) -> Result<(Feedback, Option<Evidence>), Refusal> {
    let record = result(leaf, bytes)?;
    let as_of = reading.log.size();
    let entries = reading.entries(as_of)?;
    let unreadable = |cause: String| {
        Refusal::new("explain/task", record.task.to_string(), cause, "run `muster ledger verify`")
    };
    let (task, results) = collect(record.task, entries, &mut |digest| reading.blob(digest))
        .map_err(|error| unreadable(error.to_string()))?;
    let evidence = record.evidence.and_then(|evidence| reading.blob(&evidence.blake3));
    let evidence = evidence.and_then(|bytes| canonical::from_bytes::<Evidence>(&bytes).ok());
    let task_id: TaskId = record.task;
    let sources = Sources { task: &task, task_id, results: &results, as_of };
    let line = |place: &SourcePlace| line(reading, record.candidate, place);
    let feedback = Feedback::on(leaf, &sources, evidence.as_ref(), &line)
        .ok_or_else(|| unreadable("the result is not among those of its task".to_owned()))?;
    Ok((feedback, evidence))
}

/// The result that an entry is.
pub(super) fn result(leaf: LeafIndex, bytes: &[u8]) -> Result<Box<ResultRecord>, Refusal> {
    let entry = Entry::read(bytes).map_err(|error| {
        Refusal::new("explain/entry", leaf.to_string(), error.to_string(), "run `muster ledger verify`")
    })?;
    let kind = entry.body.kind().map_or("of an unknown kind", Kind::word);
    let Body::Result(record) = entry.body else {
        let next = "name a result: `muster rank TASK` and `muster status SUBMISSION` show them";
        let cause = format!("this entry is no result but `{kind}`");
        return Err(Refusal::new("explain/no-result", leaf.to_string(), cause, next));
    };
    Ok(record)
}

/// The text of a line of a candidate's source.
fn line(reading: &Reading, candidate: CandidateId, place: &SourcePlace) -> Option<String> {
    let candidate: Candidate = canonical::from_bytes(&reading.blob(&Digest(candidate.0))?).ok()?;
    let file = candidate.source.files.iter().find(|file| file.path == place.file)?;
    let text = reading.blob(&file.blob.blake3)?;
    let number = usize::try_from(place.line.checked_sub(1)?).ok()?;
    String::from_utf8_lossy(&text).lines().nth(number).map(str::to_owned)
}
