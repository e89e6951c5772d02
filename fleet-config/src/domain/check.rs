//! Checks: what is looked at before a time counts, by name and version, and what was found.
//!
//! Stages of validation and screens of a device keep one kind of evidence, so that a record tells all of them alike.

use super::Milliseconds;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Longest name of a check with its version, in bytes.
const NAME_MAX: usize = 64;

/// `name/version`. A reader keeps names that it does not know: what was looked at is told even if it is new.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CheckName(String);

/// A text that names no check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a check; one is written like `shapes/1`")]
pub struct CheckNameError(String);

impl CheckName {
    /// Names of this build are plain.
    pub(super) fn of(name: &str, version: u32) -> Self {
        Self(format!("{name}/{version}"))
    }
    /// What labels stand under.
    pub fn label() -> Self {
        Self::of("label", 1)
    }
    /// The name without its version.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(name, _)| name)
    }
    /// Name and version.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CheckName {
    type Err = CheckNameError;
    fn from_str(text: &str) -> Result<Self, CheckNameError> {
        let refused = || CheckNameError(text.chars().take(NAME_MAX).collect());
        let (name, version) = text.split_once('/').ok_or_else(refused)?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = !name.is_empty() && name.chars().all(plain);
        let is_version = !version.is_empty() && version.chars().all(|c| c.is_ascii_digit());
        if text.len() <= NAME_MAX && is_name && is_version {
            Ok(Self(text.to_owned()))
        } else {
            Err(refused())
        }
    }
}

impl From<CheckName> for String {
    fn from(name: CheckName) -> Self {
        name.0
    }
}

impl TryFrom<String> for CheckName {
    type Error = CheckNameError;
    fn try_from(text: String) -> Result<Self, CheckNameError> {
        text.parse()
    }
}

/// What a check came to. There is no word for "right": what was not found may still be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckFinding {
    NoFaultFound,
    FaultFound,
    /// Something that readers should know and that is no fault; the detail names it.
    Labelled,
    /// Nothing was looked at, or not to the end; the detail says why.
    NotRun,
}

impl CheckFinding {
    /// The words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoFaultFound => "no fault found",
            Self::FaultFound => "fault found",
            Self::Labelled => "labelled",
            Self::NotRun => "not run",
        }
    }
}

/// One check of one attempt, as the record's evidence keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckEvidence {
    pub check: CheckName,
    /// The case, where one alone was looked at; else empty.
    pub case: String,
    /// Cases (shapes, for a sweep) that were looked at.
    pub cases: u32,
    /// Draws of the inputs over all of them.
    pub draws: u32,
    /// Launches of the candidate.
    pub launches: u32,
    pub finding: CheckFinding,
    /// For people: what was looked at, what was found, or why nothing was run. Bounded.
    pub detail: String,
    /// What it cost; waiting for the machine is left out.
    pub took: Milliseconds,
}

impl CheckEvidence {
    /// Longest detail in characters.
    pub const DETAIL_MAX: usize = 600;
}

/// The stages that a policy may leave out. The others are what every verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptionalStage {
    Smoke,
    Shapes,
    Stress,
    Determinism,
}

/// A name that is no stage which may be left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no stage that can be chosen; these are {known}, beside those that always run", known = OptionalStage::ALL.map(OptionalStage::name).join(", "))]
pub struct OptionalStageError(String);

impl OptionalStage {
    /// All of them, in the order of the stages.
    pub const ALL: [Self; 4] = [Self::Smoke, Self::Shapes, Self::Stress, Self::Determinism];

    /// The stage itself.
    pub fn stage(self) -> ValidationStage {
        match self {
            Self::Smoke => ValidationStage::Smoke,
            Self::Shapes => ValidationStage::Shapes,
            Self::Stress => ValidationStage::Stress,
            Self::Determinism => ValidationStage::Determinism,
        }
    }
    /// The word used on command lines.
    pub fn name(self) -> &'static str {
        self.stage().name()
    }

    /// The stages of a list such as `shapes,determinism`, `all` or `fewest`; each once, in their order. Stages that always
    /// run may be named too.
    pub fn list(text: &str) -> Result<Vec<Self>, OptionalStageError> {
        let mut stages = Vec::new();
        for word in text.split(',').map(str::trim) {
            let is_always = ValidationStage::ALL.iter().any(|stage| stage.name() == word);
            match (word, Self::ALL.into_iter().find(|stage| stage.name() == word)) {
                (_, Some(stage)) => stages.push(stage),
                ("all", None) => stages.extend(Self::ALL),
                ("fewest", None) => {}
                (_, None) if is_always => {}
                (word, None) => return Err(OptionalStageError(word.chars().take(60).collect())),
            }
        }
        stages.sort_unstable();
        stages.dedup();
        Ok(stages)
    }

    /// A list that [`OptionalStage::list`] reads.
    pub fn words(stages: &[Self]) -> String {
        match stages {
            [] => "fewest".to_owned(),
            all if all == Self::ALL => "all".to_owned(),
            _ => stages.iter().map(|stage| stage.name()).collect::<Vec<_>>().join(","),
        }
    }
}

