//! How a step ends other than well, and whose fault that is.

use crate::backend::Failure;
use fleet_config::domain::{Blame, Cause, Outcome, Stage, Status, UnsupportedReason};

/// Whose implementation a step was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Reference,
    Baseline,
    Candidate,
}

impl Party {
    /// The word used in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Baseline => "baseline",
            Self::Candidate => "candidate",
        }
    }
    /// Who answers for what it does.
    pub fn blame(self) -> Blame {
        match self {
            Self::Reference | Self::Baseline => Blame::Task,
            Self::Candidate => Blame::Candidate,
        }
    }
    /// `failure` as this party's: what a reference or baseline did wrong is charged to the task, and what the
    /// fleet did wrong to nobody but the fleet.
    pub fn charge(self, mut failure: Failure) -> Failure {
        let outcome = failure.outcome.as_mut();
        if outcome.status.is_retried() {
            outcome.blame = Blame::Fleet;
        }
        match (self, outcome.blame) {
            (Self::Candidate, _) | (_, Blame::Fleet) => return failure,
            (
                Self::Reference | Self::Baseline,
                Blame::Nobody | Blame::Candidate | Blame::Task | Blame::Device,
            ) => {
                outcome.blame = Blame::Task;
            }
        }
        if let Some(cause) = outcome.cause.as_mut() {
            cause.message = format!("the task's {} failed: {}", self.name(), cause.message);
        }
        outcome.hint =
            format!("mend the task: its {} must run on every device that it is offered to", self.name());
        failure
    }
}

/// Why a step did not finish.
#[derive(Debug)]
pub enum Stop {
    /// Nobody wants the result any more; nothing is recorded.
    Cancelled,
    /// The attempt ends with this outcome.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A cause with code and message and nothing else.
pub fn cause(code: &str, message: impl Into<String>) -> Cause {
    Cause { code: code.to_owned(), message: message.into(), ..Cause::default() }
}

/// A fault of this node or its coordinator: tried again, never charged to a candidate.
pub fn infrastructure(stage: Stage, code: &str, message: impl Into<String>) -> Failure {
    let hint = "this is the fleet's own fault; the attempt is tried again";
    Failure::new(Outcome::failed(Status::Infrastructure, stage, Blame::Fleet, cause(code, message), hint))
}

/// Something that this device cannot do, with the reason from the closed list.
pub fn unsupported(stage: Stage, reason: UnsupportedReason, message: impl Into<String>) -> Failure {
    let cause = Cause { unsupported: Some(reason), ..cause("resolve/unsupported", message) };
    let hint = "submit to another device class";
    Failure::new(Outcome::failed(Status::UnsupportedOnDevice, stage, Blame::Device, cause, hint))
}

/// Writes the time limit of the whole attempt into an outcome.
pub fn run_limit(party: Party, stage: Stage, case: &str, limit_ms: u64) -> Failure {
    let message = format!("the {} used up its {limit_ms} ms on the device", party.name());
    let cause = Cause { case: Some(case.to_owned()), ..cause("run/limit", message) };
    let hint = "make the kernel faster or raise `limits.run` of the task";
    party.charge(Failure::new(Outcome::failed(Status::Timeout, stage, party.blame(), cause, hint)))
}
