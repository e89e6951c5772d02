//! What the entries say, checked against each other and against their blobs.
//!
//! The log's own check shows that these bytes are in the tree; this one asks whether they may be: who signed, in
//! which order, about which attempt, and whether every blob that is named is there. Trusts nothing but the origin
//! under the checkpoint: the operator key comes from entry 0.

mod attempts;
mod content;
mod holdouts;

#[cfg(test)]
mod tests;

use crate::cores::on_all_cores;
use crate::entry::predicate::ResultRecord;
use crate::entry::{Body, Checked, Entry, EntryError, Kind, Signers, check};
use attempts::Attempts;
pub use content::BlobSource;
use content::Contents;
use fleet_config::domain::{BlobRef, Digest, LeafIndex, RecordId};
use holdouts::Holdouts;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Most findings that are kept; a ledger with more is broken throughout, and the rest are counted.
pub const FINDINGS_MAX: usize = 1000;

/// One thing that is wrong or not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SemanticFinding {
    pub severity: Severity,
    pub leaf: LeafIndex,
    /// Path of a blob, relative to the ledger folder, or name of a field; empty for the entry itself.
    pub place: String,
    /// Lower-case fragment.
    pub cause: String,
}

/// Whether verification fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth telling; verification passes.
    Warning,
    /// Verification fails.
    Error,
}

/// What the check saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SemanticReport {
    pub entries: u64,
    /// Entries by kind; unknown kinds under their predicateType.
    pub kinds: BTreeMap<String, u64>,
    /// Distinct blobs that were read and compared.
    pub blobs: u64,
    /// Cells with their final entry.
    pub cells_closed: u64,
    /// Cells whose work is not finished.
    pub cells_open: u64,
    pub findings: Vec<SemanticFinding>,
    /// Findings beyond [`FINDINGS_MAX`].
    pub suppressed: u64,
}

impl SemanticReport {
    /// Whether nothing is wrong; warnings do not count.
    pub fn passes(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Warning)
    }
}

/// The check: feed it every entry in the order of the log, then [`SemanticCheck::finish`].
pub struct SemanticCheck<'a> {
    origin: String,
    signers: Signers,
    contents: Contents<'a>,
    attempts: Attempts,
    holdouts: Holdouts,
    records: BTreeSet<RecordId>,
    /// Tasks and policies by the digest that names them.
    definitions: BTreeSet<Digest>,
    entries: u64,
    /// Leaf that comes next, unless damage leaves a gap.
    next: u64,
    kinds: BTreeMap<String, u64>,
    notes: Notes,
}

/// Findings about the entry at hand.
#[derive(Default)]
struct Notes {
    leaf: Option<LeafIndex>,
    findings: Vec<SemanticFinding>,
    suppressed: u64,
}

impl Notes {
    fn add(&mut self, severity: Severity, place: impl Into<String>, cause: impl Into<String>) {
        if self.findings.len() >= FINDINGS_MAX {
            self.suppressed += 1;
            return;
        }
        let leaf = self.leaf.unwrap_or(LeafIndex(0));
        self.findings.push(SemanticFinding { severity, leaf, place: place.into(), cause: cause.into() });
    }
    fn error(&mut self, place: impl Into<String>, cause: impl Into<String>) {
        self.add(Severity::Error, place, cause);
    }
    fn warning(&mut self, place: impl Into<String>, cause: impl Into<String>) {
        self.add(Severity::Warning, place, cause);
    }
}

/// What this check says of a result by its content alone: that its blobs are there and are what it says, that its
/// subject is the candidate's source tree, its class that of its environment, its numbers those of its samples. A
/// writer asks before it appends, so that it takes in nothing that verification refuses for ever. Findings are at
/// leaf 0; an entry that is no result has none.
pub fn result_findings(entry: &Entry, blobs: BlobSource<'_>) -> Vec<SemanticFinding> {
    let mut contents = Contents::new(blobs);
    let mut notes = Notes::default();
    for blob in entry.body.blobs() {
        contents.check(&blob, &mut notes);
    }
    if let Some(result) = entry.body.result() {
        contents.check_result_entry(entry, result, &mut notes);
    }
    notes.findings
}

/// Whether entries of this kind change who may sign what follows.
fn names_keys(kind: Kind) -> bool {
    match kind {
        Kind::Genesis | Kind::NodeEnrol | Kind::NodeRevoke => true,
        Kind::Task
        | Kind::Policy
        | Kind::AttemptGranted
        | Kind::AttemptLost
        | Kind::AttemptRefused
        | Kind::HoldoutOpened
        | Kind::Result
        | Kind::Verification
        | Kind::Finding => false,
    }
}

impl<'a> SemanticCheck<'a> {
    /// For the ledger whose checkpoint is signed under `origin`; `blobs` reads the blob store.
    pub fn new(origin: &str, blobs: BlobSource<'a>) -> Self {
        Self {
            origin: origin.to_owned(),
            signers: Signers::new(),
            contents: Contents::new(blobs),
            attempts: Attempts::default(),
            holdouts: Holdouts::default(),
            records: BTreeSet::new(),
            definitions: BTreeSet::new(),
            entries: 0,
            next: 0,
            kinds: BTreeMap::new(),
            notes: Notes::default(),
        }
    }

    /// The next entry. Nothing is judged after an entry 0 that is no genesis: nobody's signature would count.
    pub fn feed(&mut self, leaf: LeafIndex, bytes: &[u8]) {
        self.take(leaf, bytes, None);
    }

