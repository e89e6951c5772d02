//! `summary.json`: the best, what it gains, why it ended, what it cost, and whether to go on.

use super::{Ending, HoldoutOutcome, Story};
use crate::optimizer::amdahl;
use crate::optimizer::attempt::{Attempt, Decision, Measured, Usage, Verdict};
use crate::optimizer::campaign::{best, detectable};
use crate::optimizer::feedback::Ratio;
use crate::optimizer::settings::Rule;
use serde::Serialize;
use std::collections::BTreeMap;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Always [`Summary::SCHEMA`].
    pub schema: &'static str,
    pub campaign: String,
    pub task: String,
    pub task_name: String,
    pub class: String,
    /// 0: nothing better than the baseline was found.
    pub best_iteration: u32,
    pub best_name: String,
    pub best_source_sha256: Option<String>,
    pub best_record: Option<String>,
    pub cases: BTreeMap<String, CaseSummary>,
    /// Over the performance cases, to the baseline of the same lease.
    pub geomean_speedup: f64,
    pub interval: Option<Ratio>,
    /// `null` while it runs.
    pub termination: Option<String>,
    /// Proposals beside the baseline.
    pub iterations: u32,
    pub valid: u32,
    pub rejected: u32,
    pub masked: u32,
    /// Codes of first causes, with how often each was met.
    pub reasons: BTreeMap<String, u32>,
    /// From the baseline measured against itself.
    pub minimum_detectable_change: Option<f64>,
    pub device_seconds: f64,
    pub elapsed_seconds: f64,
    pub experiments_per_hour: Option<f64>,
    /// Eight hours at this rate.
    pub experiments_per_night: Option<f64>,
    pub usage: Usage,
    pub rerun: Option<Rerun>,
    pub holdout: Option<HoldoutOutcome>,
    pub flags: Vec<String>,
    pub rule: Rule,
    /// Speed-up of the whole by the best, where the kernel's share was given: an estimate, no measurement.
    pub whole_speedup_estimate: Option<f64>,
    /// What must hold before it is used.
    pub conditions: BTreeMap<&'static str, Condition>,
    pub verdict: &'static str,
}

impl Summary {
    pub const SCHEMA: &str = "muster.summary/1";

    /// Of a campaign as it stands.
    pub fn of(story: &Story<'_>) -> Self {
        let Story { settings, attempts, termination, ending, elapsed_ms } = *story;
        let best = best(attempts);
        let measured = |attempt: &Attempt| attempt.measured.clone();
        let all: Vec<(&Attempt, Measured)> =
            attempts.iter().filter_map(|attempt| Some((attempt, measured(attempt)?))).collect();
        let proposals: Vec<&(&Attempt, Measured)> =
            all.iter().filter(|(attempt, _)| attempt.proposal.iteration > 0).collect();
        let count = |verdict: Verdict| {
            proposals.iter().filter(|(_, measured)| measured.verdict == verdict).count() as u32
        };
        let mut usage = Usage::default();
        attempts.iter().for_each(|attempt| usage.add(&attempt.proposal.usage));
        let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
        for (_, measured) in proposals.iter().filter(|(_, measured)| !measured.code.is_empty()) {
            *reasons.entry(measured.code.clone()).or_default() += 1;
        }
        let baseline = all.iter().find(|(_, measured)| measured.decision == Decision::Baseline);
        let hours = elapsed_ms as f64 / 3_600_000.0;
        let per_hour = (hours > 0.0 && !all.is_empty()).then(|| all.len() as f64 / hours);
        let ratio = best.and_then(|(_, measured)| measured.ratio);
        let conditions = conditions(ending, ratio);
        Self {
            schema: Self::SCHEMA,
            campaign: settings.campaign.clone(),
            task: settings.task.clone(),
            task_name: settings.task_name.clone(),
            class: settings.class.clone(),
            best_iteration: best.map_or(0, |(attempt, _)| attempt.proposal.iteration),
            best_name: best
                .map_or_else(|| "baseline".to_owned(), |(attempt, _)| attempt.proposal.name.clone()),
            best_source_sha256: best.and_then(|(attempt, _)| attempt.proposal.source_sha256.clone()),
            best_record: best.and_then(|(_, measured)| measured.record.clone()),
            cases: best.map(|(_, measured)| cases(measured)).unwrap_or_default(),
            geomean_speedup: ratio.map_or(1.0, |ratio| ratio.ratio),
            interval: ratio,
            termination: termination.map(ToString::to_string),
            iterations: proposals.len() as u32,
            valid: count(Verdict::Passed),
            rejected: count(Verdict::Failed),
            masked: count(Verdict::Masked),
            reasons,
            minimum_detectable_change: baseline.and_then(|(_, measured)| measured.ratio).map(detectable),
            device_seconds: all.iter().map(|(_, measured)| measured.device_ms).sum::<u64>() as f64 / 1000.0,
            elapsed_seconds: elapsed_ms as f64 / 1000.0,
            experiments_per_hour: per_hour,
            experiments_per_night: per_hour.map(|per_hour| per_hour * 8.0),
            usage,
            rerun: ending.rerun.as_ref().map(Rerun::of),
            holdout: ending.holdout.clone(),
            flags: flags(attempts, ending),
            rule: settings.rule.clone(),
            whole_speedup_estimate: settings
                .rule
                .share
                .zip(ratio)
                .map(|(share, ratio)| amdahl::whole(&[(share, ratio.ratio)])),
            verdict: verdict(&conditions),
            conditions,
        }
    }
}

