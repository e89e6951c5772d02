//! One entry, read: its kind decides the type of its body.

use super::dsse::{Envelope, EnvelopeError};
use super::predicate::{
    AttemptGranted, AttemptLost, AttemptRefused, Finding, Genesis, HoldoutOpened, Kind, NodeEnrol,
    NodeRevoke, PolicyAdded, Predicate, ResultRecord, TaskAdded, Verification,
};
use super::statement::{STATEMENT_TYPE, Statement, Subject};
use fleet_config::domain::canonical::{CanonicalError, from_bytes};
use fleet_config::domain::{BlobRef, RecordId, Sha256};
use fleet_config::identity::PublicKey;
use serde::de::IgnoredAny;

/// What an entry says, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Genesis(Genesis),
    Task(TaskAdded),
    Policy(PolicyAdded),
    NodeEnrol(NodeEnrol),
    NodeRevoke(NodeRevoke),
    AttemptGranted(AttemptGranted),
    AttemptLost(AttemptLost),
    AttemptRefused(AttemptRefused),
    HoldoutOpened(HoldoutOpened),
    Result(Box<ResultRecord>),
    Verification(Box<Verification>),
    Finding(Box<Finding>),
    /// A kind that this version does not know: kept and counted, never judged.
    Unknown {
        predicate_type: String,
    },
}

/// An entry as read from its bytes. Says nothing about its signature; see [`super::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub record: RecordId,
    /// The envelope's hint at its signer.
    pub key_id: Option<Sha256>,
    pub subject: Vec<Subject>,
    pub body: Body,
}

/// Why bytes are no entry.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    #[error("payloadType is `{0}`, not the one of in-toto statements")]
    PayloadType(String),
    #[error("the payload is no canonical statement: {0}")]
    Statement(#[source] CanonicalError),
    #[error("the `_type` is `{0}`, not {STATEMENT_TYPE}")]
    StatementType(String),
    #[error("the predicate is not of the shape of its kind `{kind}`: {source}", kind = kind.word())]
    Predicate { kind: Kind, source: CanonicalError },
}

impl Entry {
    /// Reads a canonical envelope with a canonical payload.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        Self::of_envelope(&Envelope::parse_canonical(bytes)?)
    }

    /// Reads the payload of an envelope.
    pub fn of_envelope(envelope: &Envelope) -> Result<Self, ReadError> {
        if envelope.payload_type != super::dsse::PAYLOAD_TYPE {
            return Err(ReadError::PayloadType(clip(&envelope.payload_type)));
        }
        let head: Statement<IgnoredAny> = from_bytes(&envelope.payload).map_err(ReadError::Statement)?;
        if head.statement_type != STATEMENT_TYPE {
            return Err(ReadError::StatementType(clip(&head.statement_type)));
        }
        let payload = &envelope.payload;
        let body = match Kind::of(&head.predicate_type) {
            None => Body::Unknown { predicate_type: clip(&head.predicate_type) },
            Some(kind) => {
                Body::read(kind, payload).map_err(|source| ReadError::Predicate { kind, source })?
            }
        };
        Ok(Self { record: envelope.record(), key_id: envelope.key_id(), subject: head.subject, body })
    }
}

impl Body {
    fn read(kind: Kind, payload: &[u8]) -> Result<Self, CanonicalError> {
        Ok(match kind {
            Kind::Genesis => Self::Genesis(predicate(payload)?),
            Kind::Task => Self::Task(predicate(payload)?),
            Kind::Policy => Self::Policy(predicate(payload)?),
            Kind::NodeEnrol => Self::NodeEnrol(predicate(payload)?),
            Kind::NodeRevoke => Self::NodeRevoke(predicate(payload)?),
            Kind::AttemptGranted => Self::AttemptGranted(predicate(payload)?),
            Kind::AttemptLost => Self::AttemptLost(predicate(payload)?),
            Kind::AttemptRefused => Self::AttemptRefused(predicate(payload)?),
            Kind::HoldoutOpened => Self::HoldoutOpened(predicate(payload)?),
            Kind::Result => Self::Result(Box::new(predicate(payload)?)),
            Kind::Verification => Self::Verification(Box::new(predicate(payload)?)),
            Kind::Finding => Self::Finding(Box::new(predicate(payload)?)),
        })
    }

