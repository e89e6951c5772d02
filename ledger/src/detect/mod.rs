//! Detectors: named, versioned judges of results that are in the ledger already. Pure: records and blobs are arguments.
//!
//! Validation decides before a result is recorded; a detector looks again, with what was learned since. It changes no
//! record: what it finds becomes a `finding` entry, and rankings that know of it say so ([`crate::rank`]). A detector's
//! version is raised whenever it may find otherwise, so that a finding always names the judge that made it.
//!
//! | detector | what it looks at | what it finds |
//! | --- | --- | --- |
//! | `text` | stored sources and launch plans | forwards to the baseline or reference, calls a library: *labelled* |
//! | `floor` | times, sizes and the device of the record | faster than its memory can move the task's bytes: *falls* |
//! | `stages` | a new attempt under today's validation | fails where the record passed: *falls* |

pub mod board;
pub(crate) mod floor;
mod text;

#[cfg(test)]
mod tests;

use crate::entry::predicate::{DetectorName, Environment, FindingJudgement, FindingScope, ResultRecord};
use fleet_config::domain::{Blame, Candidate, RecordId, Status, Task};
use serde_json::{Value, json};
use std::str::FromStr;

/// Every detector of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detector {
    Text,
    Floor,
    Stages,
}

impl Detector {
    /// Every detector.
    pub const ALL: [Self; 3] = [Self::Text, Self::Floor, Self::Stages];

    /// The word that names it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Floor => "floor",
            Self::Stages => "stages",
        }
    }

    /// The version that this build has.
    pub fn version(self) -> u64 {
        match self {
            Self::Text | Self::Floor | Self::Stages => 1,
        }
    }

    /// Name and version, as findings carry them.
    pub fn name(self) -> DetectorName {
        DetectorName { name: self.word().to_owned(), version: self.version() }
    }
}

/// Why a text names no detector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DetectorError {
    #[error("there is no detector `{0}`; this version has text, floor and stages")]
    Unknown(String),
    #[error("this version has {has} and no version `{asked}` of it")]
    Version { has: String, asked: String },
}

/// `NAME` or `NAME/VERSION`; another version than this build's is refused, since it would find otherwise.
impl FromStr for Detector {
    type Err = DetectorError;
    fn from_str(text: &str) -> Result<Self, DetectorError> {
        let clip = |text: &str| text.chars().take(40).collect::<String>();
        let (name, version) =
            text.split_once('/').map_or((text, None), |(name, version)| (name, Some(version)));
        let found = Self::ALL.into_iter().find(|detector| detector.word() == name);
        let detector = found.ok_or_else(|| DetectorError::Unknown(clip(name)))?;
        match version {
            Some(asked) if asked != detector.version().to_string() => {
                Err(DetectorError::Version { has: detector.name().to_string(), asked: clip(asked) })
            }
            Some(_) | None => Ok(detector),
        }
    }
}

/// A result with what its blobs add.
#[derive(Debug, Clone, Copy)]
pub struct Evidenced<'a> {
    pub record: &'a ResultRecord,
    pub task: &'a Task,
    pub candidate: &'a Candidate,
    pub environment: Option<&'a Environment>,
    /// Source files of the candidate, the baseline and the reference, in the order of their trees; empty where a blob is
    /// missing.
    pub sources: Sources<'a>,
}

/// Contents of source files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sources<'a> {
    pub candidate: &'a [Vec<u8>],
    pub baseline: &'a [Vec<u8>],
    pub reference: &'a [Vec<u8>],
}

/// What a detector found about a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub judgement: FindingJudgement,
    pub scope: FindingScope,
    pub code: &'static str,
    pub cause: String,
    /// Becomes the evidence blob.
    pub evidence: Value,
}

/// What `detector` finds about a stored result; nothing where all is well or nothing can be said. [`Detector::Stages`]
/// needs a new attempt and is judged by [`rerun`].
pub fn examine(detector: Detector, case: &Evidenced<'_>) -> Option<Seen> {
    if case.record.outcome.status != Status::Ok {
        return None;
    }
    match detector {
        Detector::Text => text::examine(case),
        Detector::Floor => floor::examine(case),
        Detector::Stages => None,
    }
}

/// What a new attempt at the same candidate says of the old result. Only what is the candidate's fault counts.
pub fn rerun(old: RecordId, new: RecordId, result: &ResultRecord) -> Option<Seen> {
    let outcome = &result.outcome;
    if outcome.blame != Blame::Candidate {
        return None;
    }
    let (code, message) =
        outcome.cause.as_ref().map(|cause| (cause.code.clone(), cause.message.clone())).unwrap_or_default();
    Some(Seen {
        judgement: FindingJudgement::Falls,
        scope: FindingScope::Class,
        code: "stages/failed",
        cause: format!("run again under today's validation it is `{}`: {message} [{code}]", outcome.status),
        evidence: json!({
            "judged": old.to_string(),
            "rerun": new.to_string(),
            "status": outcome.status.name(),
            "code": code,
            "harness": result.harness.version,
        }),
    })
}
