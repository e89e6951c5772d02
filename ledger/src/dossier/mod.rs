//! Evidence bundles: everything that belongs to one result in one file, checked offline with the log's key alone.
//!
//! `collect` gathers it from a log, [`archive`] is the file (POSIX ustar), `check` believes nothing but the key: each
//! entry is proven to be in the signed tree, and all of them together pass the checks that verification of a whole ledger
//! makes of them ([`crate::verify::semantic`]). `docs/LEDGER.md` has the format.

pub mod archive;
mod check;
mod collect;
mod readme;

#[cfg(test)]
mod tests;

pub use check::{CheckReport, check};
pub use collect::{CollectError, collect};

use fleet_config::domain::{LeafIndex, RecordId, Sha256};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Of this version of the form.
pub const FORMAT: &str = "muster.bundle/1";
/// Name of the list of contents.
pub const MANIFEST: &str = "bundle.json";
/// Name of the signed checkpoint.
pub const CHECKPOINT: &str = "checkpoint";
/// Name of the page for people.
pub const README: &str = "README.txt";
/// Name of the envelopes, one a line, for other people's tools.
pub const ENVELOPES: &str = "entries.intoto.jsonl";

/// The files of a bundle by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What a bundle says it holds. Nothing of it is believed before it is checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always [`FORMAT`].
    pub format: String,
    pub origin: String,
    /// The result that this is about.
    pub record: RecordId,
    pub leaf: LeafIndex,
    pub tree_size: u64,
    pub root: Sha256,
    /// In order of leaves.
    pub entries: Vec<Listed>,
    /// Blobs that the entries lead to and that the ledger did not have.
    pub missing: Vec<String>,
}

/// One entry of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    pub leaf: LeafIndex,
    pub record: RecordId,
    /// Word of its kind.
    pub kind: String,
}

/// Where the proof of an entry lies. It carries the entry.
pub fn proof_path(leaf: LeafIndex) -> String {
    format!("proofs/{leaf}.tlog-proof")
}

/// Where a blob lies, as in a ledger folder.
pub fn blob_path(digest: &fleet_config::domain::Digest) -> String {
    let hex = digest.to_string();
    format!("blob/blake3/{}/{hex}", &hex[..2])
}
