//! The in-toto Statement v1 that every entry carries.
//!
//! Format: in-toto Attestation Framework, `spec/v1/statement.md`. Everything of ours is inside `predicate`;
//! verifiers elsewhere refuse unknown top-level fields. `blake3` is no predefined digest name there, so `sha256`
//! always stands beside it for generic tools.

use super::predicate::{Kind, Predicate};
use fleet_config::domain::canonical::{CanonicalError, to_bytes};
use fleet_config::domain::{BlobRef, Digest, Sha256};
use fleet_config::identity::PublicKey;
use serde::{Deserialize, Serialize};

/// The `_type` of every statement.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// A statement with a predicate of type `P`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement<P> {
    #[serde(rename = "_type")]
    pub statement_type: String,
    pub subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    pub predicate: P,
}

/// What a statement is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// For people and generic tools; never an identity.
    pub name: String,
    pub digest: DigestSet,
}

/// Both digests of the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DigestSet {
    pub blake3: Digest,
    pub sha256: Sha256,
}

impl<P: Predicate> Statement<P> {
    /// The statement of `predicate` about `subject`.
    pub fn new(predicate: P, subject: Subject) -> Self {
        Self {
            statement_type: STATEMENT_TYPE.to_owned(),
            subject: vec![subject],
            predicate_type: P::KIND.predicate_type(),
            predicate,
        }
    }
    /// Its kind.
    pub fn kind(&self) -> Kind {
        P::KIND
    }
    /// The canonical payload bytes: what is signed, and what the record id is the blake3 of.
    pub fn payload(&self) -> Result<Vec<u8>, CanonicalError> {
        to_bytes(self)
    }
}

impl Subject {
    /// About the content of a blob. Names by kind: `task`, `policy`, `grants`, `envelope`, `candidate`
    /// (attempt-lost) and `source` (result).
    pub fn of_blob(name: &str, blob: &BlobRef) -> Self {
        Self { name: name.to_owned(), digest: DigestSet { blake3: blob.blake3, sha256: blob.sha256 } }
    }
    /// About the 32 bytes of a public key, for the kinds that define keys: `operator-key` (genesis) and
    /// `signing-key` (node-enrol). The SHA-256 is the key id.
    pub fn of_key(name: &str, key: &PublicKey) -> Self {
        Self::of_blob(name, &BlobRef::of(&key.to_bytes()))
    }
}

impl DigestSet {
    /// Whether both digests are those of `blob`.
    pub fn names(&self, blob: &BlobRef) -> bool {
        self.blake3 == blob.blake3 && self.sha256 == blob.sha256
    }
}
