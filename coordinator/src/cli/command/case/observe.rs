//! What the ledger says of one submission, in the words of a case.

use crate::cli::Context;
use crate::cli::client::Client;
use crate::cli::reading::Reading;
use crate::driver::request::CellView;
use crate::http::body::TextView;
use fleet_config::domain::{Digest, LeafIndex, Outcome, SandboxLevel, TaskId};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::ResultRecord;
use ledger::entry::{Body, Entry, Envelope};
use ledger::rank::{collect, rank};
use serde_json::Value;

/// One verdict, wherever in its life the candidate met it.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    pub status: String,
    /// What was said to people about it.
    pub message: String,
    /// Compiler log or captured output, which quotes what the candidate wrote.
    pub log: String,
    /// The whole record as text.
    pub record: String,
    pub ranked: bool,
    /// Reference over candidate, where one is reported.
    pub speedup: Option<f64>,
    /// The config that decided.
    pub config: String,
    pub node: String,
    /// Sum of the candidate's medians.
    pub picoseconds: u64,
    /// Why the device cannot host it, in the record's word.
    pub unsupported: String,
}

impl Observed {
    /// A refusal before anything ran.
    pub(super) fn refused(refusal: &Refusal) -> Self {
        Self { status: "rejected".to_owned(), message: refusal.to_string(), ..Self::default() }
    }
}

/// Reads what the final entry of the only cell says.
pub(super) async fn observe(
    context: &Context,
    task: TaskId,
    cells: &[CellView],
) -> Result<Observed, Refusal> {
    // The files of the ledger are read, so all that is committed must be in them.
    let _note: TextView =
        Client::connect(&context.state).await?.post("/v1/checkpoint", &serde_json::json!({})).await?;
    let nothing = |cause: &str| Refusal::new("case/no-record", "", cause.to_owned(), "see coordinator.log");
    let cell = cells.first().ok_or_else(|| nothing("the submission has no cell"))?;
    let Some(leaf) = cell.index else {
        return Err(nothing(&format!("the cell ended without a record: {} {}", cell.state, cell.detail)));
    };
    let reading = Reading::open(&context.state)?;
    let bytes = reading.log.entry(LeafIndex(leaf)).map_err(|error| nothing(&error.to_string()))?;
    let entry = Entry::read(&bytes).map_err(|error| nothing(&error.to_string()))?;
    let statement =
        Envelope::parse(&bytes).ok().and_then(|e| serde_json::from_slice::<Value>(&e.payload).ok());
    let record = statement.map(|statement| statement["predicate"].to_string()).unwrap_or_default();
    let Body::Result(result) = &entry.body else {
        // Attempts that the fleet lost end in an entry of another kind.
        let status = if cell.detail.is_empty() { "worker_lost" } else { &cell.detail };
        return Ok(Observed {
            status: status.to_owned(),
            message: record.clone(),
            record,
            ..Observed::default()
        });
    };
    let log = result.outcome.log.and_then(|log| reading.blob(&log.blake3)).unwrap_or_default();
    let standing = standing(&reading, task, result)?;
    let cause = result.outcome.cause.as_ref();
    Ok(Observed {
        status: result.outcome.status.name().to_owned(),
        message: message(&result.outcome),
        log: String::from_utf8_lossy(&log).into_owned(),
        record: format!("{record}\n{}", documents(&reading, result)),
        ranked: standing.is_some(),
        speedup: standing,
        config: cause.and_then(|cause| cause.case.clone()).unwrap_or_default(),
        node: result.node.to_string(),
        picoseconds: result.timings.iter().map(|timing| timing.candidate_median.0).sum(),
        unsupported: cause
            .and_then(|cause| cause.unsupported)
            .and_then(|reason| serde_json::to_value(reason).ok())
            .and_then(|reason| reason.as_str().map(str::to_owned))
            .unwrap_or_default(),
    })
}

/// The blobs that a record names, as text; the log is looked at by itself.
fn documents(reading: &Reading, result: &ResultRecord) -> String {
    let blobs = [Some(result.environment), Some(result.volatile), result.evidence];
    let texts = blobs.into_iter().flatten().filter_map(|blob| reading.blob(&blob.blake3));
    texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect::<Vec<_>>().join("\n")
}

/// The reported speed-up of the candidate where the ranking has it.
fn standing(reading: &Reading, task: TaskId, result: &ResultRecord) -> Result<Option<f64>, Refusal> {
    let size = reading.log.size();
    let entries = reading.entries(size)?;
    let mut blob = |digest: &Digest| reading.blob(digest);
    let collected = collect(task, entries, &mut blob);
    let (task_document, inputs) = collected.map_err(|error| {
        Refusal::new("case/rank", task.to_string(), error.to_string(), "run `muster ledger verify`")
    })?;
    let ranking = rank(&task_document, task, inputs, size, SandboxLevel::None);
    let rows = ranking.tables.iter().flat_map(|table| &table.rows);
    let own = rows.into_iter().find(|row| row.candidate == Some(result.candidate));
    Ok(own.map(|row| row.score.0 as f64 / 1e9))
}

/// An outcome as people read it: values only, no names of fields.
fn message(outcome: &Outcome) -> String {
    let mut parts = vec![format!("{} while in {}", outcome.status, outcome.stage.name())];
    if let Some(cause) = &outcome.cause {
        parts.push(format!("{} [{}]", cause.message, cause.code));
        if let Some(source) = &cause.source {
            parts.push(format!("{}:{}:{}", source.file, source.line, source.column));
        }
        parts.extend(cause.case.iter().map(|case| format!("case {case}")));
        parts.extend(cause.vendor_code.clone());
        if let Some(memory) = &cause.memory {
            parts.push(format!("buffer {} at byte {} of {}", memory.buffer, memory.offset, memory.size));
        }
        parts.extend(cause.mismatch.iter().map(|mismatch| mismatch.pattern.clone()));
    }
    parts.push(outcome.hint.clone());
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}
