//! Gathering a bundle from a log: the result, everything that its verdict rests on, and everything said of it later.

use super::readme::readme;
use super::{
    CHECKPOINT, ENVELOPES, FORMAT, Files, Listed, MANIFEST, Manifest, README, blob_path, proof_path,
};
use crate::entry::predicate::ResultRecord;
use crate::entry::{Body, Entry, Need, reach, read_grants};
use crate::log::{LogReader, ReadError};
use fleet_config::domain::canonical::{CanonicalError, to_bytes};
use fleet_config::domain::{CellId, Digest, LeafIndex, NodeId, RecordId};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of blobs that a bundle holds at most.
const BLOB_BYTES_MAX: usize = 512 << 20;
/// Results that findings refer to (reruns, and reruns of those) are followed this far.
const PASSES_MAX: usize = 8;

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error("entry {leaf} is no result, it is a {kind}")]
    NotAResult { leaf: LeafIndex, kind: String },
    #[error("entry {leaf} cannot be read: {cause}")]
    Unreadable { leaf: LeafIndex, cause: String },
    #[error("the signed checkpoint covers {checkpoint} entries, the result is entry {leaf}")]
    NotIntegrated { leaf: LeafIndex, checkpoint: u64 },
    #[error("its blobs are larger than {BLOB_BYTES_MAX} bytes together")]
    TooLarge,
    #[error(transparent)]
    Log(#[from] ReadError),
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
}

/// What is looked for.
#[derive(Debug, Default)]
struct Wanted {
    cells: BTreeSet<CellId>,
    records: BTreeSet<RecordId>,
    /// Tasks and policies.
    definitions: BTreeSet<Digest>,
    nodes: BTreeSet<NodeId>,
}

impl Wanted {
    fn add(&mut self, record: RecordId, result: &ResultRecord) {
        self.records.insert(record);
        self.cells.insert(result.cell);
        self.definitions.insert(Digest(result.task.0));
        self.definitions.insert(Digest(result.policy.0));
        self.nodes.insert(result.node);
    }

    fn count(&self) -> usize {
        self.cells.len() + self.records.len() + self.definitions.len() + self.nodes.len()
    }

    /// Whether the entry belongs to the bundle. Learns what else does from it.
    fn takes(&mut self, entry: &Entry, blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>) -> bool {
        match &entry.body {
            Body::Genesis(_) => true,
            Body::Task(task) => self.definitions.contains(&Digest(task.task.0)),
            Body::Policy(policy) => self.definitions.contains(&Digest(policy.policy.0)),
            Body::NodeEnrol(enrol) => self.nodes.contains(&enrol.node),
            Body::NodeRevoke(revoke) => self.nodes.contains(&revoke.node),
            Body::AttemptGranted(granted) => {
                let read = blob(&granted.grants.blake3).map(|bytes| read_grants(granted, &bytes));
                let Some(Ok(grants)) = read else { return false };
                let ours = grants.iter().any(|grant| self.cells.contains(&grant.cell));
                if ours {
                    // A batch is judged as a whole: every node in it must be enrolled before it.
                    self.nodes.extend(grants.iter().map(|grant| grant.node));
                }
                ours
            }
            Body::AttemptLost(lost) => self.cells.contains(&lost.cell),
            Body::Result(result) => {
                let ours = self.cells.contains(&result.cell) || self.records.contains(&entry.record);
                if ours {
                    self.add(entry.record, result);
                }
                ours
            }
            Body::Finding(finding) => {
                let ours = self.records.contains(&finding.record);
                if let (true, Some(rerun)) = (ours, finding.rerun) {
                    self.records.insert(rerun);
                }
                ours
            }
            Body::AttemptRefused(_)
            | Body::HoldoutOpened(_)
            | Body::Verification(_)
            | Body::Unknown { .. } => false,
        }
    }
}

/// The bundle of the result at `leaf`, under the signed checkpoint of `log`. `blob` answers with the content of a blob or
/// nothing.
pub fn collect(
    log: &LogReader,
    leaf: LeafIndex,
    blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>,
) -> Result<(Files, Manifest), CollectError> {
    let checkpoint = log.checkpoint().clone();
    if leaf.0 >= checkpoint.size {
        return Err(CollectError::NotIntegrated { leaf, checkpoint: checkpoint.size });
    }
    let unreadable = |cause: String| CollectError::Unreadable { leaf, cause };
    let entry = Entry::read(&log.entry(leaf)?).map_err(|error| unreadable(error.to_string()))?;
    let Body::Result(result) = &entry.body else {
        return Err(CollectError::NotAResult { leaf, kind: entry.body.word() });
    };
    let mut wanted = Wanted::default();
    wanted.add(entry.record, result);
    let chosen = chosen(log, checkpoint.size, &mut wanted, blob)?;
    let mut files = Files::new();
    let (mut envelopes, mut entries, mut named) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (at, (entry, bytes)) in &chosen {
        files.insert(proof_path(*at), log.prove(*at)?.to_string().into_bytes());
        envelopes.extend_from_slice(bytes);
        envelopes.push(b'\n');
        entries.push(Listed { leaf: *at, record: entry.record, kind: entry.body.word() });
        for (digest, need) in reach(entry, blob) {
            let strongest = named.entry(digest).or_insert(need);
            *strongest = (*strongest).min(need);
        }
    }
    let missing = blobs(&named, &mut files, blob)?;
    let manifest = Manifest {
        format: FORMAT.to_owned(),
        origin: checkpoint.origin,
        record: entry.record,
        leaf,
        tree_size: checkpoint.size,
        root: checkpoint.root,
        entries,
        missing,
    };
    files.insert(ENVELOPES.to_owned(), envelopes);
    files.insert(CHECKPOINT.to_owned(), log.checkpoint_note().as_bytes().to_vec());
    files.insert(MANIFEST.to_owned(), to_bytes(&manifest)?);
    files.insert(README.to_owned(), readme(&manifest).into_bytes());
    Ok((files, manifest))
}

type Chosen = BTreeMap<LeafIndex, (Entry, Vec<u8>)>;

/// Entries of the bundle. What an entry refers to may stand before it, so the log is read again until nothing new is wanted:
/// twice for a result that nothing was found about.
fn chosen(
    log: &LogReader,
    size: u64,
    wanted: &mut Wanted,
    blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>,
) -> Result<Chosen, ReadError> {
    let mut chosen = Chosen::new();
    for _ in 0..PASSES_MAX {
        let before = wanted.count();
        for entry in log.entries(0..size) {
            let (leaf, bytes) = entry?;
            let Ok(entry) = Entry::read(&bytes) else { continue };
            if wanted.takes(&entry, blob) {
                chosen.insert(leaf, (entry, bytes));
            }
        }
        if wanted.count() == before {
            break;
        }
    }
    Ok(chosen)
}

/// Puts the blobs beside the proofs; answers with those that are needed and not there.
fn blobs(
    named: &BTreeMap<Digest, Need>,
    files: &mut Files,
    blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>,
) -> Result<Vec<String>, CollectError> {
    let (mut missing, mut total) = (Vec::new(), 0_usize);
    for (digest, need) in named {
        let Some(bytes) = blob(digest) else {
            if *need == Need::Required {
                missing.push(digest.to_string());
            }
            continue;
        };
        total = total.saturating_add(bytes.len());
        if total > BLOB_BYTES_MAX {
            return Err(CollectError::TooLarge);
        }
        files.insert(blob_path(digest), bytes);
    }
    Ok(missing)
}
