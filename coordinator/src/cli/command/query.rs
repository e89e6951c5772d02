//! `muster query`: entries by what they say, from the ledger alone, as of any moment.

use crate::cli::moment::AsOf;
use crate::cli::output::{counted, short, table};
use crate::cli::query_args::QueryArgs;
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use fleet_config::domain::Digest;
use fleet_config::refusal::Refusal;
use ledger::query::{Query, Row, Unheard};
use serde::Serialize;
use std::collections::VecDeque;

#[derive(Debug, Serialize)]
struct Answer {
    #[serde(rename = "as_of")]
    moment: AsOf,
    /// Rows that fit.
    matched: u64,
    /// Whether all of them are shown.
    complete: bool,
    /// Names that were asked for and that fitted nothing.
    unmatched: Unheard,
    /// In order of leaves; the newest where not all are shown.
    rows: VecDeque<Row>,
}

/// Runs the command.
pub(crate) fn run(context: &Context, args: &QueryArgs) -> Result<Ending, Refusal> {
    let reading = Reading::of(&context.state, &args.source)?;
    let moment = AsOf::of(&reading, args.as_of)?;
    let mut query = Query::new(args.filter.filter());
    let mut blob = |digest: &Digest| reading.blob(digest);
    let (mut rows, mut matched) = (VecDeque::new(), 0_u64);
    let shown = args.limit as usize;
    for entry in reading.stream(moment.tree_size) {
        let (leaf, bytes) = entry?;
        let Some(row) = query.take(leaf, &bytes, &mut blob) else { continue };
        matched += 1;
        if rows.len() == shown {
            rows.pop_front();
        }
        rows.push_back(row);
    }
    let complete = rows.len() as u64 == matched;
    let answer = Answer { moment, matched, complete, unmatched: query.unheard(), rows };
    context.output.print(&answer, render);
    Ok(Ending::Done)
}

fn render(answer: &Answer) -> String {
    let header =
        ["LEAF", "KIND", "TASK", "CANDIDATE", "CLASS", "NODE", "STATUS", "SPEED-UP", "TIME", "RECORD"];
    let id = |id: Option<String>| id.map(|id| short(&id).to_owned()).unwrap_or_default();
    let row = |row: &Row| {
        let speedup = row.speedup.map(|s| format!("{:.3}", s.0 as f64 * 1e-9)).unwrap_or_default();
        vec![
            row.leaf.to_string(),
            row.kind.clone(),
            row.task_name.clone().unwrap_or_else(|| id(row.task.map(|t| t.to_string()))),
            row.candidate_name.clone().unwrap_or_else(|| id(row.candidate.map(|c| c.to_string()))),
            row.architecture.clone().unwrap_or_default(),
            row.node_name.clone().unwrap_or_else(|| id(row.node.map(|n| n.to_string()))),
            row.status.map(|s| s.to_string()).or_else(|| row.code.clone()).unwrap_or_default(),
            speedup,
            row.time.clone().unwrap_or_default(),
            id(row.record.map(|r| r.to_string())),
        ]
    };
    let rows: Vec<Vec<String>> = answer.rows.iter().map(row).collect();
    let mut lines = Vec::new();
    if !rows.is_empty() {
        lines.push(table(&header, &rows));
    }
    lines.push(if answer.complete {
        format!("{}, all of them", counted(rows.len(), "row"))
    } else {
        format!(
            "the newest {} of {} rows; --limit shows more, `muster export` all",
            rows.len(),
            answer.matched
        )
    });
    lines
        .extend(answer.unmatched.iter().map(|name| format!("nothing that was looked at is called `{name}`")));
    lines.push(answer.moment.line());
    lines.join("\n")
}
