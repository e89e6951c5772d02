//! One attempt: submitted under a key of its own, waited for, and read from the ledger. Doing it again after a kill is the
//! same submission, so nothing runs twice.

use crate::cli::Context;
use crate::cli::args::SubmitArgs;
use crate::cli::client::Client;
use crate::cli::command::{explain, submit};
use crate::cli::reading::Reading;
use crate::optimizer::attempt::{CaseOutcome, Decision, Measured, Proposal, Verdict};
use crate::optimizer::feedback::{Feedback, short};
use crate::optimizer::reward::Standing;
use crate::optimizer::settings::Settings;
use fleet_config::domain::{LeafIndex, Status};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::Evidence;
use std::path::PathBuf;

/// What is measured, and under which key.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) settings: Settings,
    /// The source to submit; its sidecar stands beside it.
    pub(super) source: PathBuf,
    /// Of the campaign; the key of the submission is made from it.
    pub(super) key: String,
    /// Stages of validation, where they are not the policy's own.
    pub(super) stages: Option<String>,
    /// Whether an earlier result may not answer.
    pub(super) fresh: bool,
}

impl Job {
    /// The search's attempt at `proposal`, whose file is `source`.
    pub(super) fn of(settings: &Settings, proposal: &Proposal, source: PathBuf) -> Self {
        let screens = match settings.proposer {
            crate::optimizer::settings::ProposerSettings::Search { strategy } => {
                proposal.iteration > 0 && proposal.rung.only_screens(strategy)
            }
            crate::optimizer::settings::ProposerSettings::Command { .. } => false,
        };
        Self {
            settings: settings.clone(),
            source,
            key: proposal.iteration.to_string(),
            stages: screens.then(|| "fewest".to_owned()),
            // A second look at a point must be another lease.
            fresh: settings.fresh || proposal.rung.0 > 1,
        }
    }

    fn arguments(&self) -> SubmitArgs {
        SubmitArgs {
            task: self.settings.task.clone(),
            candidates: vec![self.source.clone()],
            on: vec![self.settings.class.clone()],
            wait: true,
            reconnect: 0,
            fresh: self.fresh,
            policy: self.settings.policy.clone(),
            screens: None,
            stages: self.stages.clone(),
            toolchain: None,
            flag: Vec::new(),
            nonce: Some(format!("campaign-{}-{}", self.settings.campaign, self.key)),
            receipt: None,
        }
    }
}

/// Runs a job to its verdict. Decision and time are the campaign's to fill in. An error is of the fleet or of this machine:
/// the campaign can go on later.
pub(super) async fn measure(context: &Context, job: &Job) -> Result<(Measured, Option<Feedback>), Refusal> {
    let mut client = Client::connect(&context.state).await?;
    let receipt = match submit::send(&mut client, &job.arguments()).await {
        Ok(receipt) => receipt,
        Err(refusal) if is_of_the_candidate(&refusal) => return Ok((refused(&refusal), None)),
        Err(refusal) => return Err(refusal),
    };
    drop(client);
    let cells = submit::wait(context, receipt.submission).await?;
    let submission = Some(receipt.submission.to_string());
    let finished = cells.first().filter(|cell| cell.state == "finished");
    let Some((leaf, reused)) = finished.and_then(|cell| Some((LeafIndex(cell.index?), cell.reused))) else {
        let mut measured = unmeasured(Verdict::Masked, "cell/ended", "the cell ended without a verdict");
        measured.submission = submission;
        return Ok((measured, None));
    };
    let reading = Reading::open(&context.state)?;
    let bytes = reading.log.entry(leaf).map_err(|error| {
        Refusal::new("ledger/unreadable", leaf.to_string(), error.to_string(), "run `muster ledger verify`")
    })?;
    let (feedback, evidence) = explain::look(&reading, leaf, &bytes)?;
    let mut measured = seen(&feedback, evidence.as_ref());
    measured.submission = submission;
    measured.reused = reused;
    if reused {
        measured.device_ms = 0;
    }
    Ok((measured, Some(feedback)))
}

