//! Whose fault it is when something goes wrong in a context that two parties share. Pure.
//!
//! Launches do not overlap, and each has ended with all that it started before its answer. So what goes wrong in a launch
//! of the candidate is the candidate's. What goes wrong on the baseline's side is the candidate's or the baseline's own:
//! a stray or hostile write stays in memory until the baseline meets it.
//!
//! ```text
//! side        company  candidate launched before   verdict
//! candidate   any      any                         the candidate's
//! baseline    alone    any                         as said: the task's
//! baseline    shared   no                          as said: the task's
//! baseline    shared   yes                         the baseline runs alone in a new process, as often and with the
//!                                                  inputs of the launch in hand:
//!                                                    well   → the candidate's
//!                                                    not    → the task's
//!                                                    fleet  → nobody's; the attempt is tried again
//! ```
//! The task's baseline is trusted not to be hostile: it has passed validation, fenced, in a process of its own.

use crate::backend::Failure;
use crate::backend::pair::{Company, Side};
use fleet_config::domain::{Blame, Cause, Outcome, Picoseconds, Stage, Status};

/// How often the baseline is tried alone at least: once may be luck.
const TRIES_MIN: u64 = 3;
/// At most: more launches than a plan of pairs has.
const TRIES_MAX: u64 = 1024;
/// Bytes of buffers that the tries may amount to, since what they give is kept to be compared.
const TRIES_BYTES: u64 = 1 << 30;
/// A baseline that is slower in company than alone by this, in thousandths of its time alone, …
const SLOWER_PER_MILLE: u64 = 1250;
/// … and by more than this, four steps of a device's event clock, is looked into.
const SLOWER_MIN: Picoseconds = Picoseconds(2_000_000);

/// What went wrong, as far as blame needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Incident {
    pub side: Side,
    pub status: Status,
    pub company: Company,
    /// Launches of the candidate in this address space before.
    pub candidate_launches: u64,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ruling {
    /// The failure says whose it is.
    AsSaid,
    /// The baseline is to be tried alone.
    TryAlone,
}

/// Whether a failure may be another's than it says.
pub(super) fn rule(incident: Incident) -> Ruling {
    let Incident { side, status, company, candidate_launches } = incident;
    match (side, company) {
        (Side::Candidate, Company::Alone | Company::Shared) | (Side::Baseline, Company::Alone) => {
            return Ruling::AsSaid;
        }
        (Side::Baseline, Company::Shared) => {}
    }
    if candidate_launches == 0 {
        return Ruling::AsSaid;
    }
    match status {
        // What bytes in memory can bring about.
        Status::WrongResult
        | Status::ContractViolation
        | Status::LaunchError
        | Status::RuntimeError
        | Status::Timeout
        | Status::OutOfMemory => Ruling::TryAlone,
        // What they cannot, or what is the fleet's already.
        Status::Ok
        | Status::Suspicious
        | Status::TaskWeak
        | Status::Rejected
        | Status::CompileError
        | Status::CompileTimeout
        | Status::UnsupportedOnDevice
        | Status::WorkerLost
        | Status::Infrastructure => Ruling::AsSaid,
    }
}

/// How often the baseline is tried alone: as often as it was launched before, since it may fail by its own launches
/// adding up, unless its buffers are too large for that.
pub(super) fn tries_alone(launches: u64, bytes: u64) -> usize {
    let tries = launches.min(TRIES_BYTES / bytes.max(1)).clamp(TRIES_MIN, TRIES_MAX);
    usize::try_from(tries).unwrap_or(1)
}

/// The candidate's verdict for what the baseline met in the shared context and does not meet alone.
pub(super) fn against_candidate(failure: Failure, stage: Stage) -> Failure {
    let Failure { outcome, log } = failure;
    let was = outcome.cause.unwrap_or_default();
    let told = was.message.strip_prefix("the task's baseline failed: ").unwrap_or(&was.message);
    let cause = Cause {
        code: "time/neighbour".to_owned(),
        message: format!(
            "after launches of the candidate the baseline failed in the same context, and alone with the same inputs \
             it does not: {told}"
        ),
        ..was
    };
    let hint = "write to the buffers of the launch plan only, within their bounds";
    let outcome = Outcome::failed(Status::ContractViolation, stage, Blame::Candidate, cause, hint);
    Failure { outcome: Box::new(outcome), log }
}

/// Whether the baseline was so much slower in company that it must be timed once more.
pub(super) fn is_slowed(in_company: &[Picoseconds], alone: &[Picoseconds]) -> bool {
    let (Some(in_company), Some(alone)) = (median(in_company), median(alone)) else { return false };
    let limit = u128::from(alone) * u128::from(SLOWER_PER_MILLE) / 1000;
    u128::from(in_company) > limit && in_company - alone > SLOWER_MIN.0
}

