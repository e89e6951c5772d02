//! Sealing: from a predicate to the bytes of an entry.

use super::dsse::{ENTRY_BYTES_MAX, Envelope};
use super::predicate::Predicate;
use super::statement::{Statement, Subject};
use fleet_config::domain::RecordId;
use fleet_config::domain::canonical::CanonicalError;
use fleet_config::identity::SecretKey;

/// An entry ready to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The canonical envelope: the bytes of the leaf.
    pub bytes: Vec<u8>,
    pub record: RecordId,
}

/// Why a predicate cannot be an entry.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    #[error("the entry would have {size} bytes, {ENTRY_BYTES_MAX} are the most; move text into a blob")]
    TooLarge { size: usize },
}

/// Signs `predicate` about `subject` with `key`. The operator key seals everything but results; a node's signing
/// key seals its results. Which subject a kind has is told at [`Subject`]; [`super::check`] enforces it.
pub fn seal<P: Predicate>(predicate: P, subject: Subject, key: &SecretKey) -> Result<Sealed, SealError> {
    let envelope = Envelope::sign(Statement::new(predicate, subject).payload()?, key);
    let bytes = envelope.to_bytes()?;
    if bytes.len() > ENTRY_BYTES_MAX {
        return Err(SealError::TooLarge { size: bytes.len() });
    }
    Ok(Sealed { bytes, record: envelope.record() })
}
