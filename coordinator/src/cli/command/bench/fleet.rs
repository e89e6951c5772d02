//! Latency and throughput of a running fleet with one candidate that is compiled already.

use super::{Row, percentile};
use crate::cli::Context;
use crate::cli::client::Client;
use crate::clock::Clock;
use crate::driver::request::CellView;
use crate::http::body::{Receipt, SubmitBody, SummaryView};
use crate::state::Layout;
use fleet_config::config::load;
use fleet_config::domain::{BlobRef, Candidate, Reuse, SubmissionId, Task};
use fleet_config::refusal::Refusal;
use http_body_util::BodyExt;
use std::path::{Path, PathBuf};

/// What to measure.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) task: String,
    pub(super) candidate: PathBuf,
    pub(super) targets: Vec<String>,
    /// Submissions one after another, each of one cell on the first target.
    pub(super) count: u32,
    /// Submissions in flight together, each on every target.
    pub(super) batch: u32,
}

/// Measures and answers with the table.
pub(super) async fn run(context: &Context, plan: &Plan) -> Result<Vec<Row>, Refusal> {
    let mut client = Client::connect(&context.state).await?;
    let task: Task = client.get(&format!("/v1/tasks/{}", crate::cli::client::segment(&plan.task))).await?;
    let loaded = load::candidates(&plan.candidate, &task.entry, task.limits.source);
    let one = loaded.ok().and_then(|mut all| all.pop()).ok_or_else(|| {
        Refusal::new(
            "bench/candidate",
            plan.candidate.display().to_string(),
            "no candidate there",
            "name a .cu file",
        )
    })?;
    for (_, bytes) in one.blobs {
        let _stored: BlobRef = client.put("/v1/blobs", bytes).await?;
    }
    let first = plan.targets.first().cloned().into_iter().collect::<Vec<_>>();
    // Untimed: fills the compile caches of every node.
    let warm = submit(&mut client, &task, &one.candidate, &plan.targets).await?;
    finished(context, warm.submission).await?;
    let before = ledger_bytes(&context.state);
    let entries = size(&mut client).await?;
    let clock = Clock::start();
    let mut latencies = Vec::with_capacity(plan.count as usize);
    for number in 0..plan.count {
        if number % 50 == 0 {
            crate::cli::output::note(&format!("{number} of {} submissions", plan.count));
        }
        let start = clock.now();
        let receipt = submit(&mut client, &task, &one.candidate, &first).await?;
        finished(context, receipt.submission).await?;
        latencies.push((clock.now() - start).as_secs_f64() * 1e3);
    }
    latencies.sort_by(f64::total_cmp);
    let start = clock.now();
    let mut submissions = Vec::with_capacity(plan.batch as usize);
    for _ in 0..plan.batch {
        submissions.push(submit(&mut client, &task, &one.candidate, &plan.targets).await?.submission);
    }
    for submission in &submissions {
        finished(context, *submission).await?;
    }
    let seconds = (clock.now() - start).as_secs_f64();
    let cells = submissions.len() * plan.targets.len();
    let _checkpoint: serde_json::Value = client.post("/v1/checkpoint", &serde_json::json!({})).await?;
    let added = size(&mut client).await? - entries;
    let grown = ledger_bytes(&context.state).saturating_sub(before);
    let mut rows = vec![
        Row::new(
            format!("submit to record, cached kernel, one at a time, {} times", plan.count),
            format!("p50 {:.1} ms, p99 {:.1} ms", percentile(&latencies, 0.5), percentile(&latencies, 0.99)),
        ),
        Row::new(
            format!("cells through {} targets, {cells} cells in flight", plan.targets.len()),
            format!("{:.2} cells/s", cells as f64 / seconds),
        ),
        Row::new(
            format!("ledger growth over {added} entries (entries, tiles and blobs)"),
            format!("{:.0} bytes an entry", grown as f64 / added.max(1) as f64),
        ),
    ];
    rows.extend(memory(context, &mut client).await?);
    Ok(rows)
}

async fn submit(
    client: &mut Client,
    task: &Task,
    candidate: &Candidate,
    targets: &[String],
) -> Result<Receipt, Refusal> {
    let task = task
        .id()
        .map_err(|error| Refusal::new("task/not-canonical", "", error.to_string(), "add it again"))?;
    let body = SubmitBody {
        task,
        candidates: vec![candidate.clone()],
        targets: targets.to_vec(),
        policy: None,
        screens: None,
        stages: None,
        toolchain: None,
        flags: Vec::new(),
        reuse: Reuse::Fresh,
        nonce: None,
    };
    client.post("/v1/submissions", &body).await
}

/// Waits for the end of the event stream, then makes sure that every cell has its verdict.
async fn finished(context: &Context, submission: SubmissionId) -> Result<(), Refusal> {
    let mut client = Client::connect(&context.state).await?;
    let mut body = client.stream(&format!("/v1/submissions/{submission}/events")).await?;
    while let Some(Ok(_)) = body.frame().await {}
    let mut client = Client::connect(&context.state).await?;
    let cells: Vec<CellView> = client.get(&format!("/v1/submissions/{submission}")).await?;
    match cells.iter().find(|cell| cell.state != "finished" || cell.detail != "ok") {
        None => Ok(()),
        Some(cell) => Err(Refusal::new(
            "bench/verdict",
            cell.cell.to_string(),
            format!("{} {}", cell.state, cell.detail),
            "measure with a candidate that is `ok` on every target",
        )),
    }
}

async fn size(client: &mut Client) -> Result<u64, Refusal> {
    let summary: SummaryView = client.get("/v1/summary").await?;
    Ok(summary.ledger_size)
}

/// Resident memory of the coordinator and of the nodes that `muster up` started, now and at its peak.
async fn memory(context: &Context, client: &mut Client) -> Result<Vec<Row>, Refusal> {
    let summary: SummaryView = client.get("/v1/summary").await?;
    let mut rows = vec![Row::new("memory of the coordinator, now and peak", resident(summary.process))];
    let nodes = std::fs::read_dir(context.state.join("nodes")).into_iter().flatten().flatten();
    for node in nodes {
        let process = std::fs::read_to_string(node.path().join("pid")).unwrap_or_default();
        let process = process.split_whitespace().next().and_then(|text| text.parse().ok());
        if let Some(process) = process {
            let name = node.file_name().to_string_lossy().into_owned();
            rows.push(Row::new(format!("memory of node {name}, now and peak"), resident(process)));
        }
    }
    Ok(rows)
}

fn resident(process: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).map_or(0, |kib| kib / 1024)
    };
    format!("{} MiB, {} MiB", field("VmRSS:"), field("VmHWM:"))
}

/// Bytes of all files of the ledger but its index, which can be rebuilt.
fn ledger_bytes(state: &Path) -> u64 {
    fn sum(folder: &Path) -> u64 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_name() != "index")
            .map(|entry| match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => sum(&entry.path()),
                Ok(metadata) => metadata.len(),
                Err(_) => 0,
            })
            .sum()
    }
    sum(&Layout::of(state).ledger())
}
