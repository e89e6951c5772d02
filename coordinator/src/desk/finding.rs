//! Findings of detectors: checked against the results that they are about, then recorded.

use super::Desk;
use crate::http::body::{FindingBody, FindingView};
use fleet_config::domain::{RecordId, Status};
use fleet_config::refusal::Refusal;
use ledger::detect::Detector;
use ledger::entry::predicate::{Finding, FindingJudgement};
use ledger::index::ResultSummary;

/// Longest code of a finding.
const CODE_MAX: usize = 64;

impl Desk {
    /// Records what a detector of this version found about a result. The operator's key signs it: the API listens on a
    /// socket that only the operator can open.
    pub async fn record_finding(&self, body: FindingBody) -> Result<FindingView, Refusal> {
        let FindingBody { record, detector, judgement, scope, code, cause, evidence, rerun } = body;
        let place = record.to_string();
        let known: Detector =
            detector.to_string().parse().map_err(|error: ledger::detect::DetectorError| {
                Refusal::new(
                    "rejudge/unknown-detector",
                    detector.to_string(),
                    error.to_string(),
                    "use `muster rejudge`",
                )
            })?;
        let judged = self.judged(record)?;
        if !self.blobs.contains(&evidence.blake3) {
            let next = "put it with PUT /v1/blobs first";
            return Err(Refusal::new("rejudge/evidence", place, "the evidence blob was not put", next));
        }
        if let Some(new) = rerun {
            let again = self.judged(new)?;
            let is_same = (again.task, again.candidate) == (judged.task, judged.candidate);
            let decides = judgement != FindingJudgement::Falls || again.status != Status::Ok;
            if !is_same || !decides {
                let cause = "the new attempt is of another candidate, or passed";
                return Err(Refusal::new("rejudge/rerun", new.to_string(), cause, "use `muster rejudge`"));
            }
        }
        if known == Detector::Stages && rerun.is_none() {
            let next = "use `muster rejudge --detector stages`";
            return Err(Refusal::new("rejudge/rerun", place, "this detector decides by a new attempt", next));
        }
        let finding = Finding {
            record,
            task: judged.task,
            candidate: judged.candidate,
            class: judged.class,
            detector,
            judgement,
            scope,
            code: code.chars().filter(|c| !c.is_control()).take(CODE_MAX).collect(),
            cause: cause.chars().filter(|c| !c.is_control()).take(Finding::CAUSE_MAX).collect(),
            evidence,
            rerun,
            found_on: crate::clock::wall_rfc3339(),
        };
        Ok(FindingView { index: self.commit.add_finding(finding).await? })
    }

    fn judged(&self, record: RecordId) -> Result<ResultSummary, Refusal> {
        self.commit.result(record)?.ok_or_else(|| {
            let next = "`muster rank TASK` shows records";
            Refusal::new("rejudge/unknown-record", record.to_string(), "no result has this name", next)
        })
    }
}
