//! Rewards for training: which verdicts earn one, which are masked, and named, versioned functions from a verdict to a
//! number.
//!
//! | status | counts as |
//! | --- | --- |
//! | `ok` that stands | its ratio to the baseline |
//! | `ok` that a detector brought down | a wrong answer |
//! | `compile_error`, `compile_timeout` | does not compile |
//! | `wrong_result`, `contract_violation`, `suspicious` | a wrong answer |
//! | `rejected`, `launch_error`, `runtime_error`, `timeout`, `out_of_memory`, `worker_lost`, each by the candidate's fault | does not run |
//! | `infrastructure`, `unsupported_on_device`, `task_weak` | masked |
//! | anything whose fault is the fleet's, the task's or the device's (such as a case too large for its memory) | masked |
//!
//! A masked verdict has no reward: it says nothing about the candidate, so it must neither pay nor cost. The functions:
//! `relative` is max(0, (b − t) / b) with −1 on any failure; `cuda-agent` is equation 1 of arXiv 2602.24286 (−1, 1, 2, 3
//! with a strict 5 %); `apex` is 20 for compiling, 100 for being right and a part for the speed-up; `penalties` is
//! (b − t) / b with a weight for each kind of failure.

use super::feedback::Feedback;
use fleet_config::domain::{Blame, PartsPerBillion, RecordId, Status};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// What a verdict says about the candidate itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Passed; the ratio of the baseline's time to its own.
    Passed(PartsPerBillion),
    Failed(Failure),
    /// Nothing about the candidate; the reason.
    Masked(&'static str),
}

/// How a candidate failed by its own fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    DoesNotCompile,
    Wrong,
    DoesNotRun,
}

impl Standing {
    /// What a status says, and whose fault it is; an `ok` is [`Standing::Passed`] only with a ratio.
    pub fn of(status: Status, blame: Blame, ratio: Option<PartsPerBillion>) -> Self {
        let excused = match blame {
            Blame::Nobody | Blame::Candidate => None,
            Blame::Fleet => Some("the fleet's fault"),
            Blame::Task => Some("the task's fault"),
            Blame::Device => Some("the device's fault"),
        };
        match (status, excused) {
            (Status::Infrastructure, _) => Self::Masked("the fleet's fault"),
            (Status::UnsupportedOnDevice, _) => Self::Masked("not supported on this device"),
            (Status::TaskWeak, _) => Self::Masked("the task is weak"),
            (_, Some(reason)) => Self::Masked(reason),
            (Status::Ok, None) => ratio.map_or(Self::Masked("passed without a time"), Self::Passed),
            (Status::CompileError | Status::CompileTimeout, None) => Self::Failed(Failure::DoesNotCompile),
            (Status::WrongResult | Status::ContractViolation | Status::Suspicious, None) => {
                Self::Failed(Failure::Wrong)
            }
            (
                Status::Rejected
                | Status::LaunchError
                | Status::RuntimeError
                | Status::Timeout
                | Status::OutOfMemory
                | Status::WorkerLost,
                None,
            ) => Self::Failed(Failure::DoesNotRun),
        }
    }

    /// The standing of a result as its feedback tells it.
    pub fn of_feedback(feedback: &Feedback) -> Self {
        match &feedback.fallen {
            // What a node that is trusted no more has measured says nothing about the candidate.
            Some(cause) if cause.contains("[node/revoked]") => Self::Masked("the node is trusted no more"),
            Some(_) => Self::Failed(Failure::Wrong),
            None => {
                let ratio = feedback.to_baseline.map(|own| ppb(own.ratio));
                Self::of(feedback.status, feedback.blame, ratio)
            }
        }
    }
}

fn ppb(ratio: f64) -> PartsPerBillion {
    PartsPerBillion((ratio * 1e9).round() as u64)
}

/// A reward function, by name and version. A change of what one computes is a new version.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RewardFunction {
    Relative,
    CudaAgent,
    Apex,
    Penalties(Weights),
}

/// What failures cost under [`RewardFunction::Penalties`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Weights {
    pub compile: f64,
    pub wrong: f64,
    pub run: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { compile: 0.5, wrong: 1.0, run: 1.0 }
    }
}

