//! Which stage of validation is at work, what it has looked at, what it cost, and what became of it. Pure.

use super::context::{elapsed, milliseconds};
use crate::backend::Failure;
use fleet_config::domain::{
    Blame, CheckEvidence, CheckFinding, MeasurementPolicy, Picoseconds, Status, ValidationStage,
};
use std::collections::BTreeMap;

/// What one stage has seen so far.
#[derive(Debug, Clone, Default)]
struct Seen {
    cases: u32,
    draws: u32,
    launches: u32,
    case: String,
    took: Picoseconds,
    finding: Option<CheckFinding>,
    detail: Vec<String>,
}

/// The stages of one attempt. One is at work at a time; the clock is the caller's.
#[derive(Debug, Default)]
pub(super) struct Stages {
    seen: BTreeMap<ValidationStage, Seen>,
    current: Option<(ValidationStage, Picoseconds)>,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Looked {
    pub cases: usize,
    pub draws: usize,
    pub launches: usize,
}

impl Stages {
    /// `stage` goes on, or begins; the one before it pauses.
    pub(super) fn enter(&mut self, stage: ValidationStage, now: Picoseconds) {
        self.leave(now);
        self.seen.entry(stage).or_default();
        self.current = Some((stage, now));
    }

    /// Nothing is at work: waiting for the machine is no stage's cost.
    pub(super) fn leave(&mut self, now: Picoseconds) {
        if let Some((stage, since)) = self.current.take() {
            self.spent(stage, elapsed(since, now));
        }
    }

    /// Adds to what `stage` cost.
    pub(super) fn spent(&mut self, stage: ValidationStage, took: Picoseconds) {
        let seen = self.seen.entry(stage).or_default();
        seen.took.0 = seen.took.0.saturating_add(took.0);
    }

    /// Moves what a part of the current stage cost to another one.
    pub(super) fn move_to(&mut self, stage: ValidationStage, took: Picoseconds) {
        self.spent(stage, took);
        if let Some((_, since)) = &mut self.current {
            since.0 = since.0.saturating_add(took.0);
        }
    }

    /// Adds to what `stage` has looked at.
    pub(super) fn looked(&mut self, stage: ValidationStage, looked: Looked) {
        let seen = self.seen.entry(stage).or_default();
        let add = |total: &mut u32, more: usize| {
            *total = total.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        };
        add(&mut seen.cases, looked.cases);
        add(&mut seen.draws, looked.draws);
        add(&mut seen.launches, looked.launches);
    }

    /// `stage` looks at this case alone.
    pub(super) fn at(&mut self, stage: ValidationStage, case: &str) {
        self.seen.entry(stage).or_default().case = case.to_owned();
    }

    /// Adds to what people are told of `stage`.
    pub(super) fn say(&mut self, stage: ValidationStage, detail: impl Into<String>) {
        self.seen.entry(stage).or_default().detail.push(detail.into());
    }

    /// `stage` cannot be run, for this reason.
    pub(super) fn skip(&mut self, stage: ValidationStage, reason: impl Into<String>) {
        let seen = self.seen.entry(stage).or_default();
        seen.finding = Some(CheckFinding::NotRun);
        seen.detail = vec![reason.into()];
    }

    /// The stages that `policy` leaves out say so, and whose choice it was.
    pub(super) fn leave_out(&mut self, policy: &MeasurementPolicy) {
        for stage in &policy.left_out {
            self.skip(stage.stage(), format!("left out by the policy {}", policy.name));
        }
    }

    /// The attempt ends with `failure` while a stage is at work: whose finding that is.
    pub(super) fn ended(&mut self, failure: &Failure, now: Picoseconds) {
        let Some((stage, _)) = self.current else { return };
        self.leave(now);
        let cause = failure.outcome.cause.as_ref();
        let message = cause.map(|cause| cause.message.clone()).unwrap_or_default();
        let code = cause.map(|cause| cause.code.as_str()).unwrap_or_default();
        if failure.outcome.blame != Blame::Candidate {
            return self.skip(stage, format!("ended early, not by the candidate: {code}"));
        }
        let finder = match failure.outcome.status {
            Status::ContractViolation => ValidationStage::PostRun,
            Status::Ok
            | Status::WrongResult
            | Status::Suspicious
            | Status::TaskWeak
            | Status::Rejected
            | Status::CompileError
            | Status::CompileTimeout
            | Status::LaunchError
            | Status::RuntimeError
            | Status::Timeout
            | Status::OutOfMemory
            | Status::UnsupportedOnDevice
            | Status::WorkerLost
            | Status::Infrastructure => stage_of(code).unwrap_or(stage),
        };
        if finder != stage {
            self.skip(stage, format!("ended early: {} found a fault", finder.name()));
        }
        let seen = self.seen.entry(finder).or_default();
        seen.finding = Some(CheckFinding::FaultFound);
        seen.detail = vec![if finder == stage { message } else { format!("in {}: {message}", stage.name()) }];
    }

