//! A candidate: a source tree and a launch plan, with where it came from.

use super::canonical::{CanonicalError, Document};
use super::{BlobRef, CandidateId, FamilyId, LaunchPlan};
use serde::{Deserialize, Serialize};

/// Immutable; named by the blake3 of its canonical form. Provenance is part of it: the same source from
/// another author is another candidate, while the compile key sees the source alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// Always [`Candidate::FORMAT`].
    pub format: String,
    /// Short name for people.
    pub name: String,
    pub source: SourceTree,
    /// `None`: launched as the task's baseline is.
    pub plan: Option<LaunchPlan>,
    /// Shared by variants of one candidate for several architectures.
    pub family: Option<FamilyId>,
    pub provenance: Provenance,
    /// SPDX expression; empty when not stated.
    pub licence: String,
}

impl Candidate {
    pub const FORMAT: &str = "muster.candidate/1";

    /// Canonical bytes and digests.
    pub fn document(&self) -> Result<Document, CanonicalError> {
        Document::of(self)
    }
    /// The name of this candidate.
    pub fn id(&self) -> Result<CandidateId, CanonicalError> {
        Ok(CandidateId(self.document()?.digest().0))
    }
}

/// Files by relative path, sorted; the subject of result statements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceTree {
    /// Path of the file that is compiled; the others can be included.
    pub main: String,
    pub files: Vec<SourceFile>,
}

impl SourceTree {
    /// Most files of a tree.
    pub const FILES_MAX: usize = 256;

    /// The blobs of its files.
    pub fn blobs(&self) -> impl Iterator<Item = BlobRef> + '_ {
        self.files.iter().map(|file| file.blob)
    }
    /// Canonical bytes and digests of the manifest.
    pub fn document(&self) -> Result<Document, CanonicalError> {
        Document::of(self)
    }
}

/// One file of a source tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFile {
    /// Relative, `/`-separated, no `.` or `..` component.
    pub path: String,
    pub blob: BlobRef,
}

/// Where something came from. Empty strings make no claim.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    pub author: String,
    /// The program that proposed it.
    pub agent: String,
    /// The model behind the agent.
    pub model: String,
    pub parent: Option<CandidateId>,
    pub cost: Option<Cost>,
    /// Address or citation of the origin.
    pub origin: String,
}

/// What a proposal cost its author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    pub calls: u64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    /// In 10⁻⁶ of `currency`.
    pub micros: u64,
    /// ISO 4217.
    pub currency: String,
}
