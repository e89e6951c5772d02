//! `muster rejudge`: a detector looks again at what is recorded; what it finds becomes entries, so that rankings change
//! visibly.

mod plan;
mod stages;

use crate::cli::args::RejudgeArgs;
use crate::cli::client::Client;
use crate::cli::output::{counted, note, table};
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use crate::http::body::{FindingBody, FindingView};
use fleet_config::domain::{BlobRef, LeafIndex, RecordId, TaskId, canonical, words};
use fleet_config::refusal::Refusal;
use ledger::detect::{Detector, Seen};
use ledger::entry::predicate::{DetectorName, FindingJudgement, FindingScope};
use plan::{Library, News, Stored};
use serde::Serialize;

/// What came of it.
#[derive(Debug, Serialize)]
struct Answer {
    detector: DetectorName,
    dry_run: bool,
    /// Results that passed, of the tasks asked about.
    looked_at: u64,
    /// What the detector says of them and has said before.
    known: u64,
    findings: Vec<Found>,
    /// Results that a new attempt was needed for and did not come to a verdict.
    without_verdict: Vec<RecordId>,
}

/// One finding, recorded or (in a dry run) not.
#[derive(Debug, Serialize)]
struct Found {
    record: RecordId,
    leaf: LeafIndex,
    task: TaskId,
    candidate: String,
    judgement: FindingJudgement,
    scope: FindingScope,
    code: String,
    cause: String,
    /// Leaf of the finding; none in a dry run.
    finding: Option<LeafIndex>,
    rerun: Option<RecordId>,
}

/// Runs the subcommand.
pub(crate) async fn run(context: &Context, args: &RejudgeArgs) -> Result<Ending, Refusal> {
    let detector: Detector = args.detector.parse().map_err(|error: ledger::detect::DetectorError| {
        let place: String = args.detector.chars().take(80).collect();
        Refusal::new("rejudge/unknown-detector", place, error.to_string(), "name one of them with --detector")
    })?;
    let reading = Reading::open(&context.state)?;
    let mut library = Library::read(&reading, args.task.as_deref())?;
    let mut answer = Answer {
        detector: detector.name(),
        dry_run: args.dry_run,
        looked_at: library.results.len() as u64,
        known: 0,
        findings: Vec::new(),
        without_verdict: Vec::new(),
    };
    match detector {
        Detector::Text | Detector::Floor => {
            for stored in std::mem::take(&mut library.results) {
                let seen = library.examine(&reading, detector, &stored);
                record(context, args, detector, &mut library, &stored, (seen, None), &mut answer).await?;
            }
        }
        Detector::Stages => stages::run(context, args, &reading, &mut library, &mut answer).await?,
    }
    context.output.print(&answer, render);
    Ok(Ending::Done)
}

/// Records what was seen of a stored result, if it is news. `seen` may be nothing: then what the detector said before is
/// lifted.
async fn record(
    context: &Context,
    args: &RejudgeArgs,
    detector: Detector,
    library: &mut Library,
    stored: &Stored,
    (seen, rerun): (Option<Seen>, Option<RecordId>),
    answer: &mut Answer,
) -> Result<(), Refusal> {
    let Seen { judgement, scope, code, cause, evidence } = match library.news(detector, stored, seen) {
        News::Nothing => return Ok(()),
        News::Known => {
            answer.known += 1;
            return Ok(());
        }
        News::Fresh(seen) => seen,
    };
    let mut finding = None;
    if !args.dry_run {
        let mut client = Client::connect(&context.state).await?;
        let bytes = canonical::to_bytes(&evidence).map_err(|error| {
            Refusal::new("rejudge/evidence", stored.record.to_string(), error.to_string(), "report this")
        })?;
        let evidence: BlobRef = client.put("/v1/blobs", bytes).await?;
        let body = FindingBody {
            record: stored.record,
            detector: detector.name(),
            judgement,
            scope,
            code: code.to_owned(),
            cause: cause.clone(),
            evidence,
            rerun,
        };
        let view: FindingView = client.post("/v1/findings", &body).await?;
        finding = Some(view.index);
    }
    library.note(detector, stored, (judgement, scope, code, &cause), finding);
    answer.findings.push(Found {
        record: stored.record,
        leaf: stored.leaf,
        task: stored.result.task,
        candidate: library.candidate_name(stored),
        judgement,
        scope,
        code: code.to_owned(),
        cause,
        finding,
        rerun,
    });
    Ok(())
}

fn render(answer: &Answer) -> String {
    let count = |judgement: FindingJudgement| {
        answer.findings.iter().filter(|found| found.judgement == judgement).count()
    };
    let results = counted(usize::try_from(answer.looked_at).unwrap_or(usize::MAX), "result");
    let mut lines = vec![format!(
        "{} looked at {results}: {} fall, {} labelled, {} stand again, {} as it said before",
        answer.detector,
        count(FindingJudgement::Falls),
        count(FindingJudgement::Labelled),
        count(FindingJudgement::Stands),
        answer.known
    )];
    if !answer.findings.is_empty() {
        let rows: Vec<Vec<String>> = answer.findings.iter().map(row).collect();
        lines.push(table(&["RECORD", "CANDIDATE", "JUDGEMENT", "FINDING", "CODE", "CAUSE"], &rows));
    }
    for record in &answer.without_verdict {
        lines.push(format!("no verdict on {}: run it again when the fleet is there", record.short()));
    }
    if answer.dry_run {
        lines.push("a dry run: nothing was recorded".to_owned());
    }
    lines.join("\n")
}

fn row(found: &Found) -> Vec<String> {
    let judgement = match found.judgement {
        FindingJudgement::Falls => "falls",
        FindingJudgement::Labelled => "labelled",
        FindingJudgement::Stands => "stands",
    };
    let plain = |text: &str| words::printable(text.as_bytes()).replace(['\n', '\t'], " ");
    vec![
        found.record.short(),
        plain(&found.candidate),
        judgement.to_owned(),
        found.finding.map_or_else(|| "–".to_owned(), |leaf| format!("entry {leaf}")),
        found.code.clone(),
        plain(&found.cause).chars().take(160).collect(),
    ]
}

/// Tells what is under way on standard error.
fn tell(text: &str) {
    note(text);
}
