//! Step two: artefacts of reference, baseline and candidate, beside other work and never while timing runs.

use super::context::{Context, Hold};
use super::fault::{Party, Stop};
use super::prepare::Prepared;
use super::resolve::{entries, resolved};
use crate::backend::cuda::occupancy_of;
use crate::backend::{Artefact, CompileRequest, Failure};
use fleet_config::domain::{CaseKind, Picoseconds, Stage};
use std::collections::BTreeMap;

/// What the compilers made.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    pub artefacts: BTreeMap<Party, Artefact>,
}

/// Compiles all three. The task's own come first: a candidate is judged only by a task that compiles. `waited` grows
/// by the time spent waiting for the machine, however this ends.
pub(super) fn compile(
    context: &Context<'_>,
    prepared: &Prepared,
    waited: &mut Picoseconds,
) -> Result<Compiled, Stop> {
    let mut artefacts = BTreeMap::new();
    for party in [Party::Reference, Party::Baseline, Party::Candidate] {
        // Let go in between, so that another node's timing waits for one compilation at most.
        let _held = context.hold(Hold::Shared, Stage::Compile, context.assignment.run, waited)?;
        (context.progress)(Stage::Compile, party.name());
        let artefact = one(context, prepared, party)?;
        artefacts.insert(party, artefact);
    }
    Ok(Compiled { artefacts })
}

/// Compiles the candidate alone, for a device that runs nothing; with the occupancy that its plan gives it in the first case
/// that would be timed, where that does not depend on the board.
pub(super) fn candidate(
    context: &Context<'_>,
    prepared: &Prepared,
    waited: &mut Picoseconds,
) -> Result<Artefact, Stop> {
    let _held = context.hold(Hold::Shared, Stage::Compile, context.assignment.run, waited)?;
    (context.progress)(Stage::Compile, Party::Candidate.name());
    let mut artefact = one(context, prepared, Party::Candidate)?;
    let case = prepared.task.cases.iter().find(|case| case.kind == CaseKind::Performance);
    let evaluation = case.and_then(|case| {
        let plan = prepared.plan(Party::Candidate);
        resolved(&prepared.task, case, &context.device.attributes, plan).ok()
    });
    if let Some(evaluation) = evaluation {
        artefact.resources.extend(occupancy_of(&artefact, &context.device.architecture, &evaluation));
    }
    Ok(artefact)
}

/// The artefact of one party.
pub(super) fn one(context: &Context<'_>, prepared: &Prepared, party: Party) -> Result<Artefact, Stop> {
    let request = request(context, prepared, party, &format!("compile-{}", party.name()))?;
    context.backend.compile(&request).map_err(|failure| party.charge(failure).into())
}

/// What is to be compiled of `party`, in a folder `folder` of the attempt.
pub(super) fn request(
    context: &Context<'_>,
    prepared: &Prepared,
    party: Party,
    folder: &str,
) -> Result<CompileRequest, Failure> {
    Ok(CompileRequest {
        sources: prepared.sources[&party].clone(),
        headers: prepared.headers.clone(),
        entries: entries(&prepared.task, prepared.plan(party)),
        architecture: context.device.architecture.clone(),
        policy: prepared.policy.clone(),
        limit: prepared.task.limits.compile.min(context.assignment.compile),
        folder: context.subfolder(folder, Stage::Compile)?,
        confinement: context.node.confinement,
        interrupt: context.interrupt.clone(),
    })
}
