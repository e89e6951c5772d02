//! What a campaign fixes before its first attempt: `campaign.json`, written once.

use super::campaign::Budget;
use super::search::Strategy;
use serde::{Deserialize, Serialize};

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Always [`Settings::FORMAT`].
    pub format: String,
    /// Random; attempts are submitted under keys made from it, so that a resumed campaign repeats none.
    pub campaign: String,
    /// Id of the task.
    pub task: String,
    pub task_name: String,
    /// The kernel that candidates provide.
    pub entry: String,
    /// The device class that candidates are measured on.
    pub class: String,
    /// Name of the policy; `None` is the default of the class's kind.
    pub policy: Option<String>,
    /// Whether earlier results may not answer.
    pub fresh: bool,
    /// Attempts under way at once.
    pub parallel: u32,
    pub proposer: ProposerSettings,
    pub budget: Budget,
    pub rule: Rule,
    pub started_on: String,
}

impl Settings {
    pub const FORMAT: &str = "muster.campaign/1";
}

/// Who proposes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProposerSettings {
    /// Over the template that was copied into the campaign's folder.
    Search { strategy: Strategy },
    /// A command of the shell that speaks JSON lines.
    Command { command: String, timeout_seconds: u64 },
}

/// The rule for going on, fixed before anything is known. What needs the whole application is judged outside.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Part of the whole's time that the kernel takes.
    pub share: Option<f64>,
    /// In which it must have paid.
    pub payback_months: Option<f64>,
    /// In the words of whoever decides.
    pub words: String,
}
