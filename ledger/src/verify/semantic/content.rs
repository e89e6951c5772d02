//! What entries say about blobs, checked against the blobs.

use super::{Notes, path_of, place_of};
use crate::entry::predicate::{
    AttemptGranted, AttemptRefused, Environment, Evidence, Grant, PolicyAdded, ResultRecord, TaskAdded,
    VolatileFacts,
};
use crate::entry::{DigestSet, Entry, Envelope, Signers, case_timing, decode_samples, read_grants};
use fleet_config::domain::canonical::from_bytes;
use fleet_config::domain::{
    BlobRef, Candidate, CandidateId, CaseTiming, ClassId, Commitment, Digest, MeasurementPolicy, PolicyId,
    Sha256, Task,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Reads a blob by its blake3; `None` where the store has none. Need not check anything.
pub type BlobSource<'a> = Box<dyn FnMut(&Digest) -> std::io::Result<Option<Vec<u8>>> + 'a>;

/// Blobs as far as they were read, so that what many entries share is read once.
pub(super) struct Contents<'a> {
    source: BlobSource<'a>,
    known: BTreeMap<Digest, Found>,
    /// Source manifest of each candidate that was looked at; `None` where its definition is at fault.
    candidates: BTreeMap<CandidateId, Option<BlobRef>>,
    /// Class and policy of each environment.
    environments: BTreeMap<Digest, Option<(ClassId, PolicyId)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Whole { sha256: Sha256, size: u64 },
    AtFault,
}

impl<'a> Contents<'a> {
    pub(super) fn new(source: BlobSource<'a>) -> Self {
        let (known, candidates, environments) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { source, known, candidates, environments }
    }

    /// Blobs looked at.
    pub(super) fn count(&self) -> u64 {
        self.known.len() as u64
    }

    pub(super) fn has_read(&self, digest: &Digest) -> bool {
        self.known.contains_key(digest)
    }

    /// That `blob` is there with both digests and its size.
    pub(super) fn check(&mut self, blob: &BlobRef, notes: &mut Notes) {
        let found = match self.known.get(&blob.blake3) {
            Some(found) => *found,
            None => {
                self.read(&blob.blake3, notes);
                self.known.get(&blob.blake3).copied().unwrap_or(Found::AtFault)
            }
        };
        let Found::Whole { sha256, size } = found else { return };
        if size != blob.size {
            notes.error(place_of(blob), format!("{size} bytes, the entry says {}", blob.size));
        }
        if sha256 != blob.sha256 {
            notes.error(place_of(blob), "its SHA-256 is not the one in the entry");
        }
    }

    /// The content named `digest`; faults are told once for each blob.
    fn read(&mut self, digest: &Digest, notes: &mut Notes) -> Option<Vec<u8>> {
        if self.known.get(digest) == Some(&Found::AtFault) {
            return None;
        }
        let cause = match (self.source)(digest) {
            Ok(Some(bytes)) if Digest::of(&bytes) == *digest => {
                let found = Found::Whole { sha256: Sha256::of(&bytes), size: bytes.len() as u64 };
                self.known.insert(*digest, found);
                return Some(bytes);
            }
            Ok(Some(_)) => "its content has another blake3 than its name".to_owned(),
            Ok(None) => "missing".to_owned(),
            Err(error) => format!("cannot be read: {error}"),
        };
        notes.error(path_of(digest), cause);
        self.known.insert(*digest, Found::AtFault);
        None
    }

    fn document<T: DeserializeOwned>(&mut self, digest: &Digest, what: &str, notes: &mut Notes) -> Option<T> {
        let bytes = self.read(digest, notes)?;
        let read = from_bytes(&bytes);
        read.map_err(|error| notes.error(path_of(digest), format!("no {what}: {error}"))).ok()
    }

    /// That everything the task names is listed; answers with what it seals.
    pub(super) fn check_task(&mut self, added: &TaskAdded, notes: &mut Notes) -> Option<Commitment> {
        let task = self.document::<Task>(&added.definition.blake3, "task", notes)?;
        for blob in task.blobs() {
            if !added.blobs.contains(&blob) {
                notes.error("blobs", format!("{} of the task is not listed", place_of(&blob)));
            }
        }
        task.holdout.map(|holdout| holdout.commitment)
    }

    pub(super) fn check_policy(&mut self, added: &PolicyAdded, notes: &mut Notes) {
        let _: Option<MeasurementPolicy> = self.document(&added.definition.blake3, "policy", notes);
    }

