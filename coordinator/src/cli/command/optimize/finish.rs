//! After the search: the best candidate once more in another lease, then on the sealed cases.

use super::Campaign;
use super::measure::{Job, measure};
use crate::cli::Context;
use crate::cli::command::{submit, verify};
use crate::cli::output::note;
use crate::cli::reading::Reading;
use crate::optimizer::attempt::{Decision, Measured};
use crate::optimizer::campaign::best;
use crate::optimizer::report::HoldoutOutcome;
use fleet_config::domain::{RecordId, Status, SubmissionId};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::HoldoutVerdict;
use ledger::entry::{Body, Entry};

impl Campaign {
    /// Does what has not been done yet; nothing where no candidate is better than the baseline.
    pub(super) async fn finish(&mut self, context: &Context, stays_closed: bool) -> Result<(), Refusal> {
        let Some((attempt, measured)) = best(&self.attempts) else { return Ok(()) };
        let (proposal, measured) = (attempt.proposal.clone(), measured.clone());
        if self.ending.rerun.is_none()
            && let Some(file) = &proposal.file
        {
            note(&format!("{} once more, in another lease", proposal.name));
            let source = self.folder.attempt(proposal.iteration).join(file);
            let mut job = Job::of(&self.settings, &proposal, source);
            job.key = "rerun".to_owned();
            job.fresh = true;
            let (seen, _) = measure(context, &job).await?;
            // It decides nothing about the search, which is over.
            let rerun = Measured { decision: Decision::Screened, elapsed_ms: self.elapsed_ms(), ..seen };
            self.folder.write_json("final/rerun.json", &rerun)?;
            self.ending.rerun = Some(rerun);
        }
        if self.ending.holdout.is_none()
            && let Some(record) = measured.record.as_deref().and_then(|record| record.parse().ok())
        {
            let outcome = self.open_holdout(context, record, stays_closed).await?;
            self.folder.write_json("final/holdout.json", &outcome)?;
            self.ending.holdout = Some(outcome);
        }
        Ok(())
    }

    /// The verdict of the sealed cases on the best candidate. What the ledger knows of this record is not asked again, so that
    /// a campaign that was killed in between opens nothing twice.
    async fn open_holdout(
        &self,
        context: &Context,
        record: RecordId,
        stays_closed: bool,
    ) -> Result<HoldoutOutcome, Refusal> {
        let closed =
            |cause: &str| HoldoutOutcome { passed: None, cause: cause.to_owned(), record: None, openings: 0 };
        if self.task.holdout.is_none() {
            return Ok(closed("the task seals no case"));
        }
        if stays_closed {
            return Ok(closed("left closed by --no-verify"));
        }
        match known(&Reading::open(&context.state)?, record)? {
            Known::Verdict(outcome) => return Ok(outcome),
            Known::UnderWay(submission) => {
                let _cells = submit::wait(context, submission).await?;
                if let Known::Verdict(outcome) = known(&Reading::open(&context.state)?, record)? {
                    return Ok(outcome);
                }
            }
            Known::Nothing => {}
        }
        note("on the sealed cases, in a lease that opens them");
        let answer = verify::open(context, record, Some(self.settings.class.clone())).await?;
        Ok(HoldoutOutcome {
            passed: answer.status.map(|_| answer.passed),
            cause: answer.cause,
            record: answer.record.map(|record| record.to_string()),
            openings: answer.openings,
        })
    }
}

/// What the ledger knows of a record's verification.
enum Known {
    Nothing,
    UnderWay(SubmissionId),
    Verdict(HoldoutOutcome),
}

fn known(reading: &Reading, record: RecordId) -> Result<Known, Refusal> {
    let mut found = Known::Nothing;
    let mut openings = 0;
    for (_, bytes) in reading.entries(reading.log.size())? {
        match Entry::read(&bytes) {
            Ok(Entry { body: Body::HoldoutOpened(opened), .. }) if opened.record == record => {
                openings = opened.opening;
                found = Known::UnderWay(opened.submission);
            }
            Ok(Entry { record: own, body: Body::Verification(verification), .. })
                if verification.holdout.record == record =>
            {
                let outcome = &verification.result.outcome;
                let passed = verification.verdict == HoldoutVerdict::Passed && outcome.status == Status::Ok;
                let cause = outcome.cause.as_ref();
                found = Known::Verdict(HoldoutOutcome {
                    passed: Some(passed),
                    cause: cause
                        .map(|cause| format!("{} [{}]", cause.message, cause.code))
                        .unwrap_or_default(),
                    record: Some(own.to_string()),
                    openings,
                });
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(found)
}