/// The stages of validation, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValidationStage {
    /// Signature, sizes, launch limits; before anything runs.
    Contract,
    /// The smallest case, one draw: an early and cheap refusal.
    Smoke,
    /// Every case with every draw.
    Cases,
    /// Sizes that the task allows and no case has.
    Shapes,
    /// Values at the edges of the number format.
    Stress,
    /// The same inputs once more.
    Determinism,
    /// Outputs of timed launches, picked after the fact.
    TimedLaunches,
    /// Guards and inputs after every launch.
    PostRun,
}

impl ValidationStage {
    /// Every stage.
    pub const ALL: [Self; 8] = [
        Self::Contract,
        Self::Smoke,
        Self::Cases,
        Self::Shapes,
        Self::Stress,
        Self::Determinism,
        Self::TimedLaunches,
        Self::PostRun,
    ];

    /// The word used in records and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Contract => "contract",
            Self::Smoke => "smoke",
            Self::Cases => "cases",
            Self::Shapes => "shapes",
            Self::Stress => "stress",
            Self::Determinism => "determinism",
            Self::TimedLaunches => "timed-launches",
            Self::PostRun => "post-run",
        }
    }

    /// Raised when a stage finds more or less than before.
    pub fn version(self) -> u32 {
        match self {
            Self::Contract
            | Self::Smoke
            | Self::Cases
            | Self::Shapes
            | Self::Stress
            | Self::TimedLaunches
            | Self::PostRun => 1,
            // Since 2: on a CPU also other orders of threads, and lost updates beside atomics.
            Self::Determinism => 2,
        }
    }

    /// Name and version.
    pub fn check(self) -> CheckName {
        CheckName::of(self.name(), self.version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::canonical;

    #[test]
    fn names_of_checks_have_a_version_and_plain_letters() {
        for stage in ValidationStage::ALL {
            assert_eq!(stage.check().as_str().parse(), Ok(stage.check()));
            assert_eq!(stage.check().name(), stage.name());
        }
        assert!("races-in-block/2".parse::<CheckName>().is_ok(), "a later check is kept");
        for wrong in ["", "smoke", "/1", "smoke/", "Smoke/1", "smoke/x", "smoke/1/2", "a b/1"] {
            assert!(wrong.parse::<CheckName>().is_err(), "{wrong:?}");
        }
        assert!(format!("{}/1", "a".repeat(63)).parse::<CheckName>().is_err());
    }

    #[test]
    fn stages_that_can_be_chosen_are_read_in_any_order_and_held_in_one() {
        use OptionalStage::{Determinism, Shapes, Smoke};
        let check = |text: &str, expected: &[OptionalStage]| {
            assert_eq!(OptionalStage::list(text).unwrap(), expected);
            assert_eq!(OptionalStage::list(&OptionalStage::words(expected)).unwrap(), expected);
        };
        check("fewest", &[]);
        check("cases, post-run", &[]);
        check("all", &OptionalStage::ALL);
        check("determinism, smoke,shapes,smoke", &[Smoke, Shapes, Determinism]);
        for wrong in ["", "Smoke", "races", "smoke/1"] {
            assert!(
                OptionalStage::list(wrong).unwrap_err().to_string().contains("smoke, shapes"),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn evidence_of_a_check_has_golden_bytes() {
        let evidence = CheckEvidence {
            check: ValidationStage::TimedLaunches.check(),
            case: "odd".to_owned(),
            cases: 2,
            draws: 3,
            launches: 4,
            finding: CheckFinding::NoFaultFound,
            detail: "5".to_owned(),
            took: Milliseconds(6),
        };
        let golden = r#"{"case":"odd","cases":2,"check":"timed-launches/1","detail":"5","draws":3,"finding":"no_fault_found","launches":4,"took":6}"#;
        assert_eq!(String::from_utf8(canonical::to_bytes(&evidence).unwrap()).unwrap(), golden);
        assert_eq!(canonical::from_bytes::<CheckEvidence>(golden.as_bytes()).unwrap(), evidence);
    }
}