/// The verdict for a baseline that is slow beside this candidate only. Not charged to anybody: what slowed it is not
/// known.
pub(super) fn slowed(in_company: &[Picoseconds], alone: &[Picoseconds], stage: Stage, case: &str) -> Failure {
    let text = |times: &[Picoseconds]| Picoseconds(median(times).unwrap_or(0)).to_string();
    let cause = Cause {
        code: "time/baseline-slowed".to_owned(),
        message: format!(
            "the baseline took {} in the context of the candidate and {} without it",
            text(in_company),
            text(alone)
        ),
        case: Some(case.to_owned()),
        ..Cause::default()
    };
    let hint = "measure again; if it stays so, look for what the candidate leaves behind on the device";
    Failure::new(Outcome::failed(Status::Suspicious, stage, Blame::Nobody, cause, hint))
}

/// The lower of the middle times.
fn median(times: &[Picoseconds]) -> Option<u64> {
    let mut sorted: Vec<u64> = times.iter().map(|time| time.0).collect();
    sorted.sort_unstable();
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::FaultKind;

    const FAULTS: [Status; 6] = [
        Status::WrongResult,
        Status::ContractViolation,
        Status::LaunchError,
        Status::RuntimeError,
        Status::Timeout,
        Status::OutOfMemory,
    ];

    fn ruling(side: Side, status: Status, company: Company, candidate_launches: u64) -> Ruling {
        rule(Incident { side, status, company, candidate_launches })
    }

    #[test]
    fn only_a_baseline_in_company_after_a_launch_of_the_candidate_is_tried_alone() {
        for status in FAULTS {
            for launches in [0, 1, 200] {
                for company in [Company::Alone, Company::Shared] {
                    assert_eq!(ruling(Side::Candidate, status, company, launches), Ruling::AsSaid);
                }
                assert_eq!(ruling(Side::Baseline, status, Company::Alone, launches), Ruling::AsSaid);
            }
            assert_eq!(ruling(Side::Baseline, status, Company::Shared, 0), Ruling::AsSaid);
            assert_eq!(ruling(Side::Baseline, status, Company::Shared, 1), Ruling::TryAlone, "{status}");
        }
    }

    #[test]
    fn a_baseline_is_tried_as_often_as_it_ran_within_bounds() {
        assert_eq!(tries_alone(120, 12_000), 120);
        assert_eq!(tries_alone(1, 12_000), 3);
        assert_eq!(tries_alone(u64::MAX, 0), 1024);
        assert_eq!(tries_alone(120, 1 << 28), 4);
        assert_eq!(tries_alone(120, u64::MAX), 3);
    }

    #[test]
    fn what_the_fleet_did_is_never_put_to_the_proof() {
        for status in [Status::WorkerLost, Status::Infrastructure, Status::Suspicious] {
            assert_eq!(ruling(Side::Baseline, status, Company::Shared, 9), Ruling::AsSaid, "{status}");
        }
    }

    #[test]
    fn the_verdict_against_a_candidate_keeps_what_the_device_said() {
        let cause = Cause {
            code: "launch/fault".to_owned(),
            message: "the task's baseline failed: stopped".to_owned(),
            fault: Some(FaultKind::IllegalAddress),
            vendor_code: Some("X (700)".to_owned()),
            case: Some("c".to_owned()),
            ..Cause::default()
        };
        let was = Outcome::failed(Status::RuntimeError, Stage::Time, Blame::Task, cause, "mend the task");
        let now = against_candidate(Failure::with_log(was, "log"), Stage::Time);
        assert_eq!((now.outcome.status, now.outcome.blame), (Status::ContractViolation, Blame::Candidate));
        let cause = now.outcome.cause.unwrap();
        assert_eq!((cause.code.as_str(), cause.fault), ("time/neighbour", Some(FaultKind::IllegalAddress)));
        assert!(cause.message.ends_with("it does not: stopped"), "{}", cause.message);
        assert_eq!(now.log.as_deref(), Some(b"log".as_slice()));
    }

    #[test]
    fn a_baseline_is_slowed_by_a_quarter_and_by_more_than_the_clock_resolves() {
        let times = |micros: &[u64]| -> Vec<Picoseconds> {
            micros.iter().map(|micros| Picoseconds(micros * 1_000_000)).collect()
        };
        let alone = times(&[100, 90, 500]);
        assert!(!is_slowed(&times(&[125]), &alone));
        assert!(is_slowed(&times(&[126]), &alone));
        assert!(!is_slowed(&times(&[6]), &times(&[4])), "two microseconds are within the clock");
        assert!(is_slowed(&times(&[7]), &times(&[4])));
        assert!(!is_slowed(&times(&[1]), &alone));
        assert!(!is_slowed(&[], &alone) && !is_slowed(&alone, &[]));
    }
}
