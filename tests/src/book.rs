//! What a ledger says about its cells, read from the folder as an auditor would.

use fleet_config::domain::LeafIndex;
use ledger::blob::BlobStore;
use ledger::entry::predicate::{
    AttemptLost, AttemptRefused, Consequence, Finding, Grant, HoldoutOpened, ResultRecord, Verification,
};
use ledger::entry::{Body, Entry, read_grants};
use ledger::log::LogReader;
use std::collections::BTreeMap;
use std::path::Path;

/// Largest list of grants that a test reads.
const GRANTS_MAX: u64 = 1 << 24;

/// The entries about attempts, in the order of the log.
#[derive(Debug, Default)]
pub struct Book {
    pub size: u64,
    pub grants: Vec<(u64, Grant)>,
    pub results: Vec<(u64, String, ResultRecord)>,
    pub lost: Vec<(u64, AttemptLost)>,
    pub refused: Vec<(u64, AttemptRefused)>,
    pub opened: Vec<(u64, HoldoutOpened)>,
    pub verifications: Vec<(u64, String, Verification)>,
    pub findings: Vec<(u64, Finding)>,
}

impl Book {
    /// Reads the ledger of a state folder.
    pub fn read(state: &Path) -> Self {
        let folder = state.join("ledger");
        let key = std::fs::read_to_string(state.join("keys/log.vkey")).expect("a verifier key");
        let log = LogReader::open(&folder, &key.trim().parse().expect("a key")).expect("a readable log");
        let blobs = BlobStore::open(&folder);
        let mut book = Self { size: log.size(), ..Self::default() };
        for entry in log.entries(0..log.size()) {
            let (LeafIndex(leaf), bytes) = entry.expect("a readable entry");
            let entry = Entry::read(&bytes).expect("an entry of ours");
            match entry.body {
                Body::AttemptGranted(granted) => {
                    let blob = blobs.read(&granted.grants, GRANTS_MAX).expect("the list of grants");
                    let grants = read_grants(&granted, &blob).expect("the grants that the entry names");
                    book.grants.extend(grants.into_iter().map(|grant| (leaf, grant)));
                }
                Body::AttemptLost(lost) => book.lost.push((leaf, lost)),
                Body::AttemptRefused(refused) => book.refused.push((leaf, refused)),
                Body::HoldoutOpened(opened) => book.opened.push((leaf, opened)),
                Body::Verification(verification) => {
                    book.verifications.push((leaf, entry.record.to_string(), *verification));
                }
                Body::Finding(finding) => book.findings.push((leaf, *finding)),
                Body::Result(result) => book.results.push((leaf, entry.record.to_string(), *result)),
                Body::Genesis(_)
                | Body::Task(_)
                | Body::Policy(_)
                | Body::NodeEnrol(_)
                | Body::NodeRevoke(_)
                | Body::Unknown { .. } => {}
            }
        }
        book
    }

    /// How many final entries each cell has.
    pub fn finals(&self) -> BTreeMap<String, usize> {
        let mut finals: BTreeMap<String, usize> = BTreeMap::new();
        for (_, grant) in &self.grants {
            finals.entry(grant.cell.to_string()).or_default();
        }
        for (_, _, result) in self.results.iter().filter(|(_, _, result)| result.is_final()) {
            *finals.entry(result.cell.to_string()).or_default() += 1;
        }
        let verified = self.verifications.iter().map(|(_, _, verification)| &verification.result);
        for result in verified.filter(|result| result.is_final()) {
            *finals.entry(result.cell.to_string()).or_default() += 1;
        }
        for (_, lost) in self.lost.iter().filter(|(_, lost)| lost.consequence == Consequence::Final) {
            *finals.entry(lost.cell.to_string()).or_default() += 1;
        }
        finals
    }

    /// How many attempts were granted to a cell.
    pub fn attempts(&self, cell: &str) -> usize {
        self.grants.iter().filter(|(_, grant)| grant.cell.to_string() == cell).count()
    }

    /// Every cell has one final entry, those of `accepted` among them.
    pub fn assert_settled<'a>(&self, accepted: impl IntoIterator<Item = &'a String>) {
        let finals = self.finals();
        let wrong: Vec<_> = finals.iter().filter(|(_, count)| **count != 1).collect();
        assert!(wrong.is_empty(), "cells without exactly one final entry: {wrong:?}");
        for cell in accepted {
            assert_eq!(finals.get(cell), Some(&1), "the accepted cell {cell} has no final entry");
        }
    }
}