    /// The next entries, as [`Self::feed`] takes each in turn, with their signatures checked on all cores.
    pub fn feed_all(&mut self, entries: &[(LeafIndex, Vec<u8>)]) {
        let keys = &self.signers;
        let outcomes = on_all_cores(entries, |(_, bytes)| check(bytes, keys));
        let mut are_keys_current = true;
        for ((leaf, bytes), outcome) in entries.iter().zip(outcomes) {
            let changes_keys = outcome.as_ref().is_ok_and(|checked| names_keys(checked.kind));
            // Behind an entry that changes the keys, what was found under the older ones says nothing.
            self.take(*leaf, bytes, are_keys_current.then_some(outcome));
            are_keys_current &= !changes_keys;
        }
    }

    /// The next entry, with what [`check`] says of it under the keys so far where that is known already.
    fn take(&mut self, leaf: LeafIndex, bytes: &[u8], outcome: Option<Result<Checked, EntryError>>) {
        self.notes.leaf = Some(leaf);
        let is_first = self.entries == 0;
        if leaf.0 != self.next {
            let cause = format!(
                "entries {} up to {leaf} could not be read; what depends on them may be reported as missing",
                self.next
            );
            self.notes.warning("", cause);
        }
        self.next = leaf.0.saturating_add(1);
        self.entries += 1;
        if !is_first && self.signers.origin().is_none() {
            return;
        }
        match outcome.unwrap_or_else(|| check(bytes, &self.signers)) {
            Ok(checked) => {
                self.count(checked.kind.word());
                self.judge(&checked, is_first);
                self.signers.fold(leaf, &checked);
            }
            Err(EntryError::UnknownKind { predicate_type }) => {
                self.count(&predicate_type);
                let cause =
                    format!("the kind `{predicate_type}` is not known to this version and was not judged");
                self.notes.warning("", cause);
            }
            Err(error) => {
                self.count("refused");
                let place = if is_first { "entry 0" } else { "" };
                self.notes.error(place, error.to_string());
            }
        }
    }

    /// What was found.
    pub fn finish(self) -> SemanticReport {
        let (cells_closed, cells_open) = self.attempts.counts();
        SemanticReport {
            entries: self.entries,
            kinds: self.kinds,
            blobs: self.contents.count(),
            cells_closed,
            cells_open,
            findings: self.notes.findings,
            suppressed: self.notes.suppressed,
        }
    }

    /// Whether a blob was looked at.
    pub fn has_read(&self, digest: &Digest) -> bool {
        self.contents.has_read(digest)
    }

    /// The keys that the entries named: what `muster ledger signers` prints.
    pub fn signers(&self) -> &Signers {
        &self.signers
    }

    fn count(&mut self, kind: &str) {
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
    }

    fn judge(&mut self, checked: &Checked, is_first: bool) {
        if is_first && checked.kind != Kind::Genesis {
            self.notes.error("entry 0", "not a genesis entry");
        }
        if !self.records.insert(checked.record()) {
            self.notes.error("", "the same record is in the log twice");
        }
        for blob in checked.entry.body.blobs() {
            self.contents.check(&blob, &mut self.notes);
        }
        match &checked.entry.body {
            Body::Genesis(genesis) => {
                if genesis.origin != self.origin {
                    self.notes.error("origin", format!("`{}` is not the checkpoint's", genesis.origin));
                }
            }
            Body::Task(task) => {
                self.definitions.insert(Digest(task.task.0));
                let holdout = self.contents.check_task(task, &mut self.notes);
                self.holdouts.sealed(task.task, holdout);
            }
            Body::Policy(policy) => {
                self.definitions.insert(Digest(policy.policy.0));
                self.contents.check_policy(policy, &mut self.notes);
            }
            Body::AttemptGranted(granted) => {
                let grants = self.contents.grants(granted, &mut self.notes);
                self.holdouts.granted(&grants, &mut self.notes);
                self.attempts.granted(grants, &self.signers, &mut self.notes);
            }
            Body::AttemptLost(lost) => {
                self.contents.check_candidate(lost.candidate, None, &mut self.notes);
                self.attempts.lost(lost, &mut self.notes);
            }
            Body::AttemptRefused(refused) => {
                self.contents.check_refused(refused, &self.signers, &mut self.notes);
            }
            Body::Result(result) => {
                self.holdouts.result(checked.record(), result, &mut self.notes);
                self.judge_result(&checked.entry, result);
            }
            Body::HoldoutOpened(opened) => {
                self.contents.check_candidate(opened.candidate, None, &mut self.notes);
                self.holdouts.opened(opened, &mut self.notes);
            }
            Body::Verification(verification) => {
                self.holdouts.verified(verification, &mut self.notes);
                self.judge_result(&checked.entry, &verification.result);
            }
            Body::Finding(finding) => {
                self.contents.check_candidate(finding.candidate, None, &mut self.notes);
                self.holdouts.found(finding, &mut self.notes);
            }
            Body::NodeRevoke(revoke) => {
                if self.notes.leaf.is_some_and(|leaf| revoke.suspect_from > leaf) {
                    self.notes.error("suspect_from", "an entry that comes after the revocation");
                }
            }
            Body::NodeEnrol(_) | Body::Unknown { .. } => {}
        }
    }

    fn judge_result(&mut self, entry: &Entry, result: &ResultRecord) {
        for (field, digest) in [("task", result.task.0), ("policy", result.policy.0)] {
            if !self.definitions.contains(&Digest(digest)) {
                self.notes.error(field, "the result is of one that no entry before it defines");
            }
        }
        self.contents.check_result_entry(entry, result, &mut self.notes);
        self.attempts.result(result, self.signers.origin().unwrap_or_default(), &mut self.notes);
    }
}

/// Where a blob lies, relative to the ledger folder.
fn path_of(digest: &Digest) -> String {
    let hex = digest.to_string();
    format!("blob/blake3/{}/{hex}", &hex[..2])
}

fn place_of(blob: &BlobRef) -> String {
    path_of(&blob.blake3)
}
