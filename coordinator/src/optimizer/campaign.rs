//! A campaign's decisions: whether an attempt is the new best, and when to stop. The best only moves forward, and only
//! where the intervals say so.

use super::attempt::{Attempt, Decision, Measured, Verdict};
use super::feedback::Ratio;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The baseline against itself.
pub const ONE: Ratio = Ratio { ratio: 1.0, low: 1.0, high: 1.0 };

/// Bounds and goals that were fixed before the first attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Proposals beside the baseline.
    pub iterations: u32,
    /// Seconds on devices: validation and timing.
    pub device_seconds: Option<u64>,
    /// Seconds of all sessions together.
    pub wall_seconds: Option<u64>,
    /// Ratio to the baseline that is enough, once the whole interval of the best lies above it.
    pub target: Option<f64>,
    /// Attempts in a row without a new best.
    pub plateau: Option<u32>,
    /// Smallest gain over the best that counts, such as 0.01.
    pub gain_min: f64,
}

/// Why a campaign ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    MaxIterations,
    DeviceBudget,
    WallBudget,
    Target,
    Plateau,
    /// The proposer has nothing left.
    Exhausted,
    /// The proposer ended the campaign, in its words.
    ProposerStopped(String),
    /// The proposer failed several times in a row.
    ProposerFailed(String),
    /// It was not worth starting.
    NoGo(String),
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxIterations => f.write_str("max_iterations"),
            Self::DeviceBudget => f.write_str("device_budget"),
            Self::WallBudget => f.write_str("wall_budget"),
            Self::Target => f.write_str("target"),
            Self::Plateau => f.write_str("plateau"),
            Self::Exhausted => f.write_str("exhausted"),
            Self::ProposerStopped(words) => write!(f, "proposer_stopped: {words}"),
            Self::ProposerFailed(cause) => write!(f, "proposer_failed: {cause}"),
            Self::NoGo(cause) => write!(f, "no_go: {cause}"),
        }
    }
}

/// The best attempt, if any is better than the baseline. `attempts` are in order of iterations.
pub fn best(attempts: &[Attempt]) -> Option<(&Attempt, &Measured)> {
    let kept = |attempt: &'_ Attempt| attempt.measured.as_ref().is_some_and(|m| m.decision == Decision::Keep);
    let attempt = attempts.iter().rev().find(|attempt| kept(attempt))?;
    Some((attempt, attempt.measured.as_ref()?))
}

/// What becomes of an attempt, given the ratio of the best so far. Both were timed against the baseline in leases of their
/// own, so a step forward is one whose interval lies above that of the best.
pub fn decide(best: Ratio, verdict: Verdict, own: Option<Ratio>, gain_min: f64) -> Decision {
    let own = match (verdict, own) {
        (Verdict::Masked, _) | (Verdict::Passed, None) => return Decision::Masked,
        (Verdict::Failed, _) => return Decision::Failed,
        (Verdict::Passed, Some(own)) => own,
    };
    if own.high < best.low {
        return Decision::Slower;
    }
    if own.low <= best.high {
        return Decision::Tie;
    }
    // Six digits are kept of a ratio, so that exactly the smallest gain counts.
    if own.ratio / best.ratio < 1.0 + gain_min - 1e-9 { Decision::BelowMinimum } else { Decision::Keep }
}

/// The first bound that is reached, if one is. `elapsed_ms` is that of all sessions.
pub fn stop(budget: &Budget, attempts: &[Attempt], elapsed_ms: u64) -> Option<StopReason> {
    let proposals = attempts.iter().filter(|attempt| attempt.proposal.iteration > 0);
    if budget.target.is_some_and(|target| {
        best(attempts).and_then(|(_, measured)| measured.ratio).is_some_and(|ratio| ratio.low >= target)
    }) {
        return Some(StopReason::Target);
    }
    if proposals.count() >= budget.iterations as usize {
        return Some(StopReason::MaxIterations);
    }
    let device_ms: u64 = attempts.iter().filter_map(|a| a.measured.as_ref()).map(|m| m.device_ms).sum();
    if budget.device_seconds.is_some_and(|seconds| device_ms >= seconds.saturating_mul(1000)) {
        return Some(StopReason::DeviceBudget);
    }
    if budget.wall_seconds.is_some_and(|seconds| elapsed_ms >= seconds.saturating_mul(1000)) {
        return Some(StopReason::WallBudget);
    }
    let is_flat = budget.plateau.is_some_and(|plateau| since_last_step(attempts) >= plateau);
    is_flat.then_some(StopReason::Plateau)
}

/// Attempts since the best moved, those that say nothing left out.
pub fn since_last_step(attempts: &[Attempt]) -> u32 {
    let mut count = 0;
    for measured in attempts.iter().rev().filter_map(|attempt| attempt.measured.as_ref()) {
        match measured.decision {
            Decision::Keep | Decision::Baseline => break,
            Decision::Masked | Decision::Screened => {}
            Decision::Tie | Decision::Slower | Decision::BelowMinimum | Decision::Failed => count += 1,
        }
    }
    count
}

