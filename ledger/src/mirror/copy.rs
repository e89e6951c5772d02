//! One run of a mirror: what the source has and the mirror lacks, verified as it comes.

use super::source::{Source, SourceError};
use super::target::{Target, TargetError};
use super::tiles::{TileError, Tiles};
use crate::disk::DiskError;
use crate::entry::{Entry, Need, reach};
use crate::log::bundle::{self, BUNDLE_BYTES_MAX, BundleError};
use crate::log::checkpoint::CheckpointError;
use crate::log::note::NOTE_BYTES_MAX;
use crate::log::proof::{self, MakeError, ProofError};
use crate::log::recovery::{RecoveryError, read_right_edge};
use crate::log::store::StoreError;
use crate::log::tile::{self, Edge, FullTile, TILE_WIDTH, TileCoordinate, TileKind};
use crate::log::tree::leaf_hash;
use crate::log::{Checkpoint, VerifierKey};
use fleet_config::domain::{Digest, Sha256};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// Largest blob that is copied.
const BLOB_BYTES_MAX: u64 = 256 << 20;
/// Blobs that a report lists; the rest is counted.
const LISTED_MAX: usize = 100;
/// Blobs that are remembered as held: some megabytes of names.
const HELD_MAX: usize = 100_000;

/// Why a run ended without a new checkpoint. The mirror is what it was before.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("the source has no checkpoint")]
    NoCheckpoint,
    #[error("the source's checkpoint: {0}")]
    Checkpoint(#[from] CheckpointError),
    #[error("the mirror that is there: {0}")]
    Mirrored(#[from] RecoveryError),
    #[error("the mirror that is there: {0}")]
    Folder(#[from] StoreError),
    #[error(
        "FORKED: the log's key signed another tree of the {size} entries that were mirrored: {mirrored} here, {found} there; keep both, they prove it"
    )]
    Forked { size: u64, mirrored: Sha256, found: Sha256 },
    #[error(
        "SET BACK: {mirrored} entries are mirrored, and the source's newest checkpoint has {found}; the source is an older copy or was restored from one"
    )]
    SetBack { mirrored: u64, found: u64 },
    #[error("the source's tiles do not lead to its signed root: {0}")]
    Proof(#[from] ProofError),
    #[error(transparent)]
    Tile(#[from] TileError),
    #[error("`{path}` at the source: {source}")]
    Bundle { path: String, source: BundleError },
    #[error("entry {index} in `{path}` at the source is not the one in its tiles")]
    Entry { index: u64, path: String },
    #[error(
        "the entries that came have the root {found}, the checkpoint says {signed}; what came was thrown away"
    )]
    Root { found: Sha256, signed: Sha256 },
}