    /// The kind, where this version knows it.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Self::Genesis(_) => Some(Kind::Genesis),
            Self::Task(_) => Some(Kind::Task),
            Self::Policy(_) => Some(Kind::Policy),
            Self::NodeEnrol(_) => Some(Kind::NodeEnrol),
            Self::NodeRevoke(_) => Some(Kind::NodeRevoke),
            Self::AttemptGranted(_) => Some(Kind::AttemptGranted),
            Self::AttemptLost(_) => Some(Kind::AttemptLost),
            Self::AttemptRefused(_) => Some(Kind::AttemptRefused),
            Self::HoldoutOpened(_) => Some(Kind::HoldoutOpened),
            Self::Result(_) => Some(Kind::Result),
            Self::Verification(_) => Some(Kind::Verification),
            Self::Finding(_) => Some(Kind::Finding),
            Self::Unknown { .. } => None,
        }
    }

    /// The word of its kind, or its predicateType where this version does not know the kind.
    pub fn word(&self) -> String {
        self.kind().map_or_else(|| self.predicate_type(), |kind| kind.word().to_owned())
    }

    /// What an attempt ended with, if it is that: a result, or the result within a verification.
    pub fn result(&self) -> Option<&ResultRecord> {
        match self {
            Self::Result(result) => Some(result),
            Self::Verification(verification) => Some(&verification.result),
            Self::HoldoutOpened(_)
            | Self::Finding(_)
            | Self::Genesis(_)
            | Self::Task(_)
            | Self::Policy(_)
            | Self::NodeEnrol(_)
            | Self::NodeRevoke(_)
            | Self::AttemptGranted(_)
            | Self::AttemptLost(_)
            | Self::AttemptRefused(_)
            | Self::Unknown { .. } => None,
        }
    }

    /// Its predicateType.
    pub fn predicate_type(&self) -> String {
        match (self, self.kind()) {
            (Self::Unknown { predicate_type }, _) => predicate_type.clone(),
            (_, kind) => kind.map(Kind::predicate_type).unwrap_or_default(),
        }
    }

    /// Every blob that the body names with its size.
    pub fn blobs(&self) -> Vec<BlobRef> {
        match self {
            Self::Genesis(_)
            | Self::NodeEnrol(_)
            | Self::NodeRevoke(_)
            | Self::AttemptLost(_)
            | Self::HoldoutOpened(_)
            | Self::Unknown { .. } => Vec::new(),
            Self::Task(task) => {
                let mut blobs = vec![task.definition];
                blobs.extend(&task.blobs);
                blobs
            }
            Self::Policy(policy) => vec![policy.definition],
            Self::AttemptGranted(granted) => vec![granted.grants],
            Self::AttemptRefused(refused) => vec![refused.envelope],
            Self::Result(result) => result.blobs(),
            Self::Verification(verification) => verification.result.blobs(),
            Self::Finding(finding) => vec![finding.evidence],
        }
    }

    /// Whether `subject` is what a statement of this body must be about. A result's subject is the manifest of
    /// its candidate's sources, which only the candidate's own definition can confirm.
    pub(super) fn is_about(&self, subject: &Subject) -> bool {
        let digest = &subject.digest;
        match self {
            Self::Genesis(genesis) => is_key(subject, &genesis.operator_key),
            Self::NodeEnrol(enrol) => is_key(subject, &enrol.signing_key),
            // A node id is the SHA-256 of its signing key.
            Self::NodeRevoke(revoke) => digest.sha256.0 == revoke.node.0,
            Self::Task(task) => digest.names(&task.definition) && task.definition.blake3.0 == task.task.0,
            Self::Policy(policy) => {
                digest.names(&policy.definition) && policy.definition.blake3.0 == policy.policy.0
            }
            Self::AttemptGranted(granted) => digest.names(&granted.grants),
            Self::AttemptLost(lost) => digest.blake3.0 == lost.candidate.0,
            Self::AttemptRefused(refused) => digest.names(&refused.envelope),
            Self::HoldoutOpened(opened) => digest.blake3.0 == opened.candidate.0,
            Self::Finding(finding) => digest.blake3.0 == finding.candidate.0,
            Self::Result(_) | Self::Verification(_) | Self::Unknown { .. } => true,
        }
    }
}

fn predicate<P: Predicate>(payload: &[u8]) -> Result<P, CanonicalError> {
    Ok(from_bytes::<Statement<P>>(payload)?.predicate)
}

fn is_key(subject: &Subject, hex: &str) -> bool {
    PublicKey::from_hex(hex).is_ok_and(|key| subject.digest.names(&BlobRef::of(&key.to_bytes())))
}

/// Quotes outside text in an error without letting it grow.
fn clip(text: &str) -> String {
    text.chars().take(120).collect()
}