/// The smallest change that one lease shows, from the baseline measured against itself: the farther end of its interval.
pub fn detectable(baseline: Ratio) -> f64 {
    (baseline.high - 1.0).abs().max((1.0 - baseline.low).abs())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::optimizer::attempt::{Origin, Proposal, Usage};
    use crate::optimizer::search::Rung;
    use std::collections::BTreeMap;

    /// An attempt for tests of this room and its neighbours.
    pub(in crate::optimizer) fn attempt(iteration: u32, decision: Decision, ratio: Option<f64>) -> Attempt {
        let ratio = ratio.map(|ratio| Ratio { ratio, low: ratio * 0.99, high: ratio * 1.01 });
        Attempt {
            proposal: Proposal {
                iteration,
                origin: if iteration == 0 { Origin::Initial } else { Origin::Search },
                name: format!("candidate {iteration}"),
                parent: (iteration > 0).then_some(0),
                point: BTreeMap::from([("rows".to_owned(), iteration.to_string())]),
                rung: Rung(0),
                words: String::new(),
                model: String::new(),
                usage: Usage::default(),
                failure: None,
                file: Some("source.cu".to_owned()),
                source_sha256: Some(format!("{iteration:064x}")),
            },
            measured: Some(Measured {
                submission: None,
                record: Some(format!("{iteration:064x}")),
                leaf: Some(u64::from(iteration) + 4),
                candidate: None,
                status: None,
                verdict: Verdict::Passed,
                code: String::new(),
                cause: String::new(),
                ratio,
                cases: Vec::new(),
                device_ms: 1500,
                reused: false,
                told: "ok".to_owned(),
                decision,
                elapsed_ms: 2000 * u64::from(iteration + 1),
            }),
        }
    }

    fn budget() -> Budget {
        Budget {
            iterations: 7,
            device_seconds: None,
            wall_seconds: None,
            target: None,
            plateau: None,
            gain_min: 0.01,
        }
    }

    fn ratio(ratio: f64, half: f64) -> Ratio {
        Ratio { ratio, low: ratio - half, high: ratio + half }
    }

    #[test]
    fn the_best_moves_only_where_the_intervals_say_so() {
        let best = ratio(2.0, 0.02);
        let decide = |own: Ratio| decide(best, Verdict::Passed, Some(own), 0.01);
        assert_eq!(decide(ratio(2.1, 0.02)), Decision::Keep);
        assert_eq!(decide(ratio(2.03, 0.02)), Decision::Tie, "a better score within the noise is luck");
        assert_eq!(decide(ratio(1.99, 0.02)), Decision::Tie);
        assert_eq!(decide(ratio(1.9, 0.02)), Decision::Slower);
        assert_eq!(super::decide(best, Verdict::Failed, None, 0.01), Decision::Failed);
        assert_eq!(super::decide(best, Verdict::Masked, Some(ratio(9.0, 0.1)), 0.01), Decision::Masked);
        assert_eq!(super::decide(best, Verdict::Passed, None, 0.01), Decision::Masked);
    }

    #[test]
    fn a_gain_of_one_percent_is_kept_and_one_below_it_is_not() {
        let decide = |gain: f64| decide(ONE, Verdict::Passed, Some(ratio(1.0 + gain, 0.001)), 0.01);
        assert_eq!(decide(0.0099), Decision::BelowMinimum);
        assert_eq!(decide(0.01), Decision::Keep);
    }

    #[test]
    fn each_bound_stops_a_campaign_with_its_name() {
        let mut attempts =
            vec![attempt(0, Decision::Baseline, Some(1.0)), attempt(1, Decision::Keep, Some(2.0))];
        assert_eq!(stop(&budget(), &attempts, 0), None);
        let with = |change: &dyn Fn(&mut Budget)| {
            let mut budget = budget();
            change(&mut budget);
            stop(&budget, &attempts, 4000).map(|reason| reason.to_string())
        };
        assert_eq!(with(&|b| b.iterations = 1).as_deref(), Some("max_iterations"));
        assert_eq!(with(&|b| b.device_seconds = Some(3)).as_deref(), Some("device_budget"));
        assert_eq!(with(&|b| b.device_seconds = Some(4)), None);
        assert_eq!(with(&|b| b.wall_seconds = Some(4)).as_deref(), Some("wall_budget"));
        assert_eq!(with(&|b| b.target = Some(1.5)).as_deref(), Some("target"));
        assert_eq!(with(&|b| b.target = Some(1.99)), None, "the whole interval must lie above it");
        attempts.extend([attempt(2, Decision::Tie, Some(2.0)), attempt(3, Decision::Masked, None)]);
        let flat = |plateau| stop(&Budget { plateau: Some(plateau), ..budget() }, &attempts, 0);
        assert_eq!((flat(1), flat(2)), (Some(StopReason::Plateau), None), "what says nothing is not counted");
    }

    #[test]
    fn the_best_is_the_last_one_that_was_kept() {
        let attempts = [
            attempt(0, Decision::Baseline, Some(1.0)),
            attempt(1, Decision::Keep, Some(1.5)),
            attempt(2, Decision::Keep, Some(2.0)),
            attempt(3, Decision::Failed, None),
        ];
        assert_eq!(best(&attempts).map(|(attempt, _)| attempt.proposal.iteration), Some(2));
        assert_eq!(best(&attempts[..1]), None, "the baseline is no candidate");
        assert!((detectable(ratio(1.001, 0.004)) - 0.005).abs() < 1e-12);
    }
}
