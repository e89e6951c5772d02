//! `muster status` and `muster cancel`: one submission, or the whole fleet.

use crate::cli::args::StatusArgs;
use crate::cli::client::{Client, segment};
use crate::cli::output::{counted, short, table};
use crate::cli::{Context, Ending};
use crate::driver::pace::{NIGHT_HOURS, PaceView};
use crate::driver::request::{CellView, SubmissionView};
use crate::http::body::{CountView, SummaryView};
use fleet_config::refusal::Refusal;

/// Runs the subcommand.
pub(crate) async fn run(context: &Context, args: &StatusArgs) -> Result<Ending, Refusal> {
    let mut client = Client::connect(&context.state).await?;
    match &args.submission {
        Some(id) => {
            let cells: Vec<CellView> = client.get(&format!("/v1/submissions/{}", segment(id))).await?;
            context.output.print(&cells, |cells| render(cells));
        }
        None => {
            let summary: SummaryView = client.get("/v1/summary").await?;
            context.output.print(&summary, fleet);
        }
    }
    Ok(Ending::Done)
}

fn fleet(summary: &SummaryView) -> String {
    let totals = &summary.totals;
    let mut lines = vec![
        format!(
            "coordinator  {} (process {}), nodes connect to {}",
            summary.version, summary.process, summary.listening
        ),
        format!("ledger       {}, {} entries", summary.origin, summary.ledger_size),
        format!("nodes        {} ready of {}", totals.nodes_ready, totals.nodes),
        format!(
            "cells        {} queued, {} running, {} finished in {} open submissions",
            totals.cells_queued, totals.cells_running, totals.cells_finished, totals.submissions_open
        ),
    ];
    lines.extend(totals.pace.as_ref().map(pace));
    if !summary.recent.is_empty() {
        let rows: Vec<_> = summary.recent.iter().map(recent).collect();
        lines.push(String::new());
        lines.push(table(&["SUBMISSION", "TASK", "CELLS", "CANDIDATES"], &rows));
    }
    lines.join("\n")
}

/// Whether it is worth waiting, and what a night brings.
fn pace(pace: &PaceView) -> String {
    let PaceView { experiments, seconds, per_hour, per_night } = pace;
    let experiments = counted(usize::try_from(*experiments).unwrap_or(usize::MAX), "experiment");
    let (minutes, tenths) = (seconds / 60, seconds % 60 / 6);
    format!(
        "pace         {experiments} in the last {minutes}.{tenths} min: {per_hour} an hour, {per_night} in a night of {NIGHT_HOURS} h if it goes on like that"
    )
}

/// One of the newest submissions, by the digits that `muster status` takes.
fn recent(view: &SubmissionView) -> Vec<String> {
    let named = view.candidates.len() as u64;
    let more = view.candidates_total.saturating_sub(named);
    let further = if more > 0 { format!(" and {more} more") } else { String::new() };
    let cells = match view.open {
        0 => format!("{} over", view.cells),
        open => format!("{} over of {}", view.cells.saturating_sub(open), view.cells),
    };
    vec![
        short(&view.submission.to_string()).to_owned(),
        view.name.clone(),
        cells,
        format!("{}{further}", view.candidates.join(", ")),
    ]
}

/// `muster cancel`: ends what is open of a submission.
pub(crate) async fn cancel(context: &Context, submission: &str) -> Result<Ending, Refusal> {
    let mut client = Client::connect(&context.state).await?;
    let path = format!("/v1/submissions/{}/cancel", segment(submission));
    let count: CountView = client.post(&path, &serde_json::json!({})).await?;
    context.output.print(&count, |count| {
        let cells = counted(usize::try_from(count.count).unwrap_or(usize::MAX), "cell");
        format!("cancelled {cells} that were open")
    });
    Ok(Ending::Done)
}

/// The cells of a submission as a table.
pub(crate) fn render(cells: &[CellView]) -> String {
    let row = |cell: &CellView| {
        let name = if cell.name.is_empty() { short(&cell.candidate).to_owned() } else { cell.name.clone() };
        let index = cell.index.map_or_else(String::new, |index| format!("leaf {index}"));
        let index = if cell.reused { format!("{index} (earlier result)") } else { index };
        vec![
            name,
            cell.class.clone(),
            cell.state.clone(),
            cell.detail.clone(),
            cell.attempts.to_string(),
            index,
        ]
    };
    let rows: Vec<_> = cells.iter().map(row).collect();
    table(&["CANDIDATE", "CLASS", "STATE", "DETAIL", "ATTEMPTS", "RECORD"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_told_with_what_it_rests_on() {
        let view = PaceView { experiments: 602, seconds: 251, per_hour: 8634, per_night: 69_075 };
        let told = "pace         602 experiments in the last 4.1 min: 8634 an hour, 69075 in a night of 8 h if it goes on like that";
        assert_eq!(pace(&view), told);
    }
}
