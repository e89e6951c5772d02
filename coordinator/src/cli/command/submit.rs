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
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often a broken event stream is taken up again before `--wait` gives up.
const RESUMES_MAX: u32 = 240;

/// Pause before a broken stream is taken up: with the above two minutes for a coordinator to come back.
const RESUME_AFTER: Duration = Duration::from_millis(500);

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
    eprintln!("muster: submission {submission}");
    follow(context, submission, receipt.cells).await?;
    let cells = cells_of(context, submission).await?;
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

/// Every device class of the nodes that are ready. CPUs and GPUs are measured by different policies and never
/// ranked together, so a fleet of both needs to be told.
async fn fleet_classes(client: &mut Client) -> Result<Vec<String>, Refusal> {
    let nodes: Vec<NodeView> = client.get("/v1/nodes").await?;
    let classes = classes_of(&nodes)?;
    if classes.len() > 1 {
        eprintln!("muster: on {}", classes.join(", "));
    }
    Ok(classes)
}

fn classes_of(nodes: &[NodeView]) -> Result<Vec<String>, Refusal> {
    let ready = nodes.iter().filter(|node| node.state == "ready");
    let devices: Vec<_> = ready.flat_map(|node| node.devices.iter()).collect();
    let of = |kind: &str| -> BTreeSet<String> {
        let of_kind = devices.iter().filter(|device| device.kind == kind);
        of_kind.map(|device| device.architecture.clone()).collect()
    };
    let (cpus, gpus) = (of("cpu"), of("gpu"));
    if cpus.is_empty() && gpus.is_empty() {
        return Err(Refusal::new(
            "submit/no-node",
            "--on",
            "no node takes work now, so there is no class to choose",
            "see `muster node list`, or name classes with --on: their cells wait until a node takes them",
        ));
    }
    if cpus.is_empty() || gpus.is_empty() {
        return Ok(cpus.into_iter().chain(gpus).collect());
    }
    let list = |classes: &BTreeSet<String>| classes.iter().cloned().collect::<Vec<_>>().join(",");
    Err(Refusal::new(
        "submit/mixed-fleet",
        "--on",
        format!(
            "this fleet has CPUs ({}) and GPUs ({}), which are measured by different policies",
            list(&cpus),
            list(&gpus)
        ),
        format!("say which: --on {} or --on {}", list(&gpus), list(&cpus)),
    ))
}

/// The cells of a submission; a coordinator that is being started again is waited for.
async fn cells_of(context: &Context, submission: SubmissionId) -> Result<Vec<CellView>, Refusal> {
    let ask =
        async || Client::connect(&context.state).await?.get(&format!("/v1/submissions/{submission}")).await;
    for _ in 0..RESUMES_MAX {
        match ask().await {
            Err(refusal) if is_away(&refusal) => tokio::time::sleep(RESUME_AFTER).await,
            answer => return answer,
        }
    }
    ask().await
}

/// Whether the coordinator may be there again in a moment.
fn is_away(refusal: &Refusal) -> bool {
    matches!(
        refusal.code.as_ref(),
        "coordinator/not-running" | "coordinator/no-answer" | "coordinator/recovering"
    )
}

/// Follows the event stream to its end. A broken stream is taken up from its beginning: a coordinator that was
/// started again counts its events anew, and what was shown before is not shown twice.
async fn follow(context: &Context, submission: SubmissionId, cells: u64) -> Result<(), Refusal> {
    let progress = Progress::new(context, cells);
    for _ in 0..RESUMES_MAX {
        match follow_once(context, submission, &progress).await {
            Ok(Followed::ToItsEnd) => {
                progress.finish();
                return Ok(());
            }
            Ok(Followed::Broken) => {}
            Err(refusal) if is_away(&refusal) => {}
            Err(refusal) => return Err(refusal),
        }
        tokio::time::sleep(RESUME_AFTER).await;
    }
    Err(Refusal::new(
        "coordinator/no-answer",
        submission.to_string(),
        "the event stream broke too often",
        "the submission goes on; look with `muster status ID`",
    ))
}

/// How one stream ended.
enum Followed {
    ToItsEnd,
    Broken,
}

async fn follow_once(
    context: &Context,
    submission: SubmissionId,
    progress: &Progress,
) -> Result<Followed, Refusal> {
    let mut client = Client::connect(&context.state).await?;
    let mut body = client.stream(&format!("/v1/submissions/{submission}/events?after=0")).await?;
    let mut text = String::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        text.push_str(&String::from_utf8_lossy(data));
        while let Some(end) = text.find("\n\n") {
            let block: String = text.drain(..end + 2).collect();
            let Some(event) = parse(&block) else { continue };
            progress.show(&event);
            if event.kind == "done" {
                return Ok(Followed::ToItsEnd);
            }
        }
    }
    // Where the log of a submission was lost with a restart, the cells themselves tell whether it is over.
    let cells: Vec<CellView> =
        Client::connect(&context.state).await?.get(&format!("/v1/submissions/{submission}")).await?;
    let is_over = |cell: &CellView| matches!(cell.state.as_str(), "finished" | "ended");
    let over = !cells.is_empty() && cells.iter().all(is_over);
    Ok(if over { Followed::ToItsEnd } else { Followed::Broken })
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
    /// Cells that were told to be finished: a coordinator that was started again tells them once more.
    finished: std::cell::RefCell<BTreeSet<String>>,
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
        Self { bar, plain, stages: std::cell::RefCell::default(), finished: std::cell::RefCell::default() }
    }

    fn show(&self, event: &WatchEvent) {
        let mut stages = self.stages.borrow_mut();
        match event.kind.as_str() {
            "finished" => {
                stages.remove(&event.cell);
                if !self.finished.borrow_mut().insert(event.cell.clone()) {
                    return;
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::request::DeviceView;

    fn node(state: &str, devices: &[(&str, &str)]) -> NodeView {
        let device = |(kind, architecture): &(&str, &str)| DeviceView {
            id: String::new(),
            kind: (*kind).to_owned(),
            architecture: (*architecture).to_owned(),
            model: String::new(),
            running: String::new(),
        };
        NodeView {
            node: String::new(),
            name: String::new(),
            state: state.to_owned(),
            devices: devices.iter().map(device).collect(),
        }
    }

    #[test]
    fn a_fleet_of_one_kind_needs_no_target_and_a_mixed_one_does() {
        let (old, new) = (("cpu", "cpu:x86-64-v2"), ("cpu", "cpu:x86-64-v3"));
        let gpu = ("gpu", "nvidia:sm_90a");
        let cpus = [node("ready", &[new]), node("ready", &[old, new]), node("ready, away", &[gpu])];
        assert_eq!(classes_of(&cpus).unwrap(), ["cpu:x86-64-v2", "cpu:x86-64-v3"]);
        assert_eq!(classes_of(&[node("ready", &[gpu])]).unwrap(), ["nvidia:sm_90a"]);
        let refusal = classes_of(&[node("ready", &[old, gpu])]).unwrap_err();
        assert_eq!(refusal.code, "submit/mixed-fleet");
        assert!(refusal.next.contains("--on nvidia:sm_90a") && refusal.next.contains("--on cpu:x86-64-v2"));
        assert_eq!(classes_of(&[]).unwrap_err().code, "submit/no-node");
    }
}