    /// The grants of a batch, or none where its blob is at fault.
    pub(super) fn grants(&mut self, granted: &AttemptGranted, notes: &mut Notes) -> Vec<Grant> {
        let Some(bytes) = self.read(&granted.grants.blake3, notes) else { return Vec::new() };
        read_grants(granted, &bytes).unwrap_or_else(|error| {
            notes.error(place_of(&granted.grants), error.to_string());
            Vec::new()
        })
    }

    /// That the candidate's definition and sources are there, and that `subject` is the manifest of its sources.
    pub(super) fn check_candidate(
        &mut self,
        candidate: CandidateId,
        subject: Option<DigestSet>,
        notes: &mut Notes,
    ) {
        if !self.candidates.contains_key(&candidate) {
            let definition: Option<Candidate> = self.document(&Digest(candidate.0), "candidate", notes);
            for blob in definition.iter().flat_map(|definition| definition.source.blobs()) {
                self.check(&blob, notes);
            }
            let manifest = definition.and_then(|definition| definition.source.document().ok());
            self.candidates.insert(candidate, manifest.map(|document| document.blob));
        }
        let manifest = self.candidates.get(&candidate).copied().flatten();
        if let (Some(manifest), Some(subject)) = (manifest, subject)
            && !subject.names(&manifest)
        {
            notes.error("subject", "not the source manifest of the candidate");
        }
    }

    /// Everything that a result says and that its blobs and those of its candidate can show.
    pub(super) fn check_result_entry(&mut self, entry: &Entry, result: &ResultRecord, notes: &mut Notes) {
        let subject = entry.subject.first().map(|subject| subject.digest);
        self.check_candidate(result.candidate, subject, notes);
        self.check_result(result, notes);
    }

    fn check_result(&mut self, result: &ResultRecord, notes: &mut Notes) {
        let environment = &result.environment.blake3;
        if !self.environments.contains_key(environment) {
            let read: Option<Environment> = self.document(environment, "environment", notes);
            let class = read.and_then(|read| Some((read.class.id().ok()?, read.class.policy)));
            self.environments.insert(*environment, class);
        }
        if let Some((class, policy)) = self.environments.get(environment).copied().flatten() {
            if class != result.class {
                notes.error("class", "not the comparability class of the environment");
            }
            if policy != result.policy {
                notes.error("policy", "not the one that the comparability class is of");
            }
        }
        let _: Option<VolatileFacts> = self.document(&result.volatile.blake3, "volatile facts", notes);
        if let Some(evidence) = &result.evidence {
            let _: Option<Evidence> = self.document(&evidence.blake3, "evidence", notes);
        }
        for timing in &result.timings {
            self.check_timing(timing, notes);
        }
    }

    /// That the numbers of a case are those of its raw samples. One part per billion is left for the rounding of
    /// a node built with another logarithm.
    fn check_timing(&mut self, timing: &CaseTiming, notes: &mut Notes) {
        let Some(bytes) = self.read(&timing.samples.blake3, notes) else { return };
        let place = place_of(&timing.samples);
        let series = match decode_samples(&bytes) {
            Ok(series) => series,
            Err(error) => return notes.error(place, error.to_string()),
        };
        let again = case_timing(&series, timing.samples);
        let is_near = again.ratio.0.abs_diff(timing.ratio.0) <= 1;
        let rounded = CaseTiming { ratio: timing.ratio, ..again };
        if !is_near || rounded != *timing {
            notes.error(
                place,
                format!("case `{}`: the record's numbers are not those of its samples", timing.case),
            );
        }
    }

    /// That a refusal quotes an envelope which its node signed and which says what the refusal says of it.
    pub(super) fn check_refused(&mut self, refused: &AttemptRefused, signers: &Signers, notes: &mut Notes) {
        let Some(bytes) = self.read(&refused.envelope.blake3, notes) else { return };
        let place = place_of(&refused.envelope);
        let read = Envelope::parse(&bytes).map_err(|error| error.to_string());
        let read =
            read.and_then(|e| Entry::of_envelope(&e).map(|entry| (e, entry)).map_err(|e| e.to_string()));
        let (envelope, entry) = match read {
            Ok(both) => both,
            Err(cause) => return notes.error(place, cause),
        };
        if envelope.record() != refused.record {
            notes.error("record", "not the record of the quoted envelope");
        }
        let claim = entry.body.result().map(|result| (result.cell, result.fence, result.node));
        if claim != Some((refused.cell, refused.fence, refused.node)) {
            notes.error(place, "the quoted envelope is no result of this cell, fence and node");
        }
        if !signers.node(&refused.node).is_some_and(|node| envelope.is_signed_by(&node.key)) {
            notes.error("node", "the quoted envelope is not signed by the node that the refusal names");
        }
    }
}
