//! What a campaign keeps of each attempt: the proposal, and what came of it. Part of the campaign folder's format.

use super::feedback::{CaseRatio, Ratio};
use super::search::Rung;
use fleet_config::domain::Status;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a proposal came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The task's own baseline, measured as a candidate: what it says is noise.
    Initial,
    Search,
    Command,
}

impl Origin {
    /// The word of reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Search => "search",
            Self::Command => "command",
        }
    }
}

/// What a proposal cost its proposer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    #[serde(default)]
    pub calls: u64,
    #[serde(default)]
    pub tokens_in: u64,
    #[serde(default)]
    pub tokens_out: u64,
    /// In 10⁻⁶ of `currency`.
    #[serde(default)]
    pub micros: u64,
    /// ISO 4217; empty where nothing was charged.
    #[serde(default)]
    pub currency: String,
}

impl Usage {
    /// The sum of both. Charges in different currencies cannot be added: the first one is kept, the other told apart.
    pub fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
        if self.currency.is_empty() {
            self.currency.clone_from(&other.currency);
        }
        if self.currency == other.currency || other.currency.is_empty() {
            self.micros = self.micros.saturating_add(other.micros);
        }
    }
}

/// One proposal. Iteration 0 is the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    pub iteration: u32,
    pub origin: Origin,
    pub name: String,
    /// The best attempt when it was made.
    pub parent: Option<u32>,
    /// In a parameter search: the values.
    pub point: BTreeMap<String, String>,
    pub rung: Rung,
    /// The proposer's own words, quoted and bounded; nothing rests on them.
    pub words: String,
    pub model: String,
    pub usage: Usage,
    /// Why there is no source: the proposer failed.
    pub failure: Option<String>,
    /// The file to submit, in the attempt's folder.
    pub file: Option<String>,
    pub source_sha256: Option<String>,
}

/// What became of a proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    pub submission: Option<String>,
    pub record: Option<String>,
    pub leaf: Option<u64>,
    /// Id of the candidate, for the provenance of what comes from it.
    pub candidate: Option<String>,
    /// `None` where no verdict came: refused before it was submitted, cancelled, or no source.
    pub status: Option<Status>,
    pub verdict: Verdict,
    /// Code and text of the first cause; empty for what passed.
    pub code: String,
    pub cause: String,
    pub ratio: Option<Ratio>,
    pub cases: Vec<CaseOutcome>,
    /// On the device: validation and timing; 0 where an earlier result answered.
    pub device_ms: u64,
    /// An earlier result of the ledger answered.
    pub reused: bool,
    /// Feedback in one line.
    pub told: String,
    pub decision: Decision,
    /// Of the campaign, over all its sessions, when this was known.
    pub elapsed_ms: u64,
}

/// Whether an attempt says something about its candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Passed,
    Failed,
    /// The fault of fleet, task or device.
    Masked,
}

/// One case of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseOutcome {
    pub case: String,
    pub validated: bool,
    /// Largest over the draws; text, since it may be `nan` or `inf`.
    pub absolute_error_max: Option<String>,
    /// Of a performance case that was timed.
    pub timing: Option<CaseRatio>,
}

/// What was decided about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The baseline's own measurement.
    Baseline,
    /// The new best.
    Keep,
    /// Its interval overlaps that of the best.
    Tie,
    Slower,
    /// Faster beyond doubt, and by less than the smallest gain that counts.
    BelowMinimum,
    /// Did not pass.
    Failed,
    /// Says nothing about the candidate.
    Masked,
    /// Measured only to choose who goes on.
    Screened,
}

impl Decision {
    /// The word of reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Keep => "keep",
            Self::Tie => "tie",
            Self::Slower => "slower",
            Self::BelowMinimum => "below the smallest gain",
            Self::Failed => "failed",
            Self::Masked => "masked",
            Self::Screened => "screened",
        }
    }
}

/// A proposal with what became of it, if that is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub proposal: Proposal,
    pub measured: Option<Measured>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_adds_up_and_currencies_are_not_mixed() {
        let usage = |micros: u64, currency: &str| Usage {
            calls: 1,
            tokens_in: 10,
            tokens_out: 3,
            micros,
            currency: currency.to_owned(),
        };
        let mut total = Usage::default();
        for one in [usage(5, "USD"), usage(7, "USD"), usage(100, "EUR"), usage(0, "")] {
            total.add(&one);
        }
        assert_eq!(
            total,
            Usage { calls: 4, tokens_in: 40, tokens_out: 12, micros: 12, currency: "USD".to_owned() }
        );
    }
}
