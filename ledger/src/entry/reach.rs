//! Every blob that an entry leads to, also through the documents that it names: what a copy must hold to be complete.

use super::body::{Body, Entry};
use fleet_config::domain::canonical::from_bytes;
use fleet_config::domain::{Candidate, CandidateId, Digest, SubmissionId, Task};
use std::collections::BTreeSet;

/// Whether somebody who has the entry needs the blob to check it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Verification names it if it is missing.
    Required,
    /// Kept beside (manifests, documents of submissions); nothing is judged by it.
    Helpful,
}

/// The blobs behind `entry`, each once, in the order in which they were found. `blob` answers with the content of a blob or
/// nothing; documents are followed as far as they can be read.
pub fn reach(entry: &Entry, blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>) -> Vec<(Digest, Need)> {
    let mut found = Found::default();
    for named in entry.body.blobs() {
        found.add(named.blake3, Need::Required);
    }
    match &entry.body {
        Body::Task(task) => found.task(&task.definition.blake3, blob),
        Body::AttemptLost(lost) => found.attempt(lost.candidate, lost.submission, blob),
        Body::HoldoutOpened(opened) => found.attempt(opened.candidate, opened.submission, blob),
        Body::Result(result) => found.attempt(result.candidate, result.submission, blob),
        Body::Verification(verification) => {
            found.attempt(verification.result.candidate, verification.result.submission, blob);
        }
        Body::Finding(finding) => found.candidate(finding.candidate, blob),
        Body::Genesis(_)
        | Body::Policy(_)
        | Body::NodeEnrol(_)
        | Body::NodeRevoke(_)
        | Body::AttemptGranted(_)
        | Body::AttemptRefused(_)
        | Body::Unknown { .. } => {}
    }
    found.list
}

#[derive(Default)]
struct Found {
    seen: BTreeSet<Digest>,
    list: Vec<(Digest, Need)>,
}

impl Found {
    fn add(&mut self, digest: Digest, need: Need) {
        if self.seen.insert(digest) {
            self.list.push((digest, need));
        }
    }

    fn task(&mut self, definition: &Digest, blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>) {
        let task = blob(definition).and_then(|bytes| from_bytes::<Task>(&bytes).ok());
        for named in task.iter().flat_map(Task::blobs) {
            self.add(named.blake3, Need::Required);
        }
    }

    fn attempt(
        &mut self,
        candidate: CandidateId,
        submission: SubmissionId,
        blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>,
    ) {
        self.candidate(candidate, blob);
        self.add(Digest(submission.0), Need::Helpful);
    }

    fn candidate(&mut self, candidate: CandidateId, blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>) {
        let name = Digest(candidate.0);
        self.add(name, Need::Required);
        let definition = blob(&name).and_then(|bytes| from_bytes::<Candidate>(&bytes).ok());
        let Some(definition) = definition else { return };
        if let Ok(manifest) = definition.source.document() {
            self.add(manifest.digest(), Need::Helpful);
        }
        for named in definition.source.blobs() {
            self.add(named.blake3, Need::Required);
        }
    }
}