/// A text that names no reward function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no reward function of this version; there are relative, cuda-agent, apex and penalties, each /1"
)]
pub struct RewardFunctionError(String);

impl FromStr for RewardFunction {
    type Err = RewardFunctionError;
    fn from_str(text: &str) -> Result<Self, RewardFunctionError> {
        match text.strip_suffix("/1").unwrap_or(text) {
            "relative" => Ok(Self::Relative),
            "cuda-agent" => Ok(Self::CudaAgent),
            "apex" => Ok(Self::Apex),
            "penalties" => Ok(Self::Penalties(Weights::default())),
            _ => Err(RewardFunctionError(text.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for RewardFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relative => f.write_str("relative/1"),
            Self::CudaAgent => f.write_str("cuda-agent/1"),
            Self::Apex => f.write_str("apex/1"),
            Self::Penalties(Weights { compile, wrong, run }) => {
                write!(f, "penalties/1(compile={compile},wrong={wrong},run={run})")
            }
        }
    }
}

impl RewardFunction {
    /// The reward of a verdict; `None` where it is masked. `second` is the ratio of a second baseline's time to the
    /// candidate's (the compiler's own code, beside the task's baseline); only `cuda-agent` looks at it.
    pub fn reward(self, standing: &Standing, second: Option<PartsPerBillion>) -> Option<f64> {
        match standing {
            Standing::Masked(_) => None,
            Standing::Passed(ratio) => Some(self.passed(*ratio, second)),
            Standing::Failed(failure) => Some(self.failed(*failure)),
        }
    }

    fn passed(self, ratio: PartsPerBillion, second: Option<PartsPerBillion>) -> f64 {
        let speedup = ratio.ratio();
        // (b − t) / b of the times is 1 − 1 / (b / t) of their ratio.
        let gain = 1.0 - 1.0 / speedup.max(f64::MIN_POSITIVE);
        match self {
            Self::Relative => gain.max(0.0),
            Self::CudaAgent => {
                match (beats_by_five_percent(ratio), second.is_some_and(beats_by_five_percent)) {
                    (true, true) => 3.0,
                    (true, false) => 2.0,
                    // Beating the compiler without beating the task's own baseline earns no more.
                    (false, _) => 1.0,
                }
            }
            Self::Apex => {
                let speed = if speedup >= 1.0 {
                    100.0 + 200.0 * (speedup - 1.0)
                } else {
                    (100.0 * speedup - 50.0).max(0.0)
                };
                APEX_COMPILED + APEX_RIGHT + speed
            }
            Self::Penalties(_) => gain,
        }
    }

    fn failed(self, failure: Failure) -> f64 {
        match (self, failure) {
            (Self::Relative | Self::CudaAgent, _) => -1.0,
            (Self::Apex, Failure::DoesNotCompile) => 0.0,
            (Self::Apex, Failure::Wrong | Failure::DoesNotRun) => APEX_COMPILED,
            (Self::Penalties(weights), Failure::DoesNotCompile) => -weights.compile,
            (Self::Penalties(weights), Failure::Wrong) => -weights.wrong,
            (Self::Penalties(weights), Failure::DoesNotRun) => -weights.run,
        }
    }
}

const APEX_COMPILED: f64 = 20.0;
const APEX_RIGHT: f64 = 100.0;

/// Whether (b − t) / b > 0.05, which is b / t > 20 / 19. The ratio is rounded to parts per billion, so that even its
/// lowest reading must lie above: a time of exactly 95 % does not count.
fn beats_by_five_percent(ratio: PartsPerBillion) -> bool {
    (u128::from(ratio.0) * 2).saturating_sub(1) * 19 > 40_000_000_000
}

/// A reward with what it was made from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rewarded {
    /// Always [`Rewarded::SCHEMA`].
    pub schema: &'static str,
    pub record: RecordId,
    /// Name and version, with its weights where it has some.
    pub function: String,
    pub status: Status,
    /// `null`: masked.
    pub reward: Option<f64>,
    /// Why there is none.
    pub masked: Option<&'static str>,
    pub failure: Option<Failure>,
    /// The baseline's time over the candidate's.
    pub ratio: Option<f64>,
}

impl Rewarded {
    pub const SCHEMA: &str = "muster.reward/1";

