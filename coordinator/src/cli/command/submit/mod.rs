//! `muster submit`: sends candidates, shows the receipt, and follows the cells if asked to.

mod candidates;
mod follow;
mod progress;
mod target;

pub(super) use candidates::CandidateText;
pub(super) use target::fleet_classes;

use super::status;
use crate::cli::args::SubmitArgs;
use crate::cli::client::{Client, segment};
use crate::cli::output::note;
use crate::cli::{Context, Ending};
use crate::driver::request::CellView;
use crate::http::body::{Receipt, SubmitBody};
use candidates::Candidates;
use fleet_config::domain::{Reuse, SubmissionId, Task, TaskId};
use fleet_config::refusal::Refusal;
use progress::Progress;
use serde::Serialize;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

#[derive(Debug, Serialize)]
struct Answer {
    receipt: Receipt,
    /// What the files themselves made worth saying; the receipt has the coordinator's warnings.
    warnings: Vec<Refusal>,
    /// Empty without `--wait`.
    cells: Vec<CellView>,
}

/// Runs the subcommand. The id of the submission is told before anything else, so that whoever is interrupted can
/// ask for it later.
pub(crate) async fn run(context: &Context, args: &SubmitArgs) -> Result<Ending, Refusal> {
    let mut client = Client::connect(&context.state).await?;
    let Sent { candidates, targets, receipt } = post(&mut client, args).await?;
    let submission = receipt.submission;
    if args.wait {
        note(&format!("submission {submission}"));
    }
    if let Some(path) = &args.receipt {
        let text = serde_json::to_string_pretty(&receipt).unwrap_or_default();
        std::fs::write(path, text).map_err(|error| crate::state::io(&path.display().to_string(), &error))?;
    }
    if args.on.is_empty() && targets.len() > 1 {
        note(&format!("on {}", targets.join(", ")));
    }
    for warning in candidates.warnings.iter().chain(&receipt.warnings) {
        note(&format!("warning: {warning}"));
    }
    let cells = if args.wait {
        let labels = candidates.labels(submission, &targets);
        let mut progress = Progress::new(context, receipt.cells, labels);
        follow::follow(context, submission, &mut progress, Duration::from_secs(args.reconnect)).await?
    } else {
        Vec::new()
    };
    let unanswered = cells.iter().any(|cell| cell.state == "ended");
    let answer = Answer { receipt, warnings: candidates.warnings, cells };
    context
        .output
        .print(&answer, |answer| if args.wait { status::render(&answer.cells) } else { accepted(answer) });
    Ok(if unanswered { Ending::Unanswered } else { Ending::Done })
}

/// What was sent, and the answer.
struct Sent {
    candidates: Candidates,
    targets: Vec<String>,
    receipt: Receipt,
}

async fn post(client: &mut Client, args: &SubmitArgs) -> Result<Sent, Refusal> {
    let (task, id) = task(client, args).await?;
    let candidates = Candidates::read(client, &task, &args.candidates).await?;
    put(client, id, candidates, args).await
}

async fn task(client: &mut Client, args: &SubmitArgs) -> Result<(Task, TaskId), Refusal> {
    let task: Task = client.get(&format!("/v1/tasks/{}", segment(&args.task))).await?;
    let task_id = task.id().map_err(|error| {
        Refusal::new("task/not-canonical", &args.task, error.to_string(), "add the task again")
    })?;
    Ok((task, task_id))
}

async fn put(
    client: &mut Client,
    task: TaskId,
    candidates: Candidates,
    args: &SubmitArgs,
) -> Result<Sent, Refusal> {
    let targets = if args.on.is_empty() { fleet_classes(client).await? } else { args.on.clone() };
    let reuse = if args.fresh { Reuse::Fresh } else { Reuse::Allowed };
    let body = SubmitBody {
        task,
        candidates: candidates.documents(),
        targets: targets.clone(),
        policy: args.policy.clone(),
        screens: args.screens.clone(),
        stages: args.stages.clone(),
        toolchain: args.toolchain,
        flags: args.flag.clone(),
        reuse,
        nonce: args.nonce.clone(),
    };
    let receipt: Receipt = client.post("/v1/submissions", &body).await?;
    Ok(Sent { candidates, targets, receipt })
}

/// Sends without a word.
pub(super) async fn send(client: &mut Client, args: &SubmitArgs) -> Result<Receipt, Refusal> {
    Ok(post(client, args).await?.receipt)
}

/// Sends candidates that came as text, without a word; answers with what their submitter should know, too.
pub(super) async fn send_texts(
    client: &mut Client,
    texts: Vec<CandidateText>,
    args: &SubmitArgs,
) -> Result<(Receipt, Vec<Refusal>), Refusal> {
    let (task, id) = task(client, args).await?;
    let candidates = Candidates::take(client, &task, texts).await?;
    let Sent { candidates, targets: _, receipt } = put(client, id, candidates, args).await?;
    Ok((receipt, candidates.warnings))
}

/// Waits for the end of a submission, at most as long as `limit`, and tells `told` what happens; answers with the cells as
/// they stand then.
pub(super) async fn wait_within(
    context: &Context,
    submission: SubmissionId,
    limit: Duration,
    told: Sender<String>,
) -> Result<Vec<CellView>, Refusal> {
    let path = format!("/v1/submissions/{submission}");
    let cells: Vec<CellView> = Client::connect(&context.state).await?.get(&path).await?;
    if !cells.is_empty() && cells.iter().all(CellView::is_over) {
        return Ok(cells);
    }
    let mut progress = Progress::told(&cells, told);
    match tokio::time::timeout(limit, follow::follow(context, submission, &mut progress, limit)).await {
        Ok(cells) => cells,
        Err(_late) => Client::connect(&context.state).await?.get(&path).await,
    }
}

/// Waits for the end of a submission without a word and answers with its cells.
pub(in crate::cli::command) async fn wait(
    context: &Context,
    submission: SubmissionId,
) -> Result<Vec<CellView>, Refusal> {
    follow::follow(context, submission, &mut Progress::silent(), RECONNECT).await
}

/// How long a coordinator that went away is waited for where nobody said how long.
const RECONNECT: Duration = Duration::from_secs(120);

/// What is said of a submission that nobody waits for.
fn accepted(answer: &Answer) -> String {
    let receipt = &answer.receipt;
    format!(
        "submitted {}: {}, {} answered from the ledger\nfollow it with: muster status {}",
        receipt.submission,
        crate::cli::output::counted(usize::try_from(receipt.cells).unwrap_or(usize::MAX), "cell"),
        receipt.reused,
        crate::cli::output::short(&receipt.submission.to_string())
    )
}
