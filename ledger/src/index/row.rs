//! Which rows an entry has: keys are a family byte, then big-endian parts, then the leaf index.

use super::codec::{CodecError, encode};
use super::store::Batch;
use crate::entry::predicate::ResultRecord;
use crate::entry::{Body, Entry, Kind};
use crate::rank::finding::{Noted, Revoked};
use fleet_config::domain::{
    Architecture, CandidateId, CellId, ClassId, DeviceId, DeviceKind, Fence, LeafIndex, NodeId, PolicyId,
    RecordId, Sha256, Status, SubmissionId, TaskId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Raised when rows change their meaning: an index of another format is built again.
pub(super) const FORMAT: u64 = 3;

/// Kind under which entries are counted that this version cannot read.
const UNKNOWN: &str = "unknown";

/// First byte of every key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Family {
    /// leaf → [`EntrySummary`]; all others have empty values and end in a leaf.
    Entry = b'e',
    /// record
    Record = b'r',
    /// kind word, 0
    Kind = b'k',
    /// cell
    Cell = b'c',
    /// submission
    Submission = b's',
    /// node
    Node = b'n',
    /// task or policy that an entry defines
    Definition = b'd',
    /// task, class, candidate
    Task = b't',
    /// candidate, task, policy, class
    Reuse = b'u',
    /// commitment of a holdout
    Holdout = b'h',
    /// record that a finding judges
    Finding = b'f',
    /// candidate, task that a finding is about
    Judged = b'j',
}

/// The cursor, one row of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) format: u64,
    pub(super) origin: String,
    /// Leaf that comes next.
    pub(super) next: u64,
    /// Roots of the perfect subtrees of the first `next` leaves.
    pub(super) subtrees: Vec<Sha256>,
    /// Exclusive or of blake3(key length ‖ key ‖ value) over all rows but this one: finds damage, not forgery.
    pub(super) checksum: [u8; 32],
    /// Entries by kind.
    pub(super) kinds: BTreeMap<String, u64>,
}

impl Meta {
    pub(super) fn new(origin: &str) -> Self {
        Self {
            format: FORMAT,
            origin: origin.to_owned(),
            next: 0,
            subtrees: Vec::new(),
            checksum: [0; 32],
            kinds: BTreeMap::new(),
        }
    }
    pub(super) fn add_to_checksum(&mut self, key: &[u8], value: &[u8]) {
        add_row(&mut self.checksum, key, value);
    }
}

/// Adds a row to a checksum.
pub(super) fn add_row(checksum: &mut [u8; 32], key: &[u8], value: &[u8]) {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(key.len() as u64).to_be_bytes());
    hasher.update(key);
    hasher.update(value);
    for (sum, byte) in checksum.iter_mut().zip(hasher.finalize().as_bytes()) {
        *sum ^= byte;
    }
}

/// What the index keeps of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntrySummary {
    pub leaf: LeafIndex,
    pub record: RecordId,
    /// The word of its kind, or its predicateType where this version does not know it.
    pub kind: String,
    pub result: Option<ResultSummary>,
    pub finding: Option<Noted>,
    pub revocation: Option<Revoked>,
}

/// What the index keeps of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultSummary {
    pub submission: SubmissionId,
    pub cell: CellId,
    pub fence: Fence,
    pub task: TaskId,
    pub candidate: CandidateId,
    pub policy: PolicyId,
    pub class: ClassId,
    pub node: NodeId,
    pub device: DeviceId,
    pub device_kind: DeviceKind,
    pub architecture: Architecture,
    pub status: Status,
    /// Whether its cell ended with it.
    pub is_final: bool,
    /// Made by a harness with uncommitted changes.
    pub is_dirty: bool,
    pub finished_on: String,
}

impl ResultSummary {
    fn of(result: &ResultRecord) -> Self {
        Self {
            submission: result.submission,
            cell: result.cell,
            fence: result.fence,
            task: result.task,
            candidate: result.candidate,
            policy: result.policy,
            class: result.class,
            node: result.node,
            device: result.device.clone(),
            device_kind: result.device_kind,
            architecture: result.architecture.clone(),
            status: result.outcome.status,
            is_final: result.is_final(),
            is_dirty: result.harness.dirty,
            finished_on: result.finished_on.clone(),
        }
    }
    /// Whether it may answer the same question again: `ok` or a deterministic failure, by a clean harness.
    pub fn is_reusable(&self) -> bool {
        self.is_final && self.status.is_reusable() && !self.is_dirty
    }
}

