//! The sealed section of a task: what the commitment in the task is made over.

use super::canonical::{CanonicalError, Document, from_bytes};
use super::{Case, Commitment, Holdout};
use serde::{Deserialize, Serialize};

/// The sealed cases. Never a blob, never part of an error, shown only to the supervisor of a verification
/// lease.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldoutSection {
    /// Always [`HoldoutSection::FORMAT`].
    pub format: String,
    pub cases: Vec<Case>,
}

/// Why opened bytes are not the section that a task committed to. Says nothing of what they hold.
#[derive(Debug, thiserror::Error)]
pub enum HoldoutError {
    #[error("the sealed section and its salt do not match the task's commitment")]
    Commitment,
    #[error("the sealed section is not in its canonical form")]
    Form,
    #[error("the sealed section has {0} cases where the task states {1}")]
    Count(usize, u32),
}

impl HoldoutSection {
    pub const FORMAT: &str = "muster.holdout/1";
    /// Largest section that is opened: it travels in one frame of the wire, with room for the rest of an assignment.
    pub const BYTES_MAX: usize = 128 * 1024;

    /// A section of these cases.
    pub fn new(cases: Vec<Case>) -> Self {
        Self { format: Self::FORMAT.to_owned(), cases }
    }
    /// Canonical bytes and digests.
    pub fn document(&self) -> Result<Document, CanonicalError> {
        Document::of(self)
    }
    /// What the task says of this section: its commitment under `salt` and the number of cases.
    pub fn holdout(&self, salt: &[u8; 32]) -> Result<Holdout, CanonicalError> {
        let commitment = Commitment::of(salt, &self.document()?.bytes);
        Ok(Holdout { commitment, cases: u32::try_from(self.cases.len()).unwrap_or(u32::MAX) })
    }
    /// The section in `bytes`, if `holdout` committed to it under `salt`.
    pub fn open(bytes: &[u8], salt: &[u8; 32], holdout: &Holdout) -> Result<Self, HoldoutError> {
        if Commitment::of(salt, bytes) != holdout.commitment {
            return Err(HoldoutError::Commitment);
        }
        let section: Self = from_bytes(bytes).map_err(|_| HoldoutError::Form)?;
        if section.format != Self::FORMAT {
            return Err(HoldoutError::Form);
        }
        if u32::try_from(section.cases.len()) != Ok(holdout.cases) {
            return Err(HoldoutError::Count(section.cases.len(), holdout.cases));
        }
        Ok(section)
    }
}

/// Only the number of cases: a section must not reach a log by way of `{:?}`.
impl std::fmt::Debug for HoldoutSection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HoldoutSection({} sealed cases)", self.cases.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::CaseKind;
    use std::collections::BTreeMap;

    #[test]
    fn a_section_opens_with_its_own_salt_alone_and_prints_nothing() {
        let case = Case {
            name: "sealed".to_owned(),
            kind: CaseKind::Performance,
            dims: BTreeMap::from([("m".to_owned(), 123_321)]),
            inputs: BTreeMap::new(),
        };
        let section = HoldoutSection::new(vec![case]);
        let holdout = section.holdout(&[7; 32]).unwrap();
        let bytes = section.document().unwrap().bytes;
        assert_eq!(HoldoutSection::open(&bytes, &[7; 32], &holdout).unwrap(), section);
        assert!(matches!(HoldoutSection::open(&bytes, &[8; 32], &holdout), Err(HoldoutError::Commitment)));
        assert!(HoldoutSection::open(&bytes[1..], &[7; 32], &holdout).is_err());
        assert!(!format!("{section:?}").contains("123321"));
    }
}
