//! Whether a result's content holds: what verification will ask of it for ever, asked once before it is appended.
//!
//! The checks are those of [`ledger::verify::semantic`], so that the two never disagree. They read blobs and
//! decompress samples, and so run beside the writer and not in it; the writer alone decides by what they found.

use fleet_config::domain::Digest;
use ledger::blob::BlobStore;
use ledger::entry::Entry;
use ledger::verify::semantic::result_findings;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;

/// Largest blob that is read for the check: the largest that a report may bring.
const BLOB_MAX: u64 = crate::stores::REPORT_BLOB_MAX;

/// What the check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Sound,
    /// The node's fault: the same bytes will never be right.
    Faulty {
        code: &'static str,
        cause: String,
    },
    /// The store's fault: the check could not be made now.
    Unknown {
        cause: String,
    },
}

/// Checks the result in `envelope` against the blobs that it names and those of its candidate.
pub(super) fn examine(envelope: &[u8], store: &BlobStore) -> Content {
    let entry = match Entry::read(envelope) {
        Ok(entry) => entry,
        Err(error) => return Content::Faulty { code: "report/unreadable", cause: error.to_string() },
    };
    let named: BTreeSet<Digest> = entry.body.blobs().iter().map(|blob| blob.blake3).collect();
    let failure = RefCell::new(None);
    let fail = |cause: String| {
        failure.borrow_mut().get_or_insert_with(|| cause.clone());
        Err(io::Error::other(cause))
    };
    let source = |digest: &Digest| match store.read_unchecked(digest, BLOB_MAX) {
        Ok(Some(bytes)) if Digest::of(&bytes) == *digest => Ok(Some(bytes)),
        Ok(Some(_)) => fail(format!("blob {digest} in the store is damaged")),
        // The transport asked for every blob that the report listed, so the report did not list this one.
        Ok(None) if named.contains(digest) => Ok(None),
        Ok(None) => fail(format!("blob {digest} of the candidate is missing from the store")),
        Err(error) => fail(error.to_string()),
    };
    let missing = named.iter().find(|digest| !store.contains(digest));
    let findings = result_findings(&entry, Box::new(source));
    if let Some(cause) = failure.into_inner() {
        return Content::Unknown { cause };
    }
    match (missing, findings.first()) {
        (Some(digest), _) => {
            let cause = format!("it names blob {digest}, which it did not bring");
            Content::Faulty { code: "report/missing-blob", cause }
        }
        (None, Some(first)) => {
            let cause = if first.place.is_empty() {
                first.cause.clone()
            } else {
                format!("{}: {}", first.place, first.cause)
            };
            Content::Faulty { code: "report/content", cause }
        }
        (None, None) => Content::Sound,
    }
}
