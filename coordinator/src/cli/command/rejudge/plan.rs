//! What is judged: stored results that passed, with their documents, and what detectors said of them before.

use crate::cli::reading::Reading;
use fleet_config::domain::{
    Candidate, CandidateId, Digest, LeafIndex, RecordId, SourceTree, Status, Task, TaskId, canonical,
};
use fleet_config::refusal::Refusal;
use ledger::detect::{Detector, Evidenced, Seen, Sources, examine};
use ledger::entry::predicate::{Environment, FindingJudgement, FindingScope, ResultRecord};
use ledger::entry::{Body, Entry};
use ledger::rank::finding::{Judged, Noted};
use serde_json::json;
use std::collections::BTreeMap;

/// A result that passed.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub leaf: LeafIndex,
    pub record: RecordId,
    pub result: ResultRecord,
}

impl Stored {
    pub(super) fn judged(&self) -> Judged {
        let ResultRecord { task, candidate, class, .. } = &self.result;
        let (task, candidate, class) = (*task, *candidate, *class);
        Judged { leaf: self.leaf, record: self.record, task, candidate, class }
    }
}

/// Whether there is something to record.
#[derive(Debug)]
pub(super) enum News {
    Nothing,
    /// The detector said so before.
    Known,
    Fresh(Seen),
}

/// The results asked about, newest first, and what else judging them needs.
#[derive(Debug)]
pub(super) struct Library {
    pub results: Vec<Stored>,
    /// In order of leaves.
    findings: Vec<Noted>,
    tasks: BTreeMap<TaskId, Task>,
    candidates: BTreeMap<CandidateId, Option<Candidate>>,
    /// Leaf that a finding of now would have: later than all.
    next: LeafIndex,
}

impl Library {
    /// Reads the ledger; `task` names one task, all of them when not given.
    pub(super) fn read(reading: &Reading, task: Option<&str>) -> Result<Self, Refusal> {
        let size = reading.log.size();
        let entries = reading.entries(size)?;
        let only = task.map(|text| reading.task(&entries, text)).transpose()?.map(|(id, _)| id);
        let mut library = Self {
            results: Vec::new(),
            findings: Vec::new(),
            tasks: BTreeMap::new(),
            candidates: BTreeMap::new(),
            next: LeafIndex(size),
        };
        for (leaf, bytes) in entries {
            let Ok(Entry { record, body, .. }) = Entry::read(&bytes) else { continue };
            match body {
                Body::Task(added) => {
                    let document = reading.blob(&added.definition.blake3);
                    let task = document.and_then(|bytes| canonical::from_bytes(&bytes).ok());
                    library.tasks.extend(task.map(|task| (added.task, task)));
                }
                Body::Result(result) => {
                    let is_asked = only.is_none_or(|only| only == result.task);
                    if is_asked && result.outcome.status == Status::Ok {
                        library.results.push(Stored { leaf, record, result: *result });
                    }
                }
                Body::Finding(finding) => library.findings.push(Noted::of(leaf, record, &finding)),
                Body::Genesis(_)
                | Body::Policy(_)
                | Body::NodeEnrol(_)
                | Body::NodeRevoke(_)
                | Body::AttemptGranted(_)
                | Body::AttemptLost(_)
                | Body::AttemptRefused(_)
                | Body::HoldoutOpened(_)
                | Body::Verification(_)
                | Body::Unknown { .. } => {}
            }
        }
        library.results.reverse();
        Ok(library)
    }

    /// The candidate's document.
    pub(super) fn candidate(&mut self, reading: &Reading, id: CandidateId) -> Option<&Candidate> {
        let read = || reading.blob(&Digest(id.0)).and_then(|bytes| canonical::from_bytes(&bytes).ok());
        self.candidates.entry(id).or_insert_with(read).as_ref()
    }

    /// The candidate's name, if its document was looked at.
    pub(super) fn candidate_name(&self, stored: &Stored) -> String {
        let known = self.candidates.get(&stored.result.candidate).and_then(Option::as_ref);
        known.map_or_else(|| stored.result.candidate.short(), |candidate| candidate.name.clone())
    }

    /// What a detector that needs no fleet says of a result.
    pub(super) fn examine(&mut self, reading: &Reading, detector: Detector, stored: &Stored) -> Option<Seen> {
        let candidate = self.candidate(reading, stored.result.candidate)?.clone();
        let task = self.tasks.get(&stored.result.task)?;
        let files = |tree: &SourceTree| -> Vec<Vec<u8>> {
            let all: Option<Vec<Vec<u8>>> = tree.blobs().map(|blob| reading.blob(&blob.blake3)).collect();
            all.unwrap_or_default()
        };
        let own = files(&candidate.source);
        let (baseline, reference) = (files(&task.baseline.source), files(&task.reference.source));
        let environment: Option<Environment> = reading
            .blob(&stored.result.environment.blake3)
            .and_then(|bytes| canonical::from_bytes(&bytes).ok());
        let sources = Sources { candidate: &own, baseline: &baseline, reference: &reference };
        let (record, candidate) = (&stored.result, &candidate);
        examine(detector, &Evidenced { record, task, candidate, environment: environment.as_ref(), sources })
    }

    /// What is new about a result.
    pub(super) fn news(&self, detector: Detector, stored: &Stored, seen: Option<Seen>) -> News {
        let judged = stored.judged();
        let by_it = |noted: &&Noted| noted.detector.name == detector.word() && noted.covers(&judged);
        let said = self.findings.iter().rev().find(by_it);
        match (seen, said) {
            (Some(seen), Some(said)) => {
                let is_known = said.detector == detector.name()
                    && (said.judgement, said.code.as_str()) == (seen.judgement, seen.code);
                if is_known { News::Known } else { News::Fresh(seen) }
            }
            (Some(seen), None) => News::Fresh(seen),
            (None, Some(said)) if said.judgement != FindingJudgement::Stands => News::Fresh(Seen {
                judgement: FindingJudgement::Stands,
                scope: said.scope,
                code: "stands",
                cause: format!("{} sees nothing wrong any more; {} did", detector.name(), said.detector),
                evidence: json!({"lifts": said.finding.to_string()}),
            }),
            (None, Some(_) | None) => News::Nothing,
        }
    }

    /// Remembers a finding of now, so that what it covers too is not told again.
    pub(super) fn note(
        &mut self,
        detector: Detector,
        stored: &Stored,
        (judgement, scope, code, cause): (FindingJudgement, FindingScope, &str, &str),
        leaf: Option<LeafIndex>,
    ) {
        let Judged { task, candidate, class, record, leaf: _ } = stored.judged();
        self.findings.push(Noted {
            leaf: leaf.unwrap_or(self.next),
            finding: record,
            about: record,
            task,
            candidate,
            class,
            detector: detector.name(),
            judgement,
            scope,
            code: code.to_owned(),
            cause: cause.to_owned(),
        });
    }
}