    /// The reward of a result.
    pub fn of(feedback: &Feedback, function: RewardFunction, second: Option<f64>) -> Self {
        let standing = Standing::of_feedback(feedback);
        let reward = function.reward(&standing, second.map(ppb));
        let (masked, failure, ratio) = match standing {
            Standing::Passed(ratio) => (None, None, Some(ratio.ratio())),
            Standing::Failed(failure) => (None, Some(failure), None),
            Standing::Masked(reason) => (Some(reason), None, None),
        };
        Self {
            schema: Self::SCHEMA,
            record: feedback.record,
            function: function.to_string(),
            status: feedback.status,
            reward,
            masked,
            failure,
            ratio,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::feedback::Sources;
    use crate::optimizer::fixture::{failed, ok, task, task_id};
    use fleet_config::domain::{Cause, LeafIndex};

    fn times(baseline: f64, own: f64) -> PartsPerBillion {
        ppb(baseline / own)
    }

    fn near(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-8), "{found:?} is not {expected}");
    }

    #[test]
    fn each_status_is_a_reward_or_a_mask_and_the_fleet_is_never_charged_to_a_candidate() {
        let one = Some(PartsPerBillion(1_000_000_000));
        for status in Status::ALL {
            for blame in [Blame::Fleet, Blame::Task, Blame::Device] {
                let standing = Standing::of(status, blame, one);
                assert!(matches!(standing, Standing::Masked(_)), "{status} by {blame:?}: {standing:?}");
                for name in ["relative", "cuda-agent/1", "apex", "penalties"] {
                    assert_eq!(name.parse::<RewardFunction>().unwrap().reward(&standing, None), None);
                }
            }
        }
        let by_candidate = |status| Standing::of(status, Blame::Candidate, None);
        let expected = [
            (Status::WrongResult, Standing::Failed(Failure::Wrong)),
            (Status::ContractViolation, Standing::Failed(Failure::Wrong)),
            (Status::Suspicious, Standing::Failed(Failure::Wrong)),
            (Status::TaskWeak, Standing::Masked("the task is weak")),
            (Status::Rejected, Standing::Failed(Failure::DoesNotRun)),
            (Status::CompileError, Standing::Failed(Failure::DoesNotCompile)),
            (Status::CompileTimeout, Standing::Failed(Failure::DoesNotCompile)),
            (Status::LaunchError, Standing::Failed(Failure::DoesNotRun)),
            (Status::RuntimeError, Standing::Failed(Failure::DoesNotRun)),
            (Status::Timeout, Standing::Failed(Failure::DoesNotRun)),
            (Status::OutOfMemory, Standing::Failed(Failure::DoesNotRun)),
            (Status::UnsupportedOnDevice, Standing::Masked("not supported on this device")),
            // With proof against the candidate.
            (Status::WorkerLost, Standing::Failed(Failure::DoesNotRun)),
            (Status::Infrastructure, Standing::Masked("the fleet's fault")),
            (Status::Ok, Standing::Masked("passed without a time")),
        ];
        assert_eq!(expected.len(), Status::ALL.len());
        for (status, standing) in expected {
            assert_eq!(by_candidate(status), standing, "{status}");
        }
        assert_eq!(
            Standing::of(Status::Ok, Blame::Nobody, one),
            Standing::Passed(PartsPerBillion(1_000_000_000))
        );
    }

    #[test]
    fn relative_is_the_share_of_the_baseline_that_is_saved() {
        let of =
            |baseline, own| RewardFunction::Relative.reward(&Standing::Passed(times(baseline, own)), None);
        near(of(5.0, 3.0), 0.4);
        near(of(5.0, 6.0), 0.0);
        near(of(5.0, 5.0), 0.0);
        for failure in [Failure::DoesNotCompile, Failure::Wrong, Failure::DoesNotRun] {
            near(RewardFunction::Relative.reward(&Standing::Failed(failure), None), -1.0);
        }
    }

