//! Final verification: a chosen result's candidate runs once more, in a lease that opens the task's holdout.

use super::submit::{kind, random_nonce};
use super::{Desk, blocking};
use crate::driver::request::Request;
use crate::http::body::{VerifyBody, VerifyView};
use fleet_config::domain::{DeviceClass, Holdout, HoldoutCheck, RecordId, Reuse, Status, Submission, Task};
use fleet_config::refusal::Refusal;
use ledger::index::ResultSummary;

impl Desk {
    /// Submits the candidate of a recorded result for verification; when this returns, it is journalled. The opening is
    /// counted when the lease is granted.
    pub async fn verify(&self, body: VerifyBody) -> Result<VerifyView, Refusal> {
        let record = body.record;
        let result = self.chosen(record)?;
        let refuse = |code: &'static str, cause: String, next: &str| {
            Refusal::new(code, record.to_string(), cause, next)
        };
        let task = self.catalog.task(result.task).map(|entry| entry.value);
        let policy = self.catalog.policy(result.policy).map(|entry| entry.value);
        let (Some(task), Some(policy)) = (task, policy) else {
            let cause = "the task or policy of this result cannot be read".to_owned();
            return Err(refuse("verify/definition", cause, "run `muster ledger verify`"));
        };
        let holdout = self.sealed_holdout(&task).await?;
        let target = match body.on {
            None => result.architecture.to_string(),
            Some(class) => class,
        };
        let target: DeviceClass = target.parse().map_err(|error| {
            let next = "see `muster node list` for the classes of this fleet";
            Refusal::new("submit/device-class", &target, format!("{error}"), next)
        })?;
        let targets = vec![target];
        let devices = self.ask(|reply| Request::Devices { reply }).await?;
        if kind(&targets, &devices)? != result.device_kind {
            let cause = "the result is of the other kind of device, and its policy with it".to_owned();
            return Err(refuse("verify/device-kind", cause, "leave out --on, or name a class of that kind"));
        }
        let check = HoldoutCheck { record, commitment: holdout.commitment };
        let submission = Submission {
            format: Submission::format_for(Some(&check)).to_owned(),
            task: result.task,
            candidates: vec![result.candidate],
            targets,
            policy: result.policy,
            reuse: Reuse::Fresh,
            nonce: random_nonce(),
            holdout: Some(check),
        };
        let receipt = self.journal_submission(submission, &task, &policy).await?;
        let openings = self.commit.openings(holdout.commitment);
        Ok(VerifyView { receipt, record, commitment: holdout.commitment, openings })
    }

    /// The result that may be verified: it is there, passed, and has not fallen since.
    fn chosen(&self, record: RecordId) -> Result<ResultSummary, Refusal> {
        let place = record.to_string();
        let result = self.commit.result(record)?.ok_or_else(|| {
            let next = "`muster rank TASK` shows the records that can be chosen";
            Refusal::new("verify/unknown-record", &place, "no result has this name", next)
        })?;
        if result.status != Status::Ok {
            let cause = format!("this result is `{}`", result.status);
            let next = "a holdout is opened for a candidate that passed; choose one from `muster rank TASK`";
            return Err(Refusal::new("verify/not-ok", place, cause, next));
        }
        if self.commit.is_fallen(record)? {
            let cause = "this result fell after it was recorded";
            let next = "`muster rank TASK` says by what; choose a result that stands";
            return Err(Refusal::new("verify/fallen", place, cause, next));
        }
        Ok(result)
    }

    /// The holdout of a task, once its sealed section was found to be there: nobody waits for a lease that cannot be
    /// sent.
    async fn sealed_holdout(&self, task: &Task) -> Result<Holdout, Refusal> {
        let Some(holdout) = task.holdout.clone() else {
            let next = "give the task a `[[holdout.case]]` and add it again";
            return Err(Refusal::new("verify/no-holdout", &task.name, "the task seals no case", next));
        };
        let (folder, wanted) = (self.facts.sealed.clone(), holdout.clone());
        blocking(move || crate::sealed::open(&folder, &wanted)).await??;
        Ok(holdout)
    }
}