/// A prefix of keys.
pub(super) fn prefix(family: Family, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![family as u8];
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}

/// A whole key.
pub(super) fn key(family: Family, parts: &[&[u8]], leaf: LeafIndex) -> Vec<u8> {
    let mut key = prefix(family, parts);
    key.extend_from_slice(&leaf.0.to_be_bytes());
    key
}

/// The rows of one entry; counts its kind.
pub(super) fn rows_of(leaf: LeafIndex, entry: Option<&Entry>, meta: &mut Meta) -> Result<Batch, CodecError> {
    let known = entry.and_then(|entry| entry.body.kind());
    let counted = known.map_or(UNKNOWN, Kind::word);
    *meta.kinds.entry(counted.to_owned()).or_default() += 1;
    let kind = match (entry, known) {
        (Some(entry), None) => entry.body.predicate_type(),
        (_, _) => counted.to_owned(),
    };
    // An unreadable entry has no payload to be named by; zeros stand for it and have no record row.
    let record = entry.map_or(RecordId([0; 32]), |entry| entry.record);
    let result = entry.and_then(|entry| entry.body.result());
    let finding = match entry.map(|entry| &entry.body) {
        Some(Body::Finding(finding)) => Some(Noted::of(leaf, record, finding)),
        Some(_) | None => None,
    };
    let revocation = match entry.map(|entry| &entry.body) {
        Some(Body::NodeRevoke(revoke)) => Some(Revoked::of(leaf, record, revoke)),
        Some(_) | None => None,
    };
    let summary =
        EntrySummary { leaf, record, kind, result: result.map(ResultSummary::of), finding, revocation };
    let mut rows = vec![(key(Family::Entry, &[], leaf), encode(&summary)?)];
    let mut add = |family, parts: &[&[u8]]| rows.push((key(family, parts, leaf), Vec::new()));
    add(Family::Kind, &[counted.as_bytes(), &[0]]);
    let Some(entry) = entry else { return Ok(rows) };
    add(Family::Record, &[&record.0]);
    match &entry.body {
        Body::Task(task) => add(Family::Definition, &[&task.task.0]),
        Body::Policy(policy) => add(Family::Definition, &[&policy.policy.0]),
        Body::NodeEnrol(enrol) => add(Family::Node, &[&enrol.node.0]),
        Body::NodeRevoke(revoke) => add(Family::Node, &[&revoke.node.0]),
        Body::AttemptLost(lost) => {
            add(Family::Cell, &[&lost.cell.0]);
            add(Family::Submission, &[&lost.submission.0]);
        }
        Body::AttemptRefused(refused) => {
            add(Family::Cell, &[&refused.cell.0]);
            add(Family::Node, &[&refused.node.0]);
        }
        Body::Result(r) => {
            add(Family::Cell, &[&r.cell.0]);
            add(Family::Submission, &[&r.submission.0]);
            add(Family::Node, &[&r.node.0]);
            add(Family::Task, &[&r.task.0, &r.class.0, &r.candidate.0]);
            add(Family::Reuse, &[&r.candidate.0, &r.task.0, &r.policy.0, &r.class.0]);
        }
        Body::HoldoutOpened(opened) => add(Family::Holdout, &[&opened.commitment.0.0]),
        // In no family of searches: what a verification measured answers no search and is ranked nowhere.
        Body::Verification(verification) => {
            let r = &verification.result;
            add(Family::Cell, &[&r.cell.0]);
            add(Family::Submission, &[&r.submission.0]);
            add(Family::Node, &[&r.node.0]);
            add(Family::Holdout, &[&verification.holdout.commitment.0.0]);
        }
        Body::Finding(finding) => {
            add(Family::Finding, &[&finding.record.0]);
            add(Family::Judged, &[&finding.candidate.0, &finding.task.0]);
        }
        Body::Genesis(_) | Body::AttemptGranted(_) | Body::Unknown { .. } => {}
    }
    Ok(rows)
}
