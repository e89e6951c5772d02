//! Step five: the result record, its blobs, and the node's signature over it.

use super::bound;
use super::context::{Context, milliseconds};
use super::fault::infrastructure;
use super::holdout;
use super::stages::Stages;
use crate::backend::{Artefact, Failure, Portability};
use fleet_config::domain::canonical::{CanonicalError, Document};
use fleet_config::domain::{
    BlobRef, Candidate, CandidateId, CaseTiming, CheckEvidence, Commitment, ComparabilityClass, DeviceKind,
    Digest, Fact, Facts, Fingerprint, Milliseconds, Outcome, Picoseconds, PolicyId, RecordId, Stage,
    StageTimes, Status, TaskId, field,
};
use fleet_config::generator;
use ledger::entry::predicate::{
    Build, CaseEvidence, Environment, Evidence, HoldoutVerdict, OpenedHoldout, ResultRecord, Verification,
    VolatileFacts,
};
use ledger::entry::{SealError, Subject, seal};

/// Largest log that becomes a blob; what is longer keeps its beginning, where the first cause stands.
pub(super) const LOG_MAX: usize = 256 << 10;

/// What an attempt learned, filled by its steps.
#[derive(Debug)]
pub(super) struct Findings {
    /// Its source-tree manifest is the subject of the result.
    pub candidate: Candidate,
    pub times: Spent,
    pub artefact: Option<Artefact>,
    pub evidence: Vec<CaseEvidence>,
    pub stages: Stages,
    pub screens: Vec<CheckEvidence>,
    pub labels: Vec<CheckEvidence>,
    pub volatile: VolatileFacts,
    pub timings: Vec<CaseTiming>,
    pub samples: Vec<(BlobRef, Vec<u8>)>,
    /// What the candidate printed, quoted.
    pub printed: Option<String>,
    /// What became of the holdout that this lease opens.
    pub holdout: Option<HoldoutVerdict>,
}

impl Findings {
    /// Nothing learned yet but which candidate it is.
    pub(super) fn of(candidate: Candidate) -> Self {
        Self {
            candidate,
            times: Spent::default(),
            artefact: None,
            evidence: Vec::new(),
            stages: Stages::default(),
            screens: Vec::new(),
            labels: Vec::new(),
            volatile: VolatileFacts { before: Facts::new(), during: Vec::new(), after: Facts::new() },
            timings: Vec::new(),
            samples: Vec::new(),
            printed: None,
            holdout: None,
        }
    }
}

/// Where the time went.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    /// Waiting for the machine, beside what the coordinator waited.
    pub waited: Picoseconds,
    pub transfer: Picoseconds,
    pub compile: Picoseconds,
    pub validate: Picoseconds,
    pub time: Picoseconds,
}

/// A signed result with every blob that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedAttempt {
    /// Canonical DSSE envelope.
    pub envelope: Vec<u8>,
    pub record: RecordId,
    pub blobs: Vec<(BlobRef, Vec<u8>)>,
    pub outcome: Outcome,
}

