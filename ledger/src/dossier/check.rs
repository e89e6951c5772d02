//! The offline check of a bundle, believing the log's key alone.

use super::{CHECKPOINT, ENVELOPES, FORMAT, Files, MANIFEST, Manifest, README, blob_path, proof_path};
use crate::entry::{Body, Entry};
use crate::log::{Checkpoint, ProofFile, VerifierKey};
use crate::verify::semantic::{SemanticCheck, Severity};
use fleet_config::domain::canonical::from_bytes;
use fleet_config::domain::{Digest, LeafIndex, RecordId, Sha256, Status};
use serde::Serialize;
use std::io;

/// What the check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    pub verified: bool,
    pub vkey: String,
    /// What the bundle says it is of; to be believed only if it verified.
    pub record: Option<RecordId>,
    pub leaf: Option<LeafIndex>,
    pub status: Option<Status>,
    pub tree_size: Option<u64>,
    pub root: Option<Sha256>,
    pub entries: usize,
    pub blobs: usize,
    pub faults: Vec<Fault>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// File in the bundle, with the entry where there is one.
    pub place: String,
    pub cause: String,
}

/// Checks the files of a bundle. All faults are collected.
pub fn check(files: &Files, vkey: &VerifierKey) -> CheckReport {
    let mut report = CheckReport {
        verified: false,
        vkey: vkey.to_string(),
        record: None,
        leaf: None,
        status: None,
        tree_size: None,
        root: None,
        entries: 0,
        blobs: files.keys().filter(|path| path.starts_with("blob/")).count(),
        faults: Vec::new(),
    };
    if let Some((manifest, checkpoint)) = head(files, vkey, &mut report.faults) {
        report.record = Some(manifest.record);
        report.leaf = Some(manifest.leaf);
        report.tree_size = Some(checkpoint.size);
        report.root = Some(checkpoint.root);
        let entries = proven(files, &manifest, vkey, &mut report.faults);
        report.entries = entries.len();
        report.status = target(&manifest, &entries, &mut report.faults);
        strays(files, &manifest, &mut report.faults);
        meaning(files, vkey, &entries, &mut report.faults);
    }
    report.verified = report.faults.is_empty();
    report
}

fn fault(faults: &mut Vec<Fault>, place: impl Into<String>, cause: impl ToString) {
    faults.push(Fault { place: place.into(), cause: cause.to_string() });
}

/// The list of contents and the checkpoint, if the key signed it.
fn head(files: &Files, vkey: &VerifierKey, faults: &mut Vec<Fault>) -> Option<(Manifest, Checkpoint)> {
    let mut file = |name: &str| {
        let found = files.get(name);
        if found.is_none() {
            fault(faults, name, "missing");
        }
        found
    };
    let (manifest, checkpoint) = (file(MANIFEST)?, file(CHECKPOINT)?);
    let manifest: Manifest = match from_bytes(manifest) {
        Ok(manifest) => manifest,
        Err(error) => {
            fault(faults, MANIFEST, error);
            return None;
        }
    };
    let checkpoint = match Checkpoint::open(checkpoint, vkey) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            fault(faults, CHECKPOINT, error);
            return None;
        }
    };
    if manifest.format != FORMAT {
        fault(faults, MANIFEST, format!("the form is `{}`, this version knows {FORMAT}", manifest.format));
    }
    let said = (&manifest.origin, manifest.tree_size, manifest.root);
    if said != (&checkpoint.origin, checkpoint.size, checkpoint.root) {
        fault(faults, MANIFEST, "origin, tree size or root are not those of the checkpoint");
    }
    if !manifest.missing.is_empty() {
        fault(faults, MANIFEST, format!("{} blobs were missing when it was made", manifest.missing.len()));
    }
    Some((manifest, checkpoint))
}

