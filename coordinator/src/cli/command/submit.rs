//! `muster submit`: sends candidates, shows the receipt, and follows the cells if asked to.

use super::status;
use crate::cli::args::SubmitArgs;
use crate::cli::client::Client;
use crate::cli::{Context, Ending};
use crate::driver::request::{CellView, NodeView};
use crate::driver::watch::WatchEvent;
use crate::http::body::{Receipt, SubmitBody};
use fleet_config::config::{lint_candidate, load};
use fleet_config::domain::{BlobRef, Reuse, SubmissionId, Task};
use fleet_config::refusal::Refusal;
use http_body_util::BodyExt;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a broken event stream is taken up again before `--wait` gives up.
const RESUMES_MAX: u32 = 20;

#[derive(Debug, Serialize)]
struct Answer {
    receipt: Receipt,
    /// Empty without `--wait`.
    cells: Vec<CellView>,
}

/// Runs the subcommand.
pub(crate) async fn run(context: &Context, args: &SubmitArgs) -> Result<Ending, Refusal> {
    let mut client = Client::connect(&context.state).await?;
    let task: Task = client.get(&format!("/v1/tasks/{}", args.task)).await?;
    let task_id = task.id().map_err(|error| {
        Refusal::new("task/not-canonical", &args.task, error.to_string(), "add the task again")
    })?;
    let mut candidates = Vec::new();
    for path in &args.candidates {
        let loaded = load::candidates(path, &task.entry, task.limits.source).map_err(first)?;
        for one in loaded {
            for warning in lint_candidate(&task, &one.candidate).warnings {
                eprintln!("muster: warning: {warning}");
            }
            for (_, bytes) in one.blobs {
                let _stored: BlobRef = client.put("/v1/blobs", bytes).await?;
            }
            candidates.push(one.candidate);
        }
    }
    let targets = if args.on.is_empty() { fleet_classes(&mut client).await? } else { args.on.clone() };
    let reuse = if args.fresh { Reuse::Fresh } else { Reuse::Allowed };
    let body = SubmitBody {
        task: task_id,
        candidates,
        targets,
        policy: args.policy.clone(),
        reuse,
        nonce: args.nonce.clone(),
    };
    let receipt: Receipt = client.post("/v1/submissions", &body).await?;
    if let Some(path) = &args.receipt {
        let text = serde_json::to_string_pretty(&receipt).unwrap_or_default();
        std::fs::write(path, text).map_err(|error| crate::state::io(&path.display().to_string(), &error))?;
    }
    for warning in &receipt.warnings {
        eprintln!("muster: warning: {warning}");
    }
    let submission = receipt.submission;
    if !args.wait {
        context.output.print(&Answer { receipt, cells: Vec::new() }, |answer| {
            format!(
                "submitted {}: {} cells, {} answered from the ledger\nfollow it with: muster status {}",
                answer.receipt.submission,
                answer.receipt.cells,
                answer.receipt.reused,
                answer.receipt.submission
            )
        });
        return Ok(Ending::Done);
    }
    follow(context, submission, receipt.cells).await?;
    let cells: Vec<CellView> = client.get(&format!("/v1/submissions/{submission}")).await?;
    let unanswered = cells.iter().any(|cell| cell.state == "ended");
    context.output.print(&Answer { receipt, cells }, |answer| status::render(&answer.cells));
    Ok(if unanswered { Ending::Unanswered } else { Ending::Done })
}

/// The first of several refusals; the others are printed before it.
fn first(mut refusals: Vec<Refusal>) -> Refusal {
    for other in refusals.split_off(1.min(refusals.len())) {
        eprintln!("muster: {other}");
    }
    refusals
        .pop()
        .unwrap_or_else(|| Refusal::new("internal/empty", "", "no refusal in an error", "report this"))
}

/// Every device class of the nodes that are ready.
async fn fleet_classes(client: &mut Client) -> Result<Vec<String>, Refusal> {
    let nodes: Vec<NodeView> = client.get("/v1/nodes").await?;
    let ready = nodes.iter().filter(|node| node.state == "ready");
    let mut classes: Vec<_> =
        ready.flat_map(|node| node.devices.iter().map(|d| d.architecture.clone())).collect();
    classes.sort();
    classes.dedup();
    Ok(classes)
}

/// Follows the event stream to its end; a broken stream is taken up after the last event seen.
async fn follow(context: &Context, submission: SubmissionId, cells: u64) -> Result<(), Refusal> {
    let progress = Progress::new(context, cells);
    let mut after = 0;
    for _ in 0..RESUMES_MAX {
        let Ok(mut client) = Client::connect(&context.state).await else {
            // The coordinator may be restarting; it will know the submission again.
            tokio::time::sleep(Duration::from_millis(500)).await;
            continue;
        };
        let mut body = client.stream(&format!("/v1/submissions/{submission}/events?after={after}")).await?;
        let mut text = String::new();
        while let Some(Ok(frame)) = body.frame().await {
            let Some(data) = frame.data_ref() else { continue };
            text.push_str(&String::from_utf8_lossy(data));
            while let Some(end) = text.find("\n\n") {
                let block: String = text.drain(..end + 2).collect();
                let Some(event) = parse(&block) else { continue };
                after = event.sequence;
                progress.show(&event);
                if event.kind == "done" {
                    progress.finish();
                    return Ok(());
                }
            }
        }
        // Where the log of a submission was lost with a restart, the cells themselves tell whether it is over.
        let view: Vec<CellView> = match Client::connect(&context.state).await {
            Ok(mut client) => client.get(&format!("/v1/submissions/{submission}")).await?,
            Err(_) => continue,
        };
        if !view.is_empty() && view.iter().all(|cell| matches!(cell.state.as_str(), "finished" | "ended")) {
            progress.finish();
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Err(Refusal::new(
        "coordinator/no-answer",
        submission.to_string(),
        "the event stream broke too often",
        "the submission goes on; look with `muster status ID`",
    ))
}

fn parse(block: &str) -> Option<WatchEvent> {
    let data = block.lines().find_map(|line| line.strip_prefix("data:"))?;
    serde_json::from_str(data.trim()).ok()
}

/// A bar on a terminal, plain lines elsewhere, nothing with `--json`.
struct Progress {
    bar: Option<ProgressBar>,
    plain: bool,
    stages: std::cell::RefCell<BTreeMap<String, String>>,
}

impl Progress {
    fn new(context: &Context, cells: u64) -> Self {
        let bar = context.output.shows_progress().then(|| {
            let bar = ProgressBar::new(cells);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} cells  {elapsed}  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let plain = bar.is_none() && context.output == crate::cli::output::Output::Text;
        Self { bar, plain, stages: std::cell::RefCell::default() }
    }

    fn show(&self, event: &WatchEvent) {
        let mut stages = self.stages.borrow_mut();
        match event.kind.as_str() {
            "finished" => {
                stages.remove(&event.cell);
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                }
                if self.plain {
                    eprintln!("cell {}  {}", crate::cli::output::short(&event.cell), event.detail);
                }
            }
            "leased" | "stage" | "retried" => {
                stages.insert(event.cell.clone(), event.detail.clone());
            }
            _ => {}
        }
        if let Some(bar) = &self.bar {
            let words: Vec<_> = stages.values().filter(|stage| !stage.is_empty()).cloned().collect();
            bar.set_message(words.join(", "));
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
