//! `muster verify-candidate`: the sealed cases, opened once more and counted.

use super::submit::wait;
use crate::cli::args::VerifyArgs;
use crate::cli::client::Client;
use crate::cli::output::{counted, note, short};
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use crate::http::body::{VerifyBody, VerifyView};
use fleet_config::domain::{CellId, Commitment, LeafIndex, RecordId, Status, SubmissionId, words};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::HoldoutVerdict;
use ledger::entry::{Body, Entry};
use serde::Serialize;

/// What came of it.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// The result that was chosen.
    chosen: RecordId,
    submission: SubmissionId,
    commitment: Commitment,
    /// Which opening this was; none where the cell ended without a verdict.
    opening: Option<u64>,
    /// Openings of this holdout so far, this one included.
    pub(super) openings: u64,
    pub(super) passed: bool,
    holdout: Option<HoldoutVerdict>,
    pub(super) status: Option<Status>,
    pub(super) cause: String,
    /// The verification itself.
    pub(super) record: Option<RecordId>,
    leaf: Option<LeafIndex>,
}

/// Runs the subcommand.
pub(crate) async fn run(context: &Context, args: &VerifyArgs) -> Result<Ending, Refusal> {
    let record = chosen(&Reading::open(&context.state)?, &args.result)?;
    let answer = open(context, record, args.on.clone()).await?;
    context.output.print(&answer, render);
    Ok(match (answer.status, answer.passed) {
        (None, _) => Ending::Unanswered,
        (Some(_), true) => Ending::Done,
        (Some(_), false) => Ending::Failed,
    })
}

/// Opens the sealed cases of its task for the candidate of `record`, waits, and answers with what came of it.
pub(super) async fn open(context: &Context, record: RecordId, on: Option<String>) -> Result<Answer, Refusal> {
    let mut client = Client::connect(&context.state).await?;
    let body = VerifyBody { record, on };
    let view: VerifyView = client.post("/v1/verifications", &body).await?;
    note(&format!("submission {}", view.receipt.submission));
    for warning in &view.receipt.warnings {
        note(&format!("warning: {warning}"));
    }
    let cells = wait(context, view.receipt.submission).await?;
    let leaf = cells.first().and_then(|cell| cell.index).map(LeafIndex);
    answer(&Reading::open(&context.state)?, &view, leaf)
}

/// The result that `text` names: a record, a leaf, or `SUBMISSION/CELL`.
fn chosen(reading: &Reading, text: &str) -> Result<RecordId, Refusal> {
    let Some((submission, cell)) = text.split_once('/') else {
        let (_, bytes) = reading.find(text)?;
        return Entry::read(&bytes)
            .map(|entry| entry.record)
            .map_err(|error| unknown(text, &error.to_string()));
    };
    if submission.len() < PREFIX_MIN || cell.len() < PREFIX_MIN {
        return Err(unknown(
            text,
            &format!("submission and cell are named by at least {PREFIX_MIN} digits each"),
        ));
    }
    let mut found: Vec<(CellId, RecordId)> = Vec::new();
    for (_, bytes) in reading.entries(reading.log.size())? {
        let Ok(Entry { record, body: Body::Result(result), .. }) = Entry::read(&bytes) else { continue };
        let named = result.submission.to_string().starts_with(submission)
            && result.cell.to_string().starts_with(cell);
        if named && result.is_final() {
            found.push((result.cell, record));
        }
    }
    match found.as_slice() {
        [(_, record)] => Ok(*record),
        [] => Err(unknown(text, "no cell of this name has a result")),
        [_, _, ..] => Err(unknown(text, "more than one cell begins with these digits")),
    }
}

/// Fewest digits that may stand for a submission or a cell.
const PREFIX_MIN: usize = 4;

fn unknown(text: &str, cause: &str) -> Refusal {
    let place: String = text.chars().take(80).collect();
    let next =
        "name a record of `muster rank TASK`, its leaf, or SUBMISSION/CELL of `muster status SUBMISSION`";
    Refusal::new("verify/unknown-record", place, cause, next)
}

fn answer(reading: &Reading, view: &VerifyView, leaf: Option<LeafIndex>) -> Result<Answer, Refusal> {
    let mut answer = Answer {
        chosen: view.record,
        submission: view.receipt.submission,
        commitment: view.commitment,
        opening: None,
        openings: 0,
        passed: false,
        holdout: None,
        status: None,
        cause: String::new(),
        record: None,
        leaf,
    };
    for (at, bytes) in reading.entries(reading.log.size())? {
        let Ok(entry) = Entry::read(&bytes) else { continue };
        if let Body::HoldoutOpened(opened) = &entry.body
            && opened.commitment == view.commitment
        {
            answer.openings = answer.openings.max(opened.opening);
        }
        if let Body::Verification(verification) = entry.body
            && Some(at) == leaf
        {
            let outcome = verification.result.outcome;
            answer.opening = Some(verification.holdout.opening);
            answer.passed = verification.verdict == HoldoutVerdict::Passed && outcome.status == Status::Ok;
            answer.holdout = Some(verification.verdict);
            answer.status = Some(outcome.status);
            answer.cause =
                outcome.cause.map(|cause| format!("{} [{}]", cause.message, cause.code)).unwrap_or_default();
            answer.record = Some(entry.record);
        }
    }
    Ok(answer)
}

fn render(answer: &Answer) -> String {
    let times = counted(usize::try_from(answer.openings).unwrap_or(usize::MAX), "time");
    let holdout = short(&answer.commitment.0.to_string()).to_owned();
    let mut lines = vec![format!("chosen   {}", answer.chosen.short())];
    match (answer.status, answer.opening) {
        (Some(status), Some(opening)) => {
            let verdict = if answer.passed { "passed" } else { "failed" };
            lines.push(format!("verdict  {verdict} ({status})"));
            let sealed = answer.holdout.map_or("not reached", HoldoutVerdict::words);
            lines.push(format!("sealed   {sealed}"));
            if !answer.cause.is_empty() {
                lines.push(format!("cause    {}", words::printable(answer.cause.as_bytes())));
            }
            lines.push(format!("holdout  {holdout}, opening {opening}; opened {times} so far"));
        }
        (Some(_) | None, _) => {
            lines.push("verdict  none: the cell ended without one".to_owned());
            lines.push(format!("holdout  {holdout}; opened {times} so far"));
        }
    }
    if let (Some(record), Some(leaf)) = (answer.record, answer.leaf) {
        lines.push(format!("record   {} at leaf {leaf}", record.short()));
    }
    lines.join("\n")
}