impl From<MakeError<TileError>> for MirrorError {
    fn from(error: MakeError<TileError>) -> Self {
        match error {
            MakeError::Proof(error) => Self::Proof(error),
            MakeError::Source(error) => Self::Tile(error),
        }
    }
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MirrorReport {
    pub origin: String,
    /// Entries that were mirrored before.
    pub from: u64,
    /// Entries that are mirrored now, under a signed checkpoint.
    pub to: u64,
    pub root: Option<Sha256>,
    /// Bundles that came over, and those that an interrupted run had left.
    pub bundles: u64,
    pub bundles_resumed: u64,
    pub blobs: u64,
    /// Blobs that the source does not have, by name: erased there, or lost.
    pub blobs_missing: Vec<String>,
    /// Blobs whose content at the source is not their name's.
    pub blobs_damaged: Vec<String>,
    /// Missing and damaged ones beyond those that are listed.
    pub blobs_unlisted: u64,
}

/// Hears how many entries are hashed.
pub type Progress<'a> = dyn FnMut(u64) + 'a;

/// Copies what `source` has into the folder `to`, believing `vkey` alone.
pub fn mirror(
    source: &mut dyn Source,
    to: &Path,
    vkey: &VerifierKey,
    progress: &mut Progress<'_>,
) -> Result<MirrorReport, MirrorError> {
    let note = source.fetch("checkpoint", NOTE_BYTES_MAX)?.ok_or(MirrorError::NoCheckpoint)?;
    let newest = Checkpoint::open(&note, vkey)?;
    let mut target = Target::open(to)?;
    let mirrored = match target.folder().checkpoint_path().exists() {
        true => Some(target.folder().read_checkpoint(vkey)?.1),
        false => None,
    };
    let edge = match &mirrored {
        Some(mirrored) => read_right_edge(target.folder(), mirrored)?.edge,
        None => Edge::default(),
    };
    let mut tiles = Tiles { source, size: newest.size };
    if let Some(mirrored) = &mirrored {
        check_growth(mirrored, &newest, &mut tiles)?;
    }
    let report = MirrorReport {
        origin: newest.origin.clone(),
        from: edge.size(),
        to: newest.size,
        root: Some(newest.root),
        ..MirrorReport::default()
    };
    let mut run = Run {
        tiles,
        target: &mut target,
        edge,
        report,
        used: Vec::new(),
        filled: Vec::new(),
        held: BTreeSet::new(),
    };
    run.bundles(progress)?;
    if run.edge.root() != newest.root {
        let found = run.edge.root();
        run.discard()?;
        return Err(MirrorError::Root { found, signed: newest.root });
    }
    run.partials()?;
    let Run { report, filled, .. } = run;
    // From here on the files are those of the signed tree: first their names become durable, then the checkpoint names
    // them. A crash before leaves a mirror of the old size with files beyond it, which the next run takes up.
    target.sync()?;
    target.put("checkpoint", &note)?;
    target.sync()?;
    for full in &filled {
        target.remove_partials(full)?;
    }
    Ok(report)
}

/// That the tree which is mirrored is the beginning of the source's.
fn check_growth(
    mirrored: &Checkpoint,
    newest: &Checkpoint,
    tiles: &mut Tiles<'_>,
) -> Result<(), MirrorError> {
    let (old, new) = (mirrored.size, newest.size);
    if new < old {
        return Err(MirrorError::SetBack { mirrored: old, found: new });
    }
    let forked = |found| MirrorError::Forked { size: old, mirrored: mirrored.root, found };
    if new == old {
        return if newest.root == mirrored.root { Ok(()) } else { Err(forked(newest.root)) };
    }
    let path = proof::consistency(old, new, |subtree| tiles.subtree(subtree))?;
    let Err(error) = proof::check_consistency(old, mirrored.root, new, newest.root, &path) else {
        return Ok(());
    };
    // Either its tiles are wrong, or they are right about another history.
    let found = tiles.root_at(old)?;
    match proof::check_consistency(old, found, new, newest.root, &path) {
        Ok(()) => Err(forked(found)),
        Err(_) => Err(error.into()),
    }
}

struct Run<'a, 'b> {
    tiles: Tiles<'a>,
    target: &'b mut Target,
    edge: Edge,
    report: MirrorReport,
    /// Files beyond the old checkpoint that this run wrote or took over.
    used: Vec<TileCoordinate>,
    /// Tiles and bundles that became full, whose partial forms go at the end.
    filled: Vec<TileCoordinate>,
    /// Blobs that are known to be in the mirror, so that what many entries share is looked at once.
    held: BTreeSet<Digest>,
}

/// A bundle with the places of its entries.
struct Came {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Run<'_, '_> {
    fn bundles(&mut self, progress: &mut Progress<'_>) -> Result<(), MirrorError> {
        let width = u64::from(TILE_WIDTH);
        let first = self.edge.size() / width;
        for number in first..self.tiles.size.div_ceil(width) {
            let came = self.bundle(number)?;
            let mut full: Vec<FullTile> = Vec::new();
            for (index, place) in (number * width..).zip(&came.places) {
                if index < self.edge.size() {
                    continue;
                }
                let entry = &came.bytes[place.clone()];
                self.edge.push(leaf_hash(entry), |tile| full.push(tile));
                self.blobs_of(entry)?;
            }
            for tile in full {
                self.put(tile.coordinate, &tile::encode(&tile.hashes))?;
                self.filled.push(tile.coordinate);
            }
            let coordinate = TileCoordinate {
                kind: TileKind::Entries,
                index: number,
                width: self.tiles.width(TileKind::Entries, number),
            };
            self.put(coordinate, &came.bytes)?;
            if coordinate.is_full() {
                self.filled.push(coordinate);
            }
            progress(self.edge.size());
        }
        Ok(())
    }

    /// A bundle as wide as the tree: from an interrupted run if that left it whole, else from the source. Each entry is
    /// that of the source's tile, so that what is wrong is named at once; the root decides in the end.
    fn bundle(&mut self, number: u64) -> Result<Came, MirrorError> {
        let leaves = self.tiles.hashes(0, number)?;
        let own = TileCoordinate { kind: TileKind::Entries, index: number, width: leaves.len() as u16 };
        if let Some(bytes) = self.target.read(&own.to_string(), BUNDLE_BYTES_MAX)?
            && let Ok(came) = fitting(bytes, own, &leaves)
        {
            self.report.bundles_resumed += 1;
            return Ok(came);
        }
        let (found, bytes) = self.tiles.bytes(TileKind::Entries, number)?;
        self.report.bundles += 1;
        fitting(bytes, found, &leaves)
    }