/// Why a result could not be signed. The attempt then has none, and its lease runs out.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    #[error("the record has no canonical form: {0}")]
    Canonical(#[from] CanonicalError),
    #[error("the record cannot be sealed: {0}")]
    Seal(#[from] SealError),
}

/// Builds, seals and bundles the result of an attempt that ended with `failure`, or well.
pub(super) fn sign(
    context: &Context<'_>,
    findings: Findings,
    failure: Option<Failure>,
    started_on: String,
) -> Result<FinishedAttempt, SignError> {
    let assignment = context.assignment;
    let mut blobs: Vec<(BlobRef, Vec<u8>)> = Vec::new();
    let mut outcome = outcome(failure, findings.printed, &mut blobs);
    if outcome.status == Status::Ok && context.device.kind == DeviceKind::Compile {
        outcome.stage = Stage::Compile;
    }
    let environment = environment(context);
    let class = environment.class.id()?;
    // The manifest exists even if nothing compiled.
    let subject = Subject::of_blob("source", &findings.candidate.source.document()?.blob);
    let mut checks = findings.stages.evidence();
    checks.extend(findings.screens);
    checks.extend(findings.labels);
    let seen = Evidence { cases: findings.evidence, checks };
    let evidence = if seen.cases.is_empty() && seen.checks.is_empty() {
        None
    } else {
        Some(keep(Document::of(&seen)?, &mut blobs))
    };
    let is_ok = outcome.cause.is_none();
    let has_opened = findings.holdout.is_some();
    let date = |date: String| if has_opened { holdout::to_the_minute(&date) } else { date };
    blobs.extend(if is_ok { findings.samples } else { Vec::new() });
    let record = ResultRecord {
        origin: context.origin.to_owned(),
        submission: assignment.submission,
        cell: assignment.cell,
        fence: assignment.fence,
        nonce: assignment.nonce,
        task: TaskId(assignment.task.blake3.0),
        candidate: CandidateId(assignment.candidate.blake3.0),
        policy: PolicyId(assignment.policy.blake3.0),
        node: context.node.key.public().node_id(),
        device: context.device.id.clone(),
        device_kind: context.device.kind,
        architecture: context.device.architecture.clone(),
        class,
        seeds: assignment.seeds.clone(),
        generator: generator::VERSION,
        harness: context.node.harness.clone(),
        sandbox: context.node.confinement.level_for(context.device.kind).to_string(),
        timings: if is_ok { findings.timings } else { Vec::new() },
        stage_times: stage_times(assignment.queued, findings.times),
        build: findings.artefact.map(|artefact| build(artefact, &mut blobs)),
        environment: keep(Document::of(&environment)?, &mut blobs),
        volatile: keep(Document::of(&findings.volatile)?, &mut blobs),
        evidence,
        started_on: date(started_on),
        finished_on: date(context.clock.date()),
        outcome: outcome.clone(),
    };
    let sealed = match (&assignment.sealed, findings.holdout) {
        (Some(opened), Some(verdict)) => {
            let holdout = OpenedHoldout {
                commitment: Commitment(Digest(opened.commitment)),
                opening: opened.opening,
                record: RecordId(opened.record),
            };
            seal(Verification { holdout, verdict, result: record }, subject, &context.node.key)?
        }
        (Some(_), None) | (None, _) => seal(record, subject, &context.node.key)?,
    };
    blobs.sort_by_key(|(blob, _)| *blob);
    blobs.dedup_by_key(|(blob, _)| *blob);
    Ok(FinishedAttempt { envelope: sealed.bytes, record: sealed.record, blobs, outcome })
}

fn keep(document: Document, blobs: &mut Vec<(BlobRef, Vec<u8>)>) -> BlobRef {
    let blob = document.blob;
    blobs.push((blob, document.bytes));
    blob
}

fn outcome(
    failure: Option<Failure>,
    printed: Option<String>,
    blobs: &mut Vec<(BlobRef, Vec<u8>)>,
) -> Outcome {
    let (mut outcome, mut log) = match failure {
        Some(Failure { outcome, log }) => (bound::outcome(*outcome), log.unwrap_or_default()),
        None => (Outcome::ok(), Vec::new()),
    };
    log.truncate(LOG_MAX);
    if let Some(printed) = printed {
        // Behind all of ours and on a line of its own, so that a quotation is the end of a log and nothing else is.
        if log.last().is_some_and(|last| *last != b'\n') {
            log.push(b'\n');
        }
        log.extend(printed.into_bytes());
    }
    if !log.is_empty() {
        let blob = BlobRef::of(&log);
        blobs.push((blob, log));
        outcome.log = Some(blob);
    }
    outcome
}

fn environment(context: &Context<'_>) -> Environment {
    let identity = context.device.identity.clone();
    // Compiler and flags are the device's own facts: the class of a device must be known before anything is compiled.
    let mut configuration = context.device.configuration.clone();
    let text = |text: &str| Fact::Text(text.to_owned());
    let mut set = |name: &str, fact: Fact| configuration.insert(name.to_owned(), fact);
    let harness = &context.node.harness;
    let sandbox = context.node.confinement.level_for(context.device.kind);
    set(field::SANDBOX, text(sandbox.as_str()));
    set(field::HARNESS, text(&harness.version));
    set(field::HARNESS_COMMIT, text(&harness.commit));
    set(field::HARNESS_DIRTY, Fact::Flag(harness.dirty));
    let fingerprint = Fingerprint {
        identity: identity.clone(),
        configuration: configuration.clone(),
        before: Facts::new(),
        during: Vec::new(),
        after: Facts::new(),
    };
    let class = ComparabilityClass::of(&fingerprint, PolicyId(context.assignment.policy.blake3.0));
    Environment { identity, configuration, class }
}

fn build(artefact: Artefact, blobs: &mut Vec<(BlobRef, Vec<u8>)>) -> Build {
    let travels = match artefact.portability {
        Portability::ThisMachine => None,
        // A cubin that cannot be read back is left out of the report: the record says what it was made from.
        Portability::Architecture => {
            std::fs::read(&artefact.path).ok().filter(|b| BlobRef::of(b) == artefact.blob)
        }
    };
    let blob = travels.map(|bytes| {
        blobs.push((artefact.blob, bytes));
        artefact.blob
    });
    Build {
        key: artefact.key,
        compiler: artefact.compiler,
        flags: artefact.flags,
        artefact: blob,
        resources: bound::resources(artefact.resources),
    }
}

fn stage_times(queued: Milliseconds, spent: Spent) -> StageTimes {
    StageTimes {
        queue: Milliseconds(queued.0.saturating_add(milliseconds(spent.waited).0)),
        transfer: milliseconds(spent.transfer),
        compile: milliseconds(spent.compile),
        validate: milliseconds(spent.validate),
        time: milliseconds(spent.time),
    }
}

/// The outcome for a panic inside a step: a bug of this node, never the candidate's fault.
pub(super) fn panicked(stage: Stage, payload: &(dyn std::any::Any + Send)) -> Failure {
    let message = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    let clipped: String = message.chars().take(500).collect();
    infrastructure(stage, "node/panic", format!("this node has a bug: {clipped}"))
}
