//! What findings do to results: which of them concern one, and what the newest of each detector says.

use crate::entry::predicate::{DetectorName, Finding, FindingJudgement, FindingScope, NodeRevoke};
use fleet_config::domain::{CandidateId, ClassId, LeafIndex, NodeId, RecordId, TaskId};
use serde::{Deserialize, Serialize};

/// A finding with its place in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    pub leaf: LeafIndex,
    /// The finding's own record.
    pub finding: RecordId,
    /// The result that was judged.
    pub about: RecordId,
    pub task: TaskId,
    pub candidate: CandidateId,
    pub class: ClassId,
    pub detector: DetectorName,
    pub judgement: FindingJudgement,
    pub scope: FindingScope,
    pub code: String,
    pub cause: String,
}

/// A revocation with its place in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    pub leaf: LeafIndex,
    /// The revocation's own record.
    pub entry: RecordId,
    pub node: NodeId,
    pub suspect_from: LeafIndex,
    pub reason: String,
}

impl Revoked {
    /// The revocation of the entry at `leaf`.
    pub fn of(leaf: LeafIndex, entry: RecordId, revoke: &NodeRevoke) -> Self {
        let NodeRevoke { node, suspect_from, reason, revoked_on: _ } = revoke;
        Self { leaf, entry, node: *node, suspect_from: *suspect_from, reason: reason.clone() }
    }

    /// Whether the result at `leaf` by `node` falls with it.
    pub fn suspects(&self, node: NodeId, leaf: LeafIndex) -> bool {
        node == self.node && leaf >= self.suspect_from
    }

    /// The revocation as a finding about `result`, so that rankings tell it like one. Its detector's name is the word of
    /// the entry's kind, which no detector has.
    pub fn about(&self, result: &Judged) -> Noted {
        Noted {
            leaf: self.leaf,
            finding: self.entry,
            about: result.record,
            task: result.task,
            candidate: result.candidate,
            class: result.class,
            detector: DetectorName { name: "node-revoke".to_owned(), version: 1 },
            judgement: FindingJudgement::Falls,
            scope: FindingScope::Record,
            code: "node/revoked".to_owned(),
            cause: format!(
                "node {} is trusted no more, and suspect from entry {} on: {}",
                self.node.short(),
                self.suspect_from,
                self.reason
            ),
        }
    }
}

/// A result as findings see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    pub leaf: LeafIndex,
    pub record: RecordId,
    pub task: TaskId,
    pub candidate: CandidateId,
    pub class: ClassId,
}

impl Noted {
    /// The finding of the entry at `leaf`.
    pub fn of(leaf: LeafIndex, record: RecordId, finding: &Finding) -> Self {
        Self {
            leaf,
            finding: record,
            about: finding.record,
            task: finding.task,
            candidate: finding.candidate,
            class: finding.class,
            detector: finding.detector.clone(),
            judgement: finding.judgement,
            scope: finding.scope,
            code: finding.code.clone(),
            cause: finding.cause.clone(),
        }
    }

    /// Whether it concerns `result`.
    pub fn covers(&self, result: &Judged) -> bool {
        (self.task, self.candidate) == (result.task, result.candidate)
            && match self.scope {
                FindingScope::Record => self.about == result.record,
                FindingScope::Class => self.class == result.class && result.leaf < self.leaf,
                FindingScope::Candidate => true,
            }
    }
}

/// The findings that hold for `result`: of each detector the newest that concerns it, whatever its version, unless it says
/// that the result stands. `findings` are in order of leaves.
pub fn standing<'a>(findings: &'a [Noted], result: &Judged) -> Vec<&'a Noted> {
    let mut newest: Vec<&Noted> = Vec::new();
    for noted in findings.iter().filter(|noted| noted.covers(result)) {
        newest.retain(|earlier| earlier.detector.name != noted.detector.name);
        newest.push(noted);
    }
    newest.retain(|noted| noted.judgement != FindingJudgement::Stands);
    newest
}

/// The finding by which `result` falls, if it does: the oldest that holds.
pub fn fall<'a>(findings: &'a [Noted], result: &Judged) -> Option<&'a Noted> {
    standing(findings, result).into_iter().find(|noted| noted.judgement == FindingJudgement::Falls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(leaf: u64, name: &str, version: u64, judgement: FindingJudgement, scope: FindingScope) -> Noted {
        Noted {
            leaf: LeafIndex(leaf),
            finding: RecordId([leaf as u8; 32]),
            about: RecordId([1; 32]),
            task: TaskId([2; 32]),
            candidate: CandidateId([3; 32]),
            class: ClassId([4; 32]),
            detector: DetectorName { name: name.to_owned(), version },
            judgement,
            scope,
            code: String::new(),
            cause: String::new(),
        }
    }

    fn judged(leaf: u64, record: u8, class: u8) -> Judged {
        Judged {
            leaf: LeafIndex(leaf),
            record: RecordId([record; 32]),
            task: TaskId([2; 32]),
            candidate: CandidateId([3; 32]),
            class: ClassId([class; 32]),
        }
    }

    #[test]
    fn a_scope_says_which_results_of_the_candidate_fall() {
        use FindingJudgement::Falls;
        let (itself, same_class, later, elsewhere) =
            (judged(5, 1, 4), judged(6, 9, 4), judged(20, 8, 4), judged(7, 7, 5));
        for (scope, fallen) in [
            (FindingScope::Record, [true, false, false, false]),
            (FindingScope::Class, [true, true, false, false]),
            (FindingScope::Candidate, [true, true, true, true]),
        ] {
            let findings = [noted(10, "d", 1, Falls, scope)];
            let found = [itself, same_class, later, elsewhere].map(|one| fall(&findings, &one).is_some());
            assert_eq!(found, fallen, "{scope:?}");
        }
        let other = Judged { candidate: CandidateId([9; 32]), ..itself };
        assert_eq!(fall(&[noted(10, "d", 1, Falls, FindingScope::Candidate)], &other), None);
    }

    #[test]
    fn the_newest_word_of_each_detector_counts_and_no_detector_speaks_for_another() {
        use FindingJudgement::{Falls, Labelled, Stands};
        let result = judged(5, 1, 4);
        let scope = FindingScope::Record;
        let mut findings = vec![noted(10, "floor", 1, Falls, scope), noted(11, "text", 1, Labelled, scope)];
        assert_eq!(fall(&findings, &result).map(|one| one.leaf), Some(LeafIndex(10)));
        assert_eq!(standing(&findings, &result).len(), 2);
        findings.push(noted(12, "floor", 2, Stands, scope));
        assert_eq!(fall(&findings, &result), None, "the newer version lifts what the older one found");
        assert_eq!(standing(&findings, &result).len(), 1, "and leaves the other detector's label");
        findings.push(noted(13, "text", 1, Falls, scope));
        assert_eq!(fall(&findings, &result).map(|one| one.leaf), Some(LeafIndex(13)));
    }
}