    fn put(&mut self, coordinate: TileCoordinate, bytes: &[u8]) -> Result<(), MirrorError> {
        let path = coordinate.to_string();
        self.used.push(coordinate);
        if self.target.read(&path, BUNDLE_BYTES_MAX)?.as_deref() != Some(bytes) {
            self.target.put(&path, bytes)?;
        }
        Ok(())
    }

    /// The tiles that are not full yet.
    fn partials(&mut self) -> Result<(), MirrorError> {
        let partials: Vec<(TileCoordinate, Vec<u8>)> =
            self.edge.partials().map(|(coordinate, hashes)| (coordinate, tile::encode(hashes))).collect();
        for (coordinate, bytes) in partials {
            self.put(coordinate, &bytes)?;
        }
        Ok(())
    }

    /// Copies every blob that an entry leads to.
    fn blobs_of(&mut self, entry: &[u8]) -> Result<(), MirrorError> {
        // What this version cannot read names blobs that it cannot know.
        let Ok(entry) = Entry::read(entry) else { return Ok(()) };
        let mut failure = None;
        let mut lookup = |digest: &Digest| match self.blob(digest, Need::Required) {
            Ok(bytes) => bytes,
            Err(error) => {
                failure.get_or_insert(error);
                None
            }
        };
        let named = reach(&entry, &mut lookup);
        if let Some(error) = failure {
            return Err(error);
        }
        for (digest, need) in named {
            if self.held.len() >= HELD_MAX {
                self.held.clear();
            }
            if !self.held.contains(&digest) && self.blob(&digest, need)?.is_some() {
                self.held.insert(digest);
            }
        }
        Ok(())
    }

    /// The content of a blob, which is in the mirror afterwards unless the source lacks it.
    fn blob(&mut self, digest: &Digest, need: Need) -> Result<Option<Vec<u8>>, MirrorError> {
        let path = crate::dossier::blob_path(digest);
        if let Some(bytes) = self.target.read(&path, BLOB_BYTES_MAX)?
            && Digest::of(&bytes) == *digest
        {
            return Ok(Some(bytes));
        }
        match self.tiles.source.fetch(&path, BLOB_BYTES_MAX)? {
            Some(bytes) if Digest::of(&bytes) == *digest => {
                self.target.put(&path, &bytes)?;
                self.report.blobs += 1;
                Ok(Some(bytes))
            }
            Some(_) => {
                let unlisted = list(&mut self.report.blobs_damaged, digest);
                self.report.blobs_unlisted += unlisted;
                Ok(None)
            }
            None if need == Need::Required => {
                let unlisted = list(&mut self.report.blobs_missing, digest);
                self.report.blobs_unlisted += unlisted;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn discard(&mut self) -> Result<(), MirrorError> {
        for coordinate in &self.used {
            self.target.discard(coordinate)?;
        }
        Ok(())
    }
}

/// Lists a blob once; answers with how many were left out.
fn list(names: &mut Vec<String>, digest: &Digest) -> u64 {
    let name = digest.to_string();
    match (names.contains(&name), names.len() < LISTED_MAX) {
        (true, _) => 0,
        (false, true) => {
            names.push(name);
            0
        }
        (false, false) => 1,
    }
}

/// A bundle whose entries are those of `leaves`, cut to their number.
fn fitting(bytes: Vec<u8>, found: TileCoordinate, leaves: &[Sha256]) -> Result<Came, MirrorError> {
    let path = found.to_string();
    let mut places = bundle::decode(&bytes, usize::from(found.width))
        .map_err(|source| MirrorError::Bundle { path: path.clone(), source })?;
    places.truncate(leaves.len());
    for (index, leaf) in (found.index * u64::from(TILE_WIDTH)..).zip(leaves) {
        let place = places.get((index % u64::from(TILE_WIDTH)) as usize).cloned();
        if place.map(|place| leaf_hash(&bytes[place])) != Some(*leaf) {
            return Err(MirrorError::Entry { index, path });
        }
    }
    let end = places.last().map_or(0, |place| place.end);
    let mut bytes = bytes;
    bytes.truncate(end);
    Ok(Came { bytes, places })
}
