//! Screens as a backend offers and runs them; neutral words, since each device kind looks in its own way.

use super::{Artefact, CompileRequest, Evaluation, Failure, WorkerOptions};
use fleet_config::domain::Screen;

/// A screen that a device kind knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenOffer {
    pub screen: Screen,
    /// What keeps it from being run here; `None` if nothing does.
    pub missing: Option<Missing>,
}

/// Why a screen cannot be run, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub cause: String,
    pub next: String,
}

/// One screen over one case.
#[derive(Debug)]
pub struct ScreenRequest<'a> {
    pub screen: Screen,
    /// What the artefact was made from, for screens that build another one; with a folder of its own.
    pub compile: &'a CompileRequest,
    pub artefact: &'a Artefact,
    pub evaluation: &'a Evaluation,
    /// What each buffer of the evaluation holds before the launch.
    pub contents: &'a [Vec<u8>],
    pub worker: &'a WorkerOptions,
}

/// What a screen came to.
#[derive(Debug)]
pub struct Screening {
    pub finding: Finding,
    /// For people: what was looked at.
    pub detail: String,
    /// Of the races found, the first by which an update is lost; also where another race is the finding.
    pub lost_update: Option<Box<Failure>>,
    /// Buffers after each run that the caller is to compare with what is expected.
    pub runs: Vec<ScreenRun>,
}

/// A candidate's process can hide a fault and cannot invent that there is none: a pass is never more than this.
#[derive(Debug)]
pub enum Finding {
    NoFaultFound,
    /// The outcome that the fault means, with the tool's own words as its log.
    Fault(Box<Failure>),
    NotRun(Missing),
}

/// One run of a screen.
#[derive(Debug)]
pub struct ScreenRun {
    /// Such as `threads begin backwards`.
    pub label: String,
    /// In the order of the evaluation.
    pub buffers: Vec<Vec<u8>>,
}

impl Screening {
    /// Nothing was looked at.
    pub fn not_run(cause: impl Into<String>, next: impl Into<String>) -> Self {
        let missing = Missing { cause: cause.into(), next: next.into() };
        Self { finding: Finding::NotRun(missing), detail: String::new(), lost_update: None, runs: Vec::new() }
    }
    /// A screen of another device kind.
    pub fn not_offered(screen: Screen) -> Self {
        Self::not_run(
            format!("this device kind has no screen {screen}"),
            "submit to a device kind that offers it",
        )
    }
    /// Looked at, and nothing seen.
    pub fn no_fault_found(detail: impl Into<String>) -> Self {
        Self { finding: Finding::NoFaultFound, detail: detail.into(), lost_update: None, runs: Vec::new() }
    }
    /// A fault.
    pub fn fault(failure: Failure, detail: impl Into<String>) -> Self {
        Self {
            finding: Finding::Fault(Box::new(failure)),
            detail: detail.into(),
            lost_update: None,
            runs: Vec::new(),
        }
    }
}
