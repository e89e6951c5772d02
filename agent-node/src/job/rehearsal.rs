//! A task tried out before anybody relies on it: its own baseline plays the candidate, sealed cases included.

use super::fault::{Stop, cause};
use super::local::{self, Shelf, assignment};
use super::{Rehearsed, Residents, rehearse};
use crate::backend::Failure;
use crate::inventory::{Offer, Wish};
use crate::machine_lock::MachineLock;
use fleet_config::config::LoadedTask;
use fleet_config::domain::canonical::CanonicalError;
use fleet_config::domain::{
    Architecture, Candidate, CheckEvidence, Digest, MeasurementPolicy, Outcome, Provenance, Status, Task,
    words,
};
use ledger::entry::predicate::CaseEvidence;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Longest part of a log that is shown.
const LOG_MAX: usize = 64 << 10;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rehearsal {
    pub task: String,
    pub architecture: Architecture,
    /// The outcome's status, for programs that want nothing else.
    pub status: Status,
    /// The outcome in one line, for people.
    pub detail: String,
    /// `ok`, or the first fault of reference, baseline or task.
    pub outcome: Outcome,
    /// Cases that passed, each once.
    pub cases: Vec<String>,
    /// Stages of validation with the baseline as the candidate: what each looked at and costs here.
    pub checks: Vec<CheckEvidence>,
    pub warnings: Vec<String>,
    pub log: Option<String>,
}

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    #[error("the check was cancelled")]
    Cancelled,
}

/// Compiles and runs `loaded` on the device of `offer`.
pub fn rehearse_task(
    loaded: LoadedTask,
    offer: &Offer,
    wish: &Wish,
    folder: &Path,
) -> Result<Rehearsal, RehearsalError> {
    let LoadedTask { mut task, blobs, holdout, warnings } = loaded;
    let name = task.name.clone();
    let first_sealed = task.cases.len();
    if let Some(section) = holdout {
        task.cases.extend(section.cases);
    }
    let sealed: Vec<String> = task.cases[first_sealed..].iter().map(|case| case.name.clone()).collect();
    let mut shelf = Shelf::of(blobs);
    let assignment =
        assignment(&task, &baseline(&task), &MeasurementPolicy::cpu_paired(), offer, &mut shelf)?;
    let (node, machine) = (local::node(wish), MachineLock::of_this_machine());
    let residents = Residents::on(&offer.description);
    let context = local::context(&assignment, &node, offer, &shelf, &residents, &machine, folder);
    let mut rehearsal = Rehearsal {
        task: name,
        architecture: offer.description.architecture.clone(),
        status: Status::Ok,
        detail: "reference and baseline agree; zeros, untouched, constant, copied and other seeds' outputs fail, as they must".to_owned(),
        outcome: Outcome::ok(),
        cases: Vec::new(),
        checks: Vec::new(),
        warnings: warnings.iter().map(ToString::to_string).collect(),
        log: None,
    };
    match rehearse(&context) {
        Ok(Rehearsed { cases, checks }) => {
            rehearsal.checks = checks;
            judge(&mut rehearsal, &cases, &sealed);
        }
        Err(Stop::Cancelled) => return Err(RehearsalError::Cancelled),
        Err(Stop::Failed(Failure { outcome, log })) => {
            rehearsal.outcome = *outcome;
            let case = rehearsal.outcome.cause.as_ref().and_then(|cause| cause.case.as_ref());
            if case.is_some_and(|case| sealed.contains(case)) {
                // What is sealed shows in no message, since messages get pasted.
                let code = rehearsal.outcome.cause.take().map(|cause| cause.code).unwrap_or_default();
                rehearsal.outcome.cause = Some(cause(&code, "a sealed case fails"));
            } else {
                rehearsal.log = log.map(|mut log| {
                    log.truncate(LOG_MAX);
                    words::printable(&log)
                });
            }
        }
    }
    rehearsal.status = rehearsal.outcome.status;
    if let Some(cause) = &rehearsal.outcome.cause {
        rehearsal.detail = format!("{}: {} [{}]", rehearsal.status, cause.message, cause.code);
    }
    Ok(rehearsal)
}

fn judge(rehearsal: &mut Rehearsal, evidence: &[CaseEvidence], sealed: &[String]) {
    let mut expected: BTreeMap<&str, Vec<&BTreeMap<String, Digest>>> = BTreeMap::new();
    for case in evidence {
        expected.entry(&case.case).or_default().push(&case.expected);
    }
    for (name, draws) in expected {
        // Names of sealed cases stay out of what may be pasted anywhere.
        let shown = if sealed.iter().any(|sealed| sealed == name) { "a sealed case" } else { name };
        rehearsal.cases.push(shown.to_owned());
        if draws.len() > 1 && draws.windows(2).all(|pair| pair[0] == pair[1]) {
            rehearsal.warnings.push(format!(
                "{shown}: the expected output is the same for every draw; a candidate could hold it as a constant"
            ));
        }
    }
}

/// The baseline as a candidate.
fn baseline(task: &Task) -> Candidate {
    Candidate {
        format: Candidate::FORMAT.to_owned(),
        name: "baseline".to_owned(),
        source: task.baseline.source.clone(),
        plan: None,
        family: None,
        provenance: Provenance::default(),
        licence: String::new(),
    }
}