    #[test]
    fn cuda_agent_has_four_steps_and_its_five_percent_are_strict() {
        let of = |own: f64, second: Option<f64>| {
            let second = second.map(|compiled| times(compiled, own));
            RewardFunction::CudaAgent.reward(&Standing::Passed(times(1.0, own)), second)
        };
        near(of(0.95, None), 1.0);
        near(of(0.9499, None), 2.0);
        near(of(0.5, Some(0.6)), 3.0);
        near(of(0.5, Some(0.5)), 2.0);
        near(of(0.95, Some(0.95)), 1.0);
        // Faster than the compiler's code and not than the baseline.
        near(of(1.0, Some(2.0)), 1.0);
        near(of(3.0, None), 1.0);
        near(RewardFunction::CudaAgent.reward(&Standing::Failed(Failure::DoesNotCompile), None), -1.0);
        // The borders around 95 % of many baselines, where rounding would decide.
        for baseline in 1..2000_u32 {
            let baseline = f64::from(baseline);
            let at =
                RewardFunction::CudaAgent.reward(&Standing::Passed(times(baseline, 0.95 * baseline)), None);
            near(at, 1.0);
        }
    }

    #[test]
    fn apex_pays_for_compiling_for_being_right_and_for_speed() {
        let of = |speedup: f64| RewardFunction::Apex.reward(&Standing::Passed(ppb(speedup)), None);
        for (speedup, score) in
            [(1.0, 220.0), (2.0, 420.0), (1.5, 320.0), (0.6, 130.0), (0.5, 120.0), (0.1, 120.0)]
        {
            near(of(speedup), score);
        }
        let failed = |failure| RewardFunction::Apex.reward(&Standing::Failed(failure), None);
        near(failed(Failure::DoesNotCompile), 0.0);
        near(failed(Failure::Wrong), 20.0);
        near(failed(Failure::DoesNotRun), 20.0);
    }

    #[test]
    fn penalties_have_a_weight_for_each_kind_of_failure() {
        let weights = Weights { compile: 0.25, wrong: 2.0, run: 1.5 };
        let function = RewardFunction::Penalties(weights);
        near(function.reward(&Standing::Passed(times(5.0, 3.0)), None), 0.4);
        near(function.reward(&Standing::Passed(times(5.0, 6.0)), None), -0.2);
        near(function.reward(&Standing::Failed(Failure::DoesNotCompile), None), -0.25);
        near(function.reward(&Standing::Failed(Failure::Wrong), None), -2.0);
        near(function.reward(&Standing::Failed(Failure::DoesNotRun), None), -1.5);
        assert_eq!(function.to_string(), "penalties/1(compile=0.25,wrong=2,run=1.5)");
        assert!("relative/2".parse::<RewardFunction>().is_err() && "".parse::<RewardFunction>().is_err());
    }

    #[test]
    fn a_record_is_rewarded_by_what_stands_in_it() {
        let task = task();
        let results =
            [ok(1, "two", 2.0), failed(2, "lost", Status::Infrastructure, Blame::Fleet, Cause::default())];
        let sources = Sources { task: &task, task_id: task_id(), results: &results, as_of: 100 };
        let feedback = |leaf| Feedback::on(LeafIndex(leaf), &sources, None, &|_| None).unwrap();
        let two = Rewarded::of(&feedback(1), RewardFunction::Relative, None);
        assert!(two.reward.is_some_and(|reward| (reward - 0.5).abs() < 0.01), "{two:?}");
        let lost = Rewarded::of(&feedback(2), RewardFunction::Relative, None);
        assert_eq!((lost.reward, lost.masked), (None, Some("the fleet's fault")));
        assert!(serde_json::to_string(&lost).unwrap().contains("\"reward\":null"));
        let mut fallen = feedback(1);
        fallen.fallen = Some("faster than the memory [floor/memory], entry 9".to_owned());
        assert_eq!(Rewarded::of(&fallen, RewardFunction::Relative, None).reward, Some(-1.0));
        fallen.fallen = Some("suspect [node/revoked], entry 9".to_owned());
        assert_eq!(Rewarded::of(&fallen, RewardFunction::Relative, None).reward, None);
    }
}
