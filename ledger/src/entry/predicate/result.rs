//! The result entry: the verdict of one attempt, signed by the node that made it.

use super::{Kind, Predicate};
use fleet_config::domain::{
    Architecture, Blame, BlobRef, CandidateId, CaseTiming, CellId, CheckEvidence, ClassId,
    ComparabilityClass, DeviceId, DeviceKind, Digest, Facts, Fence, NodeId, Nonce, Outcome, PolicyId, Seed,
    StageTimes, SubmissionId, TaskId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that the verdict depends on is named here or in a blob that is named here. The subject of the
/// statement is the source-tree manifest of the candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultRecord {
    /// Of the ledger that the attempt was granted in: a result cannot move to another ledger.
    pub origin: String,
    pub submission: SubmissionId,
    pub cell: CellId,
    pub fence: Fence,
    pub nonce: Nonce,
    pub task: TaskId,
    pub candidate: CandidateId,
    pub policy: PolicyId,
    pub node: NodeId,
    pub device: DeviceId,
    pub device_kind: DeviceKind,
    pub architecture: Architecture,
    pub class: ClassId,
    /// Draws of the inputs, in order; from the coordinator, after submission.
    pub seeds: Vec<Seed>,
    /// Version of the input generator.
    pub generator: u64,
    pub harness: Harness,
    /// Sandbox level that the candidate ran in.
    pub sandbox: String,
    pub outcome: Outcome,
    /// One per performance case; empty unless the outcome is `ok`.
    pub timings: Vec<CaseTiming>,
    pub stage_times: StageTimes,
    pub build: Option<Build>,
    /// Canonical JSON of [`Environment`].
    pub environment: BlobRef,
    /// Canonical JSON of [`VolatileFacts`].
    pub volatile: BlobRef,
    /// Canonical JSON of [`Evidence`]; absent when nothing was validated.
    pub evidence: Option<BlobRef>,
    pub started_on: String,
    pub finished_on: String,
}

impl ResultRecord {
    /// Whether the cell ends with this result: all but the fleet's own faults, which are tried again.
    pub fn is_final(&self) -> bool {
        !(self.outcome.blame == Blame::Fleet && self.outcome.status.is_retried())
    }
    /// Every blob that the record names, for transfer and for checks.
    pub fn blobs(&self) -> Vec<BlobRef> {
        let mut blobs = vec![self.environment, self.volatile];
        blobs.extend(self.evidence);
        blobs.extend(self.outcome.log);
        blobs.extend(self.timings.iter().map(|timing| timing.samples));
        blobs.extend(self.build.iter().filter_map(|build| build.artefact));
        blobs
    }
}

/// What measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Harness {
    pub version: String,
    /// blake3 of the node's executable.
    pub digest: Digest,
    /// Commit that it was built from, or empty; recorded, not part of comparability.
    pub commit: String,
    /// Built from a tree with uncommitted changes; such results never answer another submission.
    pub dirty: bool,
}

/// How the artefact came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Digest of everything that the compiler could read plus its arguments.
    pub key: Digest,
    pub compiler: String,
    pub flags: Vec<String>,
    /// `None` for host-compiled artefacts, which never leave their machine.
    pub artefact: Option<BlobRef>,
    /// Registers, spills, shared memory and the like, by name.
    pub resources: BTreeMap<String, u64>,
}

/// Identity and configuration parts of the fingerprint with the class that they give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub identity: Facts,
    pub configuration: Facts,
    pub class: ComparabilityClass,
}

/// The volatile part of the fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolatileFacts {
    pub before: Facts,
    pub during: Vec<Facts>,
    pub after: Facts,
}

/// What validation saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub cases: Vec<CaseEvidence>,
    /// Stages and screens in the order in which they ran. Records from before stages had names have none.
    #[serde(default)]
    pub checks: Vec<CheckEvidence>,
}

/// One case under one draw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseEvidence {
    pub case: String,
    pub seed: Seed,
    /// blake3 of each input's elements, by parameter.
    pub inputs: BTreeMap<String, Digest>,
    /// blake3 of each output's elements as the candidate left them.
    pub outputs: BTreeMap<String, Digest>,
    /// blake3 of each output's elements as the reference left them.
    pub expected: BTreeMap<String, Digest>,
    /// Largest absolute error over all outputs, shortest decimal text, or `nan`, `inf`.
    pub absolute_error_max: String,
}

impl Predicate for ResultRecord {
    const KIND: Kind = Kind::Result;
}
