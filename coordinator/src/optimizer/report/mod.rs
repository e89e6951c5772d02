//! The result folder of a campaign as text and pictures, made anew from its attempts each time.

mod heatmap;
mod history;
mod picture;
mod replay;
mod summary;
mod table;

#[cfg(test)]
mod tests;

pub use heatmap::{png, svg};
pub use history::history;
pub use replay::{Chosen, launch, replay};
pub use summary::{Condition, Summary};
pub use table::tsv;

use super::attempt::{Attempt, Measured};
use super::campaign::StopReason;
use super::settings::Settings;
use serde::{Deserialize, Serialize};

/// Everything that is told about a campaign.
#[derive(Debug, Clone, Copy)]
pub struct Story<'a> {
    pub settings: &'a Settings,
    /// In order of iterations; 0 is the baseline.
    pub attempts: &'a [Attempt],
    /// `None` while it runs.
    pub termination: Option<&'a StopReason>,
    pub ending: &'a Ending,
    /// Of all sessions.
    pub elapsed_ms: u64,
}

/// What was done with the best candidate after the search.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// The same candidate once more, in another lease.
    pub rerun: Option<Measured>,
    pub holdout: Option<HoldoutOutcome>,
}

/// What became of the sealed cases; nothing of the cases themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldoutOutcome {
    /// `None`: not judged, for the reason in `cause`.
    pub passed: Option<bool>,
    pub cause: String,
    pub record: Option<String>,
    /// Openings of these sealed cases so far.
    pub openings: u64,
}
