//! The batch behind an attempt-granted entry: every attempt is named, and in the log, before it runs.

use super::predicate::{AttemptGranted, Grant};
use fleet_config::domain::Sha256;
use fleet_config::domain::canonical::{CanonicalError, Document, from_bytes, to_bytes};

/// Most attempts of one entry; bounds the blob that a verifier decodes at once.
pub const GRANTS_MAX: usize = 4096;

/// Why a batch and its entry do not fit.
#[derive(Debug, thiserror::Error)]
pub enum GrantsError {
    #[error("the grants are no canonical list: {0}")]
    Canonical(#[from] CanonicalError),
    #[error("{count} grants in one entry; from 1 to {GRANTS_MAX} are allowed")]
    Count { count: usize },
    #[error("the grants are not in strictly rising order of fences")]
    Order,
    #[error("the entry says {field}, the grants give another")]
    Differs { field: &'static str },
}

/// The predicate of a batch with the document that must be stored as a blob before the entry is appended.
pub fn seal_grants(grants: &[Grant], granted_on: String) -> Result<(AttemptGranted, Document), GrantsError> {
    let document = Document::of(&grants)?;
    let root = checked_root(grants)?;
    let granted = AttemptGranted { count: grants.len() as u64, root, grants: document.blob, granted_on };
    Ok((granted, document))
}

/// Reads the blob of an attempt-granted entry and recomputes count and root.
pub fn read_grants(granted: &AttemptGranted, blob: &[u8]) -> Result<Vec<Grant>, GrantsError> {
    let grants: Vec<Grant> = from_bytes(blob)?;
    if grants.len() as u64 != granted.count {
        return Err(GrantsError::Differs { field: "count" });
    }
    if checked_root(&grants)? != granted.root {
        return Err(GrantsError::Differs { field: "root" });
    }
    Ok(grants)
}

fn checked_root(grants: &[Grant]) -> Result<Sha256, GrantsError> {
    if grants.is_empty() || grants.len() > GRANTS_MAX {
        return Err(GrantsError::Count { count: grants.len() });
    }
    if !grants.is_sorted_by(|a, b| a.fence < b.fence) {
        return Err(GrantsError::Order);
    }
    let leaves: Vec<Sha256> = grants
        .iter()
        .map(|grant| Ok(hash(0, &[&to_bytes(grant)?])))
        .collect::<Result<_, CanonicalError>>()?;
    Ok(head(&leaves))
}

/// RFC 6962 §2.1, over leaf hashes; at most log2([`GRANTS_MAX`]) deep.
fn head(leaves: &[Sha256]) -> Sha256 {
    match leaves {
        [] => Sha256::of(b""),
        [only] => *only,
        _ => {
            let split = leaves.len().next_power_of_two() / 2;
            let (left, right) = leaves.split_at(split);
            hash(1, &[head(left).as_bytes(), head(right).as_bytes()])
        }
    }
}

fn hash(prefix: u8, parts: &[&[u8]]) -> Sha256 {
    let mut bytes = vec![prefix];
    for part in parts {
        bytes.extend_from_slice(part);
    }
    Sha256::of(&bytes)
}