/// What feedback says, in the form that a campaign keeps.
fn seen(feedback: &Feedback, evidence: Option<&Evidence>) -> Measured {
    let verdict = match Standing::of_feedback(feedback) {
        Standing::Passed(_) => Verdict::Passed,
        Standing::Failed(_) => Verdict::Failed,
        Standing::Masked(_) => Verdict::Masked,
    };
    let times = feedback.stage_times;
    Measured {
        submission: None,
        record: Some(feedback.record.to_string()),
        leaf: Some(feedback.leaf.0),
        candidate: Some(feedback.candidate.to_string()),
        status: Some(feedback.status),
        verdict,
        code: feedback.cause.as_ref().map(|cause| cause.code.clone()).unwrap_or_default(),
        cause: feedback.cause.as_ref().map(|cause| cause.message.clone()).unwrap_or_default(),
        ratio: feedback.to_baseline,
        cases: cases(feedback, evidence),
        device_ms: times.validate.0.saturating_add(times.time.0),
        reused: false,
        told: short(feedback),
        decision: Decision::Masked,
        elapsed_ms: 0,
    }
}

/// The cases that were looked at, in the order of the evidence.
fn cases(feedback: &Feedback, evidence: Option<&Evidence>) -> Vec<CaseOutcome> {
    let mut cases: Vec<CaseOutcome> = Vec::new();
    let broken = feedback.cause.as_ref().and_then(|cause| cause.case.as_deref());
    for one in evidence.iter().flat_map(|evidence| &evidence.cases) {
        let error = one.absolute_error_max.clone();
        match cases.iter_mut().find(|case| case.case == one.case) {
            Some(case) => {
                let before = case.absolute_error_max.take();
                case.absolute_error_max = before.map(|before| larger(before, error));
            }
            None => cases.push(CaseOutcome {
                case: one.case.clone(),
                validated: feedback.status == Status::Ok || broken.is_some_and(|broken| broken != one.case),
                absolute_error_max: Some(error),
                timing: feedback.cases.iter().find(|timed| timed.case == one.case).cloned(),
            }),
        }
    }
    cases
}

/// The larger of two errors; one that is no finite number is larger than all.
fn larger(first: String, second: String) -> String {
    let size = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    match (size(&first), size(&second)) {
        (None, _) => first,
        (Some(_), None) => second,
        (Some(a), Some(b)) => {
            if b > a {
                second
            } else {
                first
            }
        }
    }
}

/// Whether a submission was refused for what the candidate is, not for what the fleet lacks.
fn is_of_the_candidate(refusal: &Refusal) -> bool {
    let room = refusal.code.split('/').next().unwrap_or_default();
    matches!(room, "candidate" | "source" | "launch" | "plan")
}

fn refused(refusal: &Refusal) -> Measured {
    let mut measured = unmeasured(Verdict::Failed, &refusal.code, &refusal.cause);
    measured.told = refusal.to_string();
    measured
}

/// What is kept where nothing ran.
pub(super) fn unmeasured(verdict: Verdict, code: &str, cause: &str) -> Measured {
    Measured {
        submission: None,
        record: None,
        leaf: None,
        candidate: None,
        status: None,
        verdict,
        code: code.to_owned(),
        cause: cause.to_owned(),
        ratio: None,
        cases: Vec::new(),
        device_ms: 0,
        reused: false,
        told: format!("{cause} [{code}]"),
        decision: Decision::Masked,
        elapsed_ms: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_for_what_a_candidate_is_are_verdicts_and_others_stop_the_campaign() {
        let refusal = |code| Refusal::new(code, "", "", "");
        for code in ["candidate/launch", "source/nul"] {
            assert!(is_of_the_candidate(&refusal(code)), "{code}");
        }
        for code in
            ["coordinator/not-running", "submit/unknown-task", "internal/stopping", "task/unknown-task"]
        {
            assert!(!is_of_the_candidate(&refusal(code)), "{code}");
        }
        assert_eq!(refused(&refusal("source/nul")).verdict, Verdict::Failed);
    }

    #[test]
    fn the_larger_error_is_kept_and_what_is_no_number_is_the_largest() {
        let of = |a: &str, b: &str| larger(a.to_owned(), b.to_owned());
        assert_eq!((of("1e-6", "2e-6"), of("3", "2e-6")), ("2e-6".to_owned(), "3".to_owned()));
        assert_eq!((of("nan", "1"), of("1", "inf")), ("nan".to_owned(), "inf".to_owned()));
    }
}