    /// The stages in order; empty if none was ever entered.
    pub(super) fn evidence(self) -> Vec<CheckEvidence> {
        if self.seen.is_empty() {
            return Vec::new();
        }
        let mut seen = self.seen;
        let one = |stage: ValidationStage| {
            let not_reached = || Seen {
                finding: Some(CheckFinding::NotRun),
                detail: vec!["the attempt ended before it".to_owned()],
                ..Seen::default()
            };
            let Seen { cases, draws, launches, case, took, finding, detail } =
                seen.remove(&stage).unwrap_or_else(not_reached);
            let detail = detail.join("; ");
            CheckEvidence {
                check: stage.check(),
                case,
                cases,
                draws,
                launches,
                finding: finding.unwrap_or(CheckFinding::NoFaultFound),
                detail: detail.chars().take(CheckEvidence::DETAIL_MAX).collect(),
                took: milliseconds(took),
            }
        };
        ValidationStage::ALL.map(one).to_vec()
    }
}

/// The stage that codes of its own name.
fn stage_of(code: &str) -> Option<ValidationStage> {
    let (room, _) = code.split_once('/')?;
    match room {
        "determinism" => Some(ValidationStage::Determinism),
        "run" if matches!(code, "run/late-write" | "run/traced") => Some(ValidationStage::PostRun),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::fault::cause;
    use fleet_config::domain::{Outcome, Stage};

    fn at(ms: u64) -> Picoseconds {
        Picoseconds(ms * 1_000_000_000)
    }

    fn failure(status: Status, blame: Blame, code: &str) -> Failure {
        Failure::new(Outcome::failed(status, Stage::Validate, blame, cause(code, "told"), ""))
    }

    fn finding(evidence: &[CheckEvidence], stage: ValidationStage) -> (CheckFinding, &str) {
        let one = evidence.iter().find(|one| one.check == stage.check()).unwrap();
        (one.finding, one.detail.as_str())
    }

    #[test]
    fn time_goes_to_the_stage_at_work_and_waiting_to_none() {
        let mut stages = Stages::default();
        stages.enter(ValidationStage::Cases, at(0));
        stages.enter(ValidationStage::Smoke, at(5));
        stages.enter(ValidationStage::Cases, at(7));
        stages.move_to(ValidationStage::Determinism, at(1));
        stages.leave(at(10));
        stages.enter(ValidationStage::Cases, at(100));
        stages.leave(at(101));
        let took: Vec<u64> = stages.evidence().iter().map(|one| one.took.0).collect();
        assert_eq!(took, [0, 2, 8, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn a_stage_that_ends_the_attempt_is_named_and_what_follows_is_not_run() {
        use CheckFinding::{FaultFound, NoFaultFound, NotRun};
        let mut stages = Stages::default();
        stages.enter(ValidationStage::Contract, at(0));
        stages.enter(ValidationStage::Cases, at(0));
        stages.ended(&failure(Status::WrongResult, Blame::Candidate, "validate/mismatch"), at(1));
        let evidence = stages.evidence();
        assert_eq!(finding(&evidence, ValidationStage::Contract), (NoFaultFound, ""));
        assert_eq!(finding(&evidence, ValidationStage::Cases), (FaultFound, "told"));
        assert_eq!(finding(&evidence, ValidationStage::Shapes).0, NotRun);
        for (status, blame, code, stage, finder) in [
            (Status::ContractViolation, Blame::Candidate, "contract/fence", NotRun, ValidationStage::PostRun),
            (
                Status::WrongResult,
                Blame::Candidate,
                "determinism/differs",
                NotRun,
                ValidationStage::Determinism,
            ),
        ] {
            let mut stages = Stages::default();
            stages.enter(ValidationStage::Cases, at(0));
            stages.ended(&failure(status, blame, code), at(1));
            let evidence = stages.evidence();
            assert_eq!(finding(&evidence, ValidationStage::Cases).0, stage);
            assert_eq!(finding(&evidence, finder), (FaultFound, "in cases: told"));
        }
        let mut stages = Stages::default();
        stages.enter(ValidationStage::Cases, at(0));
        stages.ended(&failure(Status::WrongResult, Blame::Task, "validate/mismatch"), at(1));
        assert_eq!(finding(&stages.evidence(), ValidationStage::Cases).0, NotRun, "no finding against it");
        assert!(Stages::default().evidence().is_empty());
    }
}
