//! `muster status` and `muster cancel`: one submission, or the whole fleet.

use crate::cli::args::StatusArgs;
use crate::cli::client::Client;
use crate::cli::output::{short, table};
use crate::cli::{Context, Ending};
use crate::driver::request::CellView;
use crate::http::body::{CountView, SummaryView};
use fleet_config::refusal::Refusal;

/// Runs the subcommand.
pub(crate) async fn run(context: &Context, args: &StatusArgs) -> Result<Ending, Refusal> {
    let mut client = Client::connect(&context.state).await?;
    match &args.submission {
        Some(id) => {
            let cells: Vec<CellView> = client.get(&format!("/v1/submissions/{id}")).await?;
            context.output.print(&cells, |cells| render(cells));
        }
        None => {
            let summary: SummaryView = client.get("/v1/summary").await?;
            context.output.print(&summary, |summary| {
                let totals = &summary.totals;
                format!(
                    "coordinator  {} (process {}), nodes connect to {}\nledger       {}, {} entries\nnodes        {} ready of {}\ncells        {} queued, {} running, {} finished in {} open submissions",
                    summary.version, summary.process, summary.listening, summary.origin, summary.ledger_size,
                    totals.nodes_ready, totals.nodes, totals.cells_queued, totals.cells_running,
                    totals.cells_finished, totals.submissions_open
                )
            });
        }
    }
    Ok(Ending::Done)
}

/// `muster cancel`: ends what is open of a submission.
pub(crate) async fn cancel(context: &Context, submission: &str) -> Result<Ending, Refusal> {
    let mut client = Client::connect(&context.state).await?;
    let path = format!("/v1/submissions/{submission}/cancel");
    let count: CountView = client.post(&path, &serde_json::json!({})).await?;
    context.output.print(&count, |count| format!("cancelled {} cells that were open", count.count));
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
