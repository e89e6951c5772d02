//! `muster export`: records as JSON lines, CSV or DSSE envelopes, one at a time: memory does not grow with the ledger.

mod sink;

use crate::cli::moment::AsOf;
use crate::cli::output::note;
use crate::cli::query_args::{ExportArgs, ExportFormat};
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use fleet_config::domain::Digest;
use fleet_config::refusal::Refusal;
use indicatif::ProgressBar;
use ledger::entry::Envelope;
use ledger::query::{Query, Row, Unheard, csv};
use serde::Serialize;
use serde::de::IgnoredAny;
use sink::Sink;

/// What was exported; stated apart from the rows, so that those are of one shape.
#[derive(Debug, Serialize)]
struct Answer {
    #[serde(rename = "as_of")]
    moment: AsOf,
    rows: u64,
    unmatched: Unheard,
    file: Option<String>,
    /// Where the leaves of an export of envelopes stand.
    leaves: Option<String>,
}

/// Runs the command.
pub(crate) fn run(context: &Context, args: &ExportArgs) -> Result<Ending, Refusal> {
    let reading = Reading::of(&context.state, &args.source)?;
    let moment = AsOf::of(&reading, args.as_of)?;
    let mut query = Query::new(args.filter.filter());
    let mut sink = Sink::open(args.out.as_deref(), args.format == ExportFormat::Intoto)?;
    if args.format == ExportFormat::Csv {
        sink.write(csv::header().as_bytes())?;
    }
    let progress = match context.output.shows_progress() && args.out.is_some() {
        true => ProgressBar::new(moment.tree_size),
        false => ProgressBar::hidden(),
    };
    let mut blob = |digest: &Digest| reading.blob(digest);
    let mut rows = 0_u64;
    for entry in reading.stream(moment.tree_size) {
        let (leaf, bytes) = entry?;
        progress.set_position(leaf.0);
        let Some(row) = query.take(leaf, &bytes, &mut blob) else { continue };
        match args.format {
            ExportFormat::Csv => sink.write(csv::line(&row).as_bytes())?,
            ExportFormat::Jsonl => sink.write(&json_line(&row, &bytes))?,
            // What is no envelope would break the file for every reader; its place is told by its absence in the leaves.
            ExportFormat::Intoto if Envelope::parse(&bytes).is_err() => {
                note(&format!("entry {leaf} is no envelope and is left out; run `muster ledger verify`"));
                continue;
            }
            ExportFormat::Intoto => {
                sink.write(&[bytes.as_slice(), b"\n"].concat())?;
                let record = row.record.map(|record| record.to_string()).unwrap_or_default();
                sink.note_leaf(&format!("{leaf} {record} {}\n", row.kind))?;
            }
        }
        rows += 1;
        if sink.is_unread() {
            return Ok(Ending::Done);
        }
    }
    progress.finish_and_clear();
    let (file, leaves) = sink.finish()?;
    let answer = Answer { moment, rows, unmatched: query.unheard(), file, leaves };
    match &answer.file {
        Some(_) => context.output.print(&answer, render),
        // Standard output holds the rows and nothing else.
        None => note(&render(&answer)),
    }
    Ok(Ending::Done)
}

fn render(answer: &Answer) -> String {
    let file = answer.file.as_deref().unwrap_or("standard output");
    let mut lines = vec![format!("{} rows to {file}", answer.rows)];
    lines
        .extend(answer.unmatched.iter().map(|name| format!("nothing that was looked at is called `{name}`")));
    lines.push(answer.moment.line());
    lines.join("\n")
}

/// A row with the statement that it was made of, in its own bytes: canonical JSON has no line end in it.
fn json_line(row: &Row, bytes: &[u8]) -> Vec<u8> {
    let payload = Envelope::parse(bytes).map(|envelope| envelope.payload).unwrap_or_default();
    let is_line = serde_json::from_slice::<IgnoredAny>(&payload).is_ok() && !payload.contains(&b'\n');
    let statement = if is_line { payload } else { b"null".to_vec() };
    let row_text = serde_json::to_vec(row).unwrap_or_else(|_| b"null".to_vec());
    let leaf = row.leaf.0.to_string();
    let parts: [&[u8]; 7] =
        [b"{\"leaf\":", leaf.as_bytes(), b",\"row\":", &row_text, b",\"statement\":", &statement, b"}\n"];
    parts.concat()
}
