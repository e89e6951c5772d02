//! Bodies of requests and answers; the command line uses the same types.

use fleet_config::domain::{
    BlobRef, Candidate, CellId, Commitment, Digest, LeafIndex, NodeId, RecordId, Reuse, SubmissionId, Task,
    TaskId,
};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::{DetectorName, FindingJudgement, FindingScope};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Adds a task; its blobs were put before.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskBody {
    pub task: Task,
    /// The sealed section, if the task commits to one.
    pub holdout: Option<SealedBody>,
}

/// A holdout section with the salt that the commitment was made with; stored 0600, never a blob.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedBody {
    /// 64 hex digits.
    pub salt: String,
    /// Canonical JSON of the section.
    pub section: String,
}

impl std::fmt::Debug for SealedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealedBody(…)")
    }
}

/// A task in the ledger.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskView {
    pub task: TaskId,
    pub name: String,
    pub summary: String,
    /// Leaf of its entry.
    pub index: LeafIndex,
    /// Whether this request added it.
    pub added: bool,
}

/// Submits candidates × targets; the sources were put as blobs before.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitBody {
    pub task: TaskId,
    pub candidates: Vec<Candidate>,
    /// Device classes, such as `cpu:x86-64-v3`.
    pub targets: Vec<String>,
    /// Name of a policy; `None` takes the default of the targets' device kind.
    pub policy: Option<String>,
    /// Screens to run instead of the policy's own: a list of names, `cheap`, `all` or `none`.
    pub screens: Option<String>,
    /// Stages of validation to run of those that may be left out: a list of names, `all` or `fewest`; `None` is the
    /// policy's own.
    #[serde(default)]
    pub stages: Option<String>,
    /// The one toolchain that may compile for GPUs, by its digest.
    #[serde(default)]
    pub toolchain: Option<Digest>,
    /// Compiler flags beside those of the policy.
    #[serde(default)]
    pub flags: Vec<String>,
    pub reuse: Reuse,
    /// Idempotency key: the same body with the same nonce is the same submission.
    pub nonce: Option<String>,
}

/// The signed answer to a submission. The promise: every cell that the receipt does not answer from the ledger gets
/// exactly one final record; a reused cell names the leaf of the record that answers it and gets none of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Receipt {
    /// Canonical JSON of [`ReceiptBody`]: the signed bytes.
    pub body: String,
    /// Hex Ed25519 signature over `muster-receipt/1\n` ‖ body, by the operator key.
    pub signature: String,
    /// Hex SHA-256 of the operator key.
    pub keyid: String,
    pub submission: SubmissionId,
    pub cells: u64,
    /// Cells that an earlier result answers.
    pub reused: u64,
    /// What the submitter should know, such as classes without a device.
    pub warnings: Vec<Refusal>,
}

/// What a receipt promises.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReceiptBody {
    pub origin: String,
    pub submission: SubmissionId,
    pub cells: Vec<CellId>,
    /// Cells that an earlier record answers, with its leaf.
    pub reused: BTreeMap<CellId, LeafIndex>,
    /// Size of the ledger when the submission was journalled.
    pub ledger_size: u64,
    pub accepted_on: String,
}

/// Chooses a result whose candidate is verified on the sealed cases.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyBody {
    pub record: RecordId,
    /// A device class; the architecture of the result when not given.
    pub on: Option<String>,
}

/// An accepted verification.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VerifyView {
    pub receipt: Receipt,
    pub record: RecordId,
    /// Names the sealed section.
    pub commitment: Commitment,
    /// Openings of it before this one.
    pub openings: u64,
}

/// What a detector found about a result; its evidence was put before.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingBody {
    pub record: RecordId,
    pub detector: DetectorName,
    pub judgement: FindingJudgement,
    pub scope: FindingScope,
    pub code: String,
    pub cause: String,
    pub evidence: BlobRef,
    /// The result of the run that decided, where one was made.
    pub rerun: Option<RecordId>,
}

/// A recorded finding.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FindingView {
    /// Leaf of its entry.
    pub index: LeafIndex,
}

/// Which way a drain goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainBody {
    /// Take work again instead.
    pub resume: bool,
}

/// Revokes a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeBody {
    /// The first entry whose result by this node falls; none where nothing is suspected.
    pub suspect_from: Option<LeafIndex>,
    pub reason: String,
}

/// A recorded revocation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RevokeView {
    pub node: NodeId,
    /// Leaf of its entry.
    pub index: LeafIndex,
    pub suspect_from: LeafIndex,
}

/// Makes an invite.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InviteBody {
    pub valid_seconds: u64,
    pub uses: u32,
    pub class: Option<String>,
}

/// A number of things that were affected.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CountView {
    pub count: u64,
}

/// A text answer, such as an invite or a checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TextView {
    pub text: String,
}

/// Who runs here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SummaryView {
    pub origin: String,
    pub vkey: String,
    pub process: u32,
    /// The address that its socket is bound to.
    pub bound: String,
    /// Where nodes connect to.
    pub listening: String,
    pub version: String,
    pub ledger_size: u64,
    pub totals: crate::driver::request::Summary,
    /// The newest submissions, newest first.
    pub recent: Vec<crate::driver::request::SubmissionView>,
}