/// One performance case of the best.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CaseSummary {
    pub baseline_ms: f64,
    pub best_ms: f64,
    pub speedup: f64,
}

fn cases(measured: &Measured) -> BTreeMap<String, CaseSummary> {
    let timed = measured.cases.iter().filter_map(|case| Some((case.case.clone(), case.timing.as_ref()?)));
    timed
        .map(|(name, timing)| {
            let baseline_ms = timing.baseline_ns / 1e6;
            (name, CaseSummary { baseline_ms, best_ms: timing.candidate_ns / 1e6, speedup: timing.ratio })
        })
        .collect()
}

/// The independent run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rerun {
    pub record: Option<String>,
    pub ratio: Option<Ratio>,
    /// The whole interval lies above one once more.
    pub confirms: bool,
    pub told: String,
}

impl Rerun {
    fn of(measured: &Measured) -> Self {
        Self {
            record: measured.record.clone(),
            ratio: measured.ratio,
            confirms: confirms(measured),
            told: measured.told.clone(),
        }
    }
}

fn confirms(measured: &Measured) -> bool {
    measured.verdict == Verdict::Passed && measured.ratio.is_some_and(|ratio| ratio.low > 1.0)
}

/// How one condition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    Met,
    Broken,
    /// Nobody has looked.
    NotMeasured,
}

fn conditions(ending: &Ending, best: Option<Ratio>) -> BTreeMap<&'static str, Condition> {
    let said = |passed: bool| if passed { Condition::Met } else { Condition::Broken };
    let holdout = ending.holdout.as_ref().and_then(|holdout| holdout.passed);
    let repeatedly = match (&ending.rerun, best) {
        (_, None) => Condition::Broken,
        (None, Some(_)) => Condition::NotMeasured,
        (Some(rerun), Some(_)) if rerun.verdict == Verdict::Masked => Condition::NotMeasured,
        (Some(rerun), Some(_)) => said(confirms(rerun)),
    };
    BTreeMap::from([
        ("independent_cases_pass", holdout.map_or(Condition::NotMeasured, said)),
        ("beats_the_baseline_repeatedly", repeatedly),
        // Both need the application itself, which a campaign does not run.
        ("the_real_workload_gains", Condition::NotMeasured),
        ("pays_back_within_the_period", Condition::NotMeasured),
    ])
}

/// One broken condition is enough to drop it; all must be met to go on.
fn verdict(conditions: &BTreeMap<&'static str, Condition>) -> &'static str {
    if conditions.values().any(|one| *one == Condition::Broken) {
        return "drop";
    }
    if conditions.values().all(|one| *one == Condition::Met) { "go" } else { "undecided" }
}

/// What a reader should look at.
fn flags(attempts: &[Attempt], ending: &Ending) -> Vec<String> {
    let mut flags = Vec::new();
    if let Some((attempt, measured)) = best(attempts) {
        let sha = |iteration: u32| {
            let found = attempts.iter().find(|one| one.proposal.iteration == iteration);
            found.and_then(|one| one.proposal.source_sha256.as_deref())
        };
        let own = attempt.proposal.source_sha256.as_deref();
        for (other, what) in [(Some(0), "the baseline's"), (attempt.proposal.parent, "its parent's")] {
            if own.is_some() && other.is_some_and(|other| sha(other) == own) {
                flags.push(format!(
                    "the best source is {what}, byte for byte: what it gains is its launch, or luck"
                ));
            }
        }
        flags.dedup();
        if let Some((first, again)) = measured.ratio.zip(ending.rerun.as_ref().and_then(|rerun| rerun.ratio))
            && (again.high < first.low || again.low > first.high)
        {
            flags.push(
                "the independent run differs from the first one by more than their intervals".to_owned(),
            );
        }
    }
    flags
}