/// The entries whose proofs hold, in order of leaves.
fn proven(
    files: &Files,
    manifest: &Manifest,
    vkey: &VerifierKey,
    faults: &mut Vec<Fault>,
) -> Vec<(LeafIndex, Vec<u8>)> {
    let mut entries = Vec::new();
    let mut envelopes = Vec::new();
    if !manifest.entries.is_sorted_by(|a, b| a.leaf < b.leaf) {
        fault(faults, MANIFEST, "the entries are not in strictly rising order of leaves");
    }
    for listed in &manifest.entries {
        let place = proof_path(listed.leaf);
        let Some(bytes) = files.get(&place) else {
            fault(faults, place, "missing");
            continue;
        };
        let proof = match ProofFile::parse(bytes) {
            Ok(proof) => proof,
            Err(error) => {
                fault(faults, place, error);
                continue;
            }
        };
        if files.get(CHECKPOINT).map(Vec::as_slice) != Some(proof.checkpoint.as_bytes()) {
            fault(faults, place, "it leads to another checkpoint than the bundle's");
            continue;
        }
        if proof.index != listed.leaf.0 {
            fault(faults, place, format!("it is the proof of entry {}", proof.index));
            continue;
        }
        match (proof.verify(None, vkey), proof.extra) {
            (Ok(_), Some(entry)) => {
                envelopes.extend_from_slice(&entry);
                envelopes.push(b'\n');
                match Entry::read(&entry) {
                    Ok(read) if read.record == listed.record && read.body.word() == listed.kind => {}
                    Ok(_) => {
                        fault(faults, MANIFEST, format!("entry {} is another record or kind", listed.leaf))
                    }
                    Err(error) => fault(faults, place, error),
                }
                entries.push((listed.leaf, entry));
            }
            (Err(error), _) => fault(faults, place, error),
            (Ok(_), None) => fault(faults, place, "it carries no entry"),
        }
    }
    if files.get(ENVELOPES) != Some(&envelopes) {
        fault(faults, ENVELOPES, "not the proven entries, one a line");
    }
    entries
}

/// That the result is among the entries; answers with its status.
fn target(manifest: &Manifest, entries: &[(LeafIndex, Vec<u8>)], faults: &mut Vec<Fault>) -> Option<Status> {
    let bytes = entries.iter().find(|(leaf, _)| *leaf == manifest.leaf).map(|(_, bytes)| bytes);
    match bytes.and_then(|bytes| Entry::read(bytes).ok()) {
        Some(Entry { record, body: Body::Result(result), .. }) if record == manifest.record => {
            Some(result.outcome.status)
        }
        Some(_) | None => {
            fault(faults, MANIFEST, format!("entry {} is not the result {}", manifest.leaf, manifest.record));
            None
        }
    }
}

/// Files that nothing names would travel under the name of a verified bundle.
fn strays(files: &Files, manifest: &Manifest, faults: &mut Vec<Fault>) {
    for (path, bytes) in files {
        let is_ours = [MANIFEST, CHECKPOINT, ENVELOPES, README].contains(&path.as_str())
            || manifest.entries.iter().any(|listed| *path == proof_path(listed.leaf));
        if is_ours {
            continue;
        }
        // A blob that no entry names is harmless under its own name; verification of a ledger says the same.
        let named = path.rsplit('/').next().and_then(|name| name.parse::<Digest>().ok());
        match named {
            Some(digest) if *path == blob_path(&digest) && Digest::of(bytes) == digest => {}
            Some(digest) if *path == blob_path(&digest) => {
                fault(faults, path.as_str(), "its content has another blake3 than its name");
            }
            Some(_) | None => fault(faults, path.as_str(), "no part of a bundle"),
        }
    }
}

/// What verification of a whole ledger says of these entries: signers, grants, binding, contents, numbers.
fn meaning(files: &Files, vkey: &VerifierKey, entries: &[(LeafIndex, Vec<u8>)], faults: &mut Vec<Fault>) {
    let read =
        |digest: &Digest| -> io::Result<Option<Vec<u8>>> { Ok(files.get(&blob_path(digest)).cloned()) };
    let mut semantic = SemanticCheck::new(vkey.name(), Box::new(read));
    for (leaf, bytes) in entries {
        semantic.feed(*leaf, bytes);
    }
    // Warnings are of gaps, which a bundle has by its nature, and of kinds that this version does not know.
    let findings = semantic.finish().findings;
    for finding in findings.into_iter().filter(|finding| finding.severity == Severity::Error) {
        let place = format!("entry {} {}", finding.leaf, finding.place);
        fault(faults, place.trim_end(), finding.cause);
    }
}
