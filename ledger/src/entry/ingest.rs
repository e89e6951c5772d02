//! The gate: which bytes may become an entry.

use super::body::{Body, Entry, ReadError};
use super::dsse::{ENTRY_BYTES_MAX, Envelope};
use super::predicate::{
    Finding, Genesis, HoldoutOpened, HoldoutVerdict, Kind, NodeEnrol, NodeRevoke, ResultRecord, SignerRole,
    Verification,
};
use super::signers::Signers;
use fleet_config::domain::{Blame, DeviceKind, RecordId, Sha256, Status};
use fleet_config::identity::PublicKey;
use fleet_config::refusal::Refusal;

/// Version of the ledger format that this version writes.
pub const FORMAT: u64 = 1;

/// Longest origin: it is a line of every checkpoint and the name in every signature line.
const ORIGIN_BYTES_MAX: usize = 200;

/// An entry that passed [`check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub kind: Kind,
    pub signer: PublicKey,
    pub entry: Entry,
}

impl Checked {
    /// Name of the record.
    pub fn record(&self) -> RecordId {
        self.entry.record
    }
    /// What an attempt ended with, if it is that.
    pub fn result(&self) -> Option<&ResultRecord> {
        self.entry.body.result()
    }
}

/// Why bytes may not become an entry.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the kind `{predicate_type}` is not known here")]
    UnknownKind { predicate_type: String },
    #[error("{count} subjects; an entry has exactly one")]
    SubjectCount { count: usize },
    #[error("the subject is not what a {} entry is about", kind.word())]
    Subject { kind: Kind },
    #[error("the ledger has no genesis entry yet; it comes first")]
    NoGenesis,
    #[error("the ledger has its genesis entry; there is only one")]
    SecondGenesis,
    #[error("a {} entry is signed by {}, not by the key {key_id}", kind.word(), role_text(*role))]
    Signer { kind: Kind, role: SignerRole, key_id: String },
    #[error("the signature does not fit payload and key {key_id}")]
    Signature { key_id: Sha256 },
    #[error("{field}: {cause}")]
    Field { field: &'static str, cause: String },
}

impl EntryError {
    /// Stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read(_) => "entry/not-canonical",
            Self::UnknownKind { .. } => "entry/unknown-kind",
            Self::SubjectCount { .. } | Self::Subject { .. } => "entry/subject",
            Self::NoGenesis | Self::SecondGenesis => "entry/genesis",
            Self::Signer { .. } => "entry/signer",
            Self::Signature { .. } => "entry/signature",
            Self::Field { .. } => "entry/field",
        }
    }
    /// For the peer that sent the bytes.
    pub fn refusal(&self) -> Refusal {
        let place = match self {
            Self::Field { field, .. } => (*field).to_owned(),
            Self::Read(_)
            | Self::UnknownKind { .. }
            | Self::SubjectCount { .. }
            | Self::Subject { .. }
            | Self::NoGenesis
            | Self::SecondGenesis
            | Self::Signer { .. }
            | Self::Signature { .. } => "envelope".to_owned(),
        };
        let next = format!(
            "Send an RFC 8785 DSSE envelope of at most {ENTRY_BYTES_MAX} bytes, of a known kind, signed by the key that this ledger names for it."
        );
        Refusal::new(self.code(), place, self.to_string(), next)
    }
}

/// Checks that `bytes` may be appended to the ledger whose entries so far were folded into `signers`: canonical
/// envelope and payload, one subject of the right kind, a known kind signed by the role that may sign it, and the
/// fields that tie an entry to its signer and ledger. Does not know leases; see [`super::check_result_binding`].
pub fn check(bytes: &[u8], signers: &Signers) -> Result<Checked, EntryError> {
    let envelope = Envelope::parse_canonical(bytes).map_err(ReadError::from)?;
    let entry = Entry::of_envelope(&envelope)?;
    let kind = entry
        .body
        .kind()
        .ok_or_else(|| EntryError::UnknownKind { predicate_type: entry.body.predicate_type() })?;
    let [subject] = entry.subject.as_slice() else {
        return Err(EntryError::SubjectCount { count: entry.subject.len() });
    };
    if !entry.body.is_about(subject) {
        return Err(EntryError::Subject { kind });
    }
    let signer = signer_of(&entry, kind, &envelope, signers)?;
    if !envelope.is_signed_by(&signer) {
        return Err(EntryError::Signature { key_id: signer.key_id() });
    }
    match &entry.body {
        Body::Genesis(genesis) => check_genesis(genesis)?,
        Body::NodeEnrol(enrol) => check_enrol(enrol, signers)?,
        Body::NodeRevoke(revoke) => check_revoke(revoke, signers)?,
        Body::Result(result) => check_result(result, &signer, signers)?,
        Body::Verification(verification) => check_verification(verification, &signer, signers)?,
        Body::HoldoutOpened(opened) => check_opened(opened)?,
        Body::Finding(finding) => check_finding(finding)?,
        Body::Task(_)
        | Body::Policy(_)
        | Body::AttemptGranted(_)
        | Body::AttemptLost(_)
        | Body::AttemptRefused(_)
        | Body::Unknown { .. } => {}
    }
    Ok(Checked { kind, signer, entry })
}

