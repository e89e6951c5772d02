//! What a row takes from the documents that an entry names: the candidate's provenance, the device's model and driver.

use crate::entry::predicate::Environment;
use fleet_config::domain::canonical::from_bytes;
use fleet_config::domain::{Candidate, CandidateId, Digest, Fact, Facts, field};
use std::collections::BTreeMap;

/// Documents kept: a search meets the same environments and candidates again and again, and a ledger of any size fits.
const KEPT_MAX: usize = 4096;

/// Answers with the content of a blob, or with nothing.
pub type BlobLookup<'a> = dyn FnMut(&Digest) -> Option<Vec<u8>> + 'a;

/// What a row says of a candidate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CandidateFacts {
    pub(super) name: String,
    pub(super) author: String,
    pub(super) agent: String,
    pub(super) model: String,
    pub(super) parent: Option<CandidateId>,
}

/// What a row says of an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DeviceFacts {
    pub(super) model: Option<String>,
    pub(super) driver: Option<String>,
}

/// Documents read so far. A blob that is missing or unreadable has no facts; verification names it.
#[derive(Debug, Default)]
pub(super) struct Documents {
    candidates: BTreeMap<Digest, CandidateFacts>,
    devices: BTreeMap<Digest, DeviceFacts>,
}

impl Documents {
    /// The candidate named by `digest`.
    pub(super) fn candidate(&mut self, digest: Digest, blob: &mut BlobLookup<'_>) -> &CandidateFacts {
        if self.candidates.len() >= KEPT_MAX && !self.candidates.contains_key(&digest) {
            self.candidates.clear();
        }
        self.candidates.entry(digest).or_insert_with(|| {
            let candidate = blob(&digest).and_then(|bytes| from_bytes::<Candidate>(&bytes).ok());
            candidate.map_or_else(CandidateFacts::default, |candidate| CandidateFacts {
                name: candidate.name,
                author: candidate.provenance.author,
                agent: candidate.provenance.agent,
                model: candidate.provenance.model,
                parent: candidate.provenance.parent,
            })
        })
    }

    /// The environment named by `digest`.
    pub(super) fn device(&mut self, digest: Digest, blob: &mut BlobLookup<'_>) -> &DeviceFacts {
        if self.devices.len() >= KEPT_MAX && !self.devices.contains_key(&digest) {
            self.devices.clear();
        }
        self.devices.entry(digest).or_insert_with(|| {
            let environment = blob(&digest).and_then(|bytes| from_bytes::<Environment>(&bytes).ok());
            environment.map_or_else(DeviceFacts::default, |environment| DeviceFacts {
                model: text(&environment.identity, field::DEVICE_MODEL),
                driver: text(&environment.configuration, field::DRIVER),
            })
        })
    }
}

/// A fact as text; one that is not known is none.
fn text(facts: &Facts, name: &str) -> Option<String> {
    match facts.get(name)? {
        Fact::Text(text) => Some(text.clone()),
        Fact::Count(count) => Some(count.to_string()),
        Fact::Flag(flag) => Some(flag.to_string()),
        Fact::Unknown(_) => None,
    }
}
