//! `stages`: stored candidates run once more under today's validation, through the fleet; the new result decides.

use super::plan::{Library, Stored};
use super::{Answer, record, tell};
use crate::cli::Context;
use crate::cli::args::RejudgeArgs;
use crate::cli::client::Client;
use crate::cli::command::submit::wait;
use crate::cli::output::{counted, short};
use crate::cli::reading::Reading;
use crate::http::body::{Receipt, SubmitBody};
use fleet_config::domain::{
    Candidate, CandidateId, Digest, LeafIndex, MeasurementPolicy, PolicyId, RecordId, Reuse, TaskId,
    canonical,
};
use fleet_config::refusal::Refusal;
use ledger::detect::{Detector, rerun};
use ledger::entry::predicate::ResultRecord;
use ledger::entry::{Body, Entry};
use std::collections::BTreeMap;

/// Candidates of one submission: few enough that their documents fit into one request.
const CANDIDATES_MAX: usize = 100;

/// What is run together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Batch {
    task: TaskId,
    policy: PolicyId,
    target: String,
}

/// Runs the newest passing result of each candidate in each class again, and records what that shows.
pub(super) async fn run(
    context: &Context,
    args: &RejudgeArgs,
    reading: &Reading,
    library: &mut Library,
    answer: &mut Answer,
) -> Result<(), Refusal> {
    let batches = batches(reading, library);
    let runs: usize = batches.values().map(Vec::len).sum();
    if args.dry_run {
        tell(&format!("{} would be run again; nothing is", counted(runs, "candidate")));
        for stored in batches.values().flatten() {
            answer.without_verdict.push(stored.record);
        }
        return Ok(());
    }
    for (batch, all) in batches {
        for chosen in all.chunks(CANDIDATES_MAX) {
            let ended = run_again(context, args, reading, library, &batch, chosen).await?;
            for stored in chosen {
                let Some((new, result)) = ended.get(&stored.result.candidate) else {
                    answer.without_verdict.push(stored.record);
                    continue;
                };
                let seen = rerun(stored.record, *new, result);
                let decided = (seen, Some(*new));
                record(context, args, Detector::Stages, library, stored, decided, answer).await?;
            }
        }
    }
    Ok(())
}

/// The newest passing result of each candidate in each class, by what can run together. Results come newest first.
fn batches(reading: &Reading, library: &mut Library) -> BTreeMap<Batch, Vec<Stored>> {
    let mut batches: BTreeMap<Batch, Vec<Stored>> = BTreeMap::new();
    for stored in std::mem::take(&mut library.results) {
        if library.candidate(reading, stored.result.candidate).is_none() {
            continue;
        }
        let ResultRecord { task, policy, architecture, .. } = &stored.result;
        let batch = Batch { task: *task, policy: *policy, target: architecture.to_string() };
        let held = batches.entry(batch).or_default();
        let is_same = |other: &Stored| other.result.candidate == stored.result.candidate;
        if !held.iter().any(is_same) {
            held.push(stored);
        }
    }
    batches
}

/// Submits candidates afresh, waits, and answers with the result of each that got one.
async fn run_again(
    context: &Context,
    args: &RejudgeArgs,
    reading: &Reading,
    library: &mut Library,
    batch: &Batch,
    chosen: &[Stored],
) -> Result<BTreeMap<CandidateId, (RecordId, ResultRecord)>, Refusal> {
    let policy = reading.blob(&Digest(batch.policy.0));
    let policy: Option<MeasurementPolicy> = policy.and_then(|bytes| canonical::from_bytes(&bytes).ok());
    let candidates: Vec<Candidate> = chosen
        .iter()
        .filter_map(|stored| library.candidate(reading, stored.result.candidate).cloned())
        .collect();
    let body = SubmitBody {
        task: batch.task,
        candidates,
        targets: vec![batch.target.clone()],
        policy: policy.map(|policy| policy.name),
        screens: args.screens.clone(),
        stages: None,
        toolchain: None,
        flags: Vec::new(),
        reuse: Reuse::Fresh,
        nonce: None,
    };
    let mut client = Client::connect(&context.state).await?;
    let receipt: Receipt = client.post("/v1/submissions", &body).await?;
    let submission = receipt.submission;
    let runs = counted(chosen.len(), "candidate");
    tell(&format!("running {runs} again on {}: submission {}", batch.target, short(&submission.to_string())));
    for warning in &receipt.warnings {
        tell(&format!("warning: {warning}"));
    }
    let cells = wait(context, submission).await?;
    let now = Reading::open(&context.state)?;
    let mut ended = BTreeMap::new();
    for leaf in cells.iter().filter_map(|cell| cell.index) {
        let bytes = now.log.entry(LeafIndex(leaf)).map_err(|error| {
            Refusal::new(
                "ledger/unreadable",
                leaf.to_string(),
                error.to_string(),
                "run `muster ledger verify`",
            )
        })?;
        if let Ok(Entry { record, body: Body::Result(result), .. }) = Entry::read(&bytes) {
            ended.insert(result.candidate, (record, *result));
        }
    }
    Ok(ended)
}