/// The key that the envelope's hint names, if it may sign this kind.
fn signer_of(
    entry: &Entry,
    kind: Kind,
    envelope: &Envelope,
    signers: &Signers,
) -> Result<PublicKey, EntryError> {
    let candidates = match (&entry.body, signers.operator()) {
        (Body::Genesis(_), Some(_)) => return Err(EntryError::SecondGenesis),
        (Body::Genesis(genesis), None) => PublicKey::from_hex(&genesis.operator_key).ok(),
        (_, None) => return Err(EntryError::NoGenesis),
        (_, Some(operator)) => match kind.signer() {
            SignerRole::Operator => Some(*operator),
            SignerRole::Node => envelope
                .key_id()
                .and_then(|id| signers.node(&fleet_config::domain::NodeId(id.0)))
                .map(|enrolled| enrolled.key),
        },
    };
    candidates.filter(|key| Some(key.key_id()) == envelope.key_id()).ok_or_else(|| EntryError::Signer {
        kind,
        role: kind.signer(),
        key_id: envelope.key_id.chars().take(64).collect(),
    })
}

fn check_genesis(genesis: &Genesis) -> Result<(), EntryError> {
    let field = |field, cause: &str| Err(EntryError::Field { field, cause: cause.to_owned() });
    if genesis.format != FORMAT {
        return field("format", "this version reads and writes format 1");
    }
    let legal = |c: char| !c.is_whitespace() && !c.is_control() && c != '+';
    let origin = &genesis.origin;
    if origin.is_empty() || origin.len() > ORIGIN_BYTES_MAX || !origin.chars().all(legal) {
        return field("origin", "not a name for signed notes: 1 to 200 bytes without space, control or `+`");
    }
    Ok(())
}

fn check_revoke(revoke: &NodeRevoke, signers: &Signers) -> Result<(), EntryError> {
    let cause = match signers.node(&revoke.node) {
        None => "no node of this id is enrolled".to_owned(),
        Some(node) => match node.revoked {
            None => return Ok(()),
            Some(leaf) => format!("revoked before, by entry {leaf}"),
        },
    };
    Err(EntryError::Field { field: "node", cause })
}

fn check_enrol(enrol: &NodeEnrol, signers: &Signers) -> Result<(), EntryError> {
    if let Some(leaf) = signers.node(&enrol.node).and_then(|node| node.revoked) {
        let cause = format!("this key was revoked by entry {leaf}; the node needs a new one");
        return Err(EntryError::Field { field: "node", cause });
    }
    let key = PublicKey::from_hex(&enrol.signing_key)
        .map_err(|e| EntryError::Field { field: "signing_key", cause: e.to_string() })?;
    if key.node_id() != enrol.node {
        let cause = "not the SHA-256 of the signing key".to_owned();
        return Err(EntryError::Field { field: "node", cause });
    }
    Ok(())
}

fn check_result(result: &ResultRecord, signer: &PublicKey, signers: &Signers) -> Result<(), EntryError> {
    let field = |field, cause: String| Err(EntryError::Field { field, cause });
    if Some(result.origin.as_str()) != signers.origin() {
        return field("origin", "the attempt was granted in another ledger".to_owned());
    }
    if result.node != signer.node_id() {
        return field("node", format!("the record names {}, another node signed it", result.node.short()));
    }
    if let Some(leaf) = signers.node(&result.node).and_then(|node| node.revoked) {
        return field("node", format!("revoked by entry {leaf}"));
    }
    let is_ok = result.outcome.status == Status::Ok;
    if is_ok != result.outcome.cause.is_none() || is_ok != (result.outcome.blame == Blame::Nobody) {
        return field("outcome", "`ok` has neither cause nor blame, every other status has both".to_owned());
    }
    if result.device_kind == DeviceKind::Compile && !result.timings.is_empty() {
        return field("timings", "a device that only compiles measures no time".to_owned());
    }
    if !is_ok && !result.timings.is_empty() {
        return field("timings", format!("`{}` has no times", result.outcome.status));
    }
    Ok(())
}

fn check_verification(
    verification: &Verification,
    signer: &PublicKey,
    signers: &Signers,
) -> Result<(), EntryError> {
    check_result(&verification.result, signer, signers)?;
    let is_ok = verification.result.outcome.status == Status::Ok;
    if is_ok && verification.verdict != HoldoutVerdict::Passed {
        let cause = "`ok` where the sealed cases did not pass".to_owned();
        return Err(EntryError::Field { field: "verdict", cause });
    }
    Ok(())
}

fn check_opened(opened: &HoldoutOpened) -> Result<(), EntryError> {
    if opened.opening == 0 {
        let cause = "openings are counted from 1".to_owned();
        return Err(EntryError::Field { field: "opening", cause });
    }
    Ok(())
}

fn check_finding(finding: &Finding) -> Result<(), EntryError> {
    if !finding.detector.is_legal() {
        let cause = "a detector has a name of [a-z0-9-] and a version from 1".to_owned();
        return Err(EntryError::Field { field: "detector", cause });
    }
    Ok(())
}

fn role_text(role: SignerRole) -> &'static str {
    match role {
        SignerRole::Operator => "the operator key of this ledger",
        SignerRole::Node => "the signing key of an enrolled node",
    }
}
