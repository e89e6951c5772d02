//! The whole folder: the log's bytes, what the entries say, and the blobs.

use super::finding::{Fault, Finding};
use super::log::verify_log;
use super::semantic::{SemanticCheck, Severity};
use crate::blob::BlobStore;
use crate::entry::Signers;
use crate::log::VerifierKey;
use crate::log::note::KeyError;
use fleet_config::domain::{Digest, LeafIndex, Sha256};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Largest blob that is read: a device memory image would not fit, and nothing that a ledger names comes near.
const BLOB_BYTES_MAX: u64 = 1 << 30;
/// Entries whose signatures are checked together on all cores: some megabytes, and long enough to be worth the threads.
const CHECKED_TOGETHER: usize = 1024;

/// What verification saw; the form that the command line prints as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Name in the verifier key.
    pub origin: String,
    /// Entries and root of the checkpoint, if the verifier key signed it.
    pub checkpoint_size: Option<u64>,
    pub root: Option<Sha256>,
    /// Entries that were read, those of the WAL included.
    pub size: u64,
    /// Bundles and tiles that were compared.
    pub files: u64,
    /// Entries by kind.
    pub kinds: BTreeMap<String, u64>,
    /// Blobs that were read and compared.
    pub blobs: u64,
    pub cells_closed: u64,
    pub cells_open: u64,
    pub findings: Vec<ReportFinding>,
    /// Findings that were counted and left out.
    pub suppressed: u64,
}

/// One thing that is wrong, or that this version does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportFinding {
    pub severity: Severity,
    /// Path relative to the ledger folder, or a field of the entry; may be empty.
    pub place: String,
    /// Byte in the file, where one can be named.
    pub offset: Option<u64>,
    /// The entry that it is about, if it is about one.
    pub leaf: Option<LeafIndex>,
    pub cause: String,
}

impl Report {
    /// Whether nothing is wrong; warnings do not count.
    pub fn passes(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Warning)
    }
}

impl fmt::Display for ReportFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(leaf) = self.leaf {
            write!(f, "entry {leaf}")?;
            separator = ", ";
        }
        if !self.place.is_empty() {
            write!(f, "{separator}{}", self.place)?;
        }
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.cause)
    }
}

impl From<Finding> for ReportFinding {
    fn from(finding: Finding) -> Self {
        Self {
            severity: Severity::Error,
            place: finding.path,
            offset: finding.offset,
            leaf: None,
            cause: finding.fault.to_string(),
        }
    }
}

/// Verifies the ledger in `folder`, trusting the verifier key alone: the operator key comes from the genesis entry
/// under the checkpoint that this key signed. Also returns the keys that the entries name. A writer may run
/// meanwhile.
pub fn verify_ledger(folder: &Path, vkey: &str) -> Result<(Report, Signers), KeyError> {
    let verifier: VerifierKey = vkey.parse()?;
    let store = BlobStore::open(folder);
    let read = |digest: &Digest| {
        store.read_unchecked(digest, BLOB_BYTES_MAX).map_err(|error| std::io::Error::other(error.to_string()))
    };
    let mut check = SemanticCheck::new(verifier.name(), Box::new(read));
    let mut held: Vec<(LeafIndex, Vec<u8>)> = Vec::with_capacity(CHECKED_TOGETHER);
    let log = verify_log(folder, &verifier, &mut |leaf, bytes| {
        held.push((leaf, bytes.to_vec()));
        if held.len() == CHECKED_TOGETHER {
            check.feed_all(&held);
            held.clear();
        }
    });
    check.feed_all(&held);
    let mut findings: Vec<ReportFinding> = log.findings.into_iter().map(ReportFinding::from).collect();
    let mut blobs = 0;
    findings.extend(unnamed_blobs(folder, &store, &check, &mut blobs).into_iter().map(ReportFinding::from));
    let signers = check.signers().clone();
    let semantic = check.finish();
    findings.extend(semantic.findings.into_iter().map(|finding| ReportFinding {
        severity: finding.severity,
        place: finding.place,
        offset: None,
        leaf: Some(finding.leaf),
        cause: finding.cause,
    }));
    let report = Report {
        origin: verifier.name().to_owned(),
        checkpoint_size: log.checkpoint.as_ref().map(|checkpoint| checkpoint.size),
        root: log.checkpoint.as_ref().map(|checkpoint| checkpoint.root),
        size: log.size,
        files: log.files,
        kinds: semantic.kinds,
        blobs: semantic.blobs + blobs,
        cells_closed: semantic.cells_closed,
        cells_open: semantic.cells_open,
        findings,
        suppressed: semantic.suppressed,
    };
    Ok((report, signers))
}

/// Blobs that no entry names (submissions, manifests): they have a name too, and it must be theirs.
fn unnamed_blobs(
    folder: &Path,
    store: &BlobStore,
    check: &SemanticCheck<'_>,
    count: &mut u64,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in blob_paths(&folder.join("blob/blake3"), &mut findings) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let relative = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
        let Some(digest) = name.parse::<Digest>().ok().filter(|digest| store.path(digest) == path) else {
            findings.push(Finding::file(relative, Fault::Stray));
            continue;
        };
        if check.has_read(&digest) {
            continue;
        }
        *count += 1;
        match store.read_unchecked(&digest, BLOB_BYTES_MAX) {
            Ok(Some(bytes)) if Digest::of(&bytes) == digest => {}
            Ok(Some(_)) => findings.push(Finding::file(relative, Fault::BlobContent)),
            // Erased since the folder was listed.
            Ok(None) => {}
            Err(error) => findings.push(unreadable(relative, &std::io::Error::other(error.to_string()))),
        }
    }
    findings
}

/// Files two levels below `root`, sorted.
fn blob_paths(root: &Path, findings: &mut Vec<Finding>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for directory in children(root, findings) {
        if directory.is_dir() {
            paths.extend(children(&directory, findings));
        } else {
            paths.push(directory);
        }
    }
    paths
}

fn children(directory: &Path, findings: &mut Vec<Finding>) -> Vec<PathBuf> {
    let read = std::fs::read_dir(directory).and_then(|entries| {
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()
    });
    match read {
        Ok(mut paths) => {
            paths.sort();
            paths
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            findings.push(unreadable(directory.to_string_lossy().into_owned(), &error));
            Vec::new()
        }
    }
}

fn unreadable(path: String, error: &std::io::Error) -> Finding {
    Finding::file(path, Fault::Unreadable { kind: error.kind(), cause: error.to_string() })
}
