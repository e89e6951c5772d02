//! Verification of the log's bytes: the tree is rebuilt from the entries and every file is compared with it.
//!
//! One damaged file must be named, not everything that follows from it. So where a bundle and its level-0 tile
//! disagree, the hash above them decides which of the two to believe: the level-1 tile, or at the right edge the
//! signed root.

use super::finding::{Fault, Finding};
use super::listing::Listing;
use crate::log::bundle;
use crate::log::checkpoint::Checkpoint;
use crate::log::frame::Tail;
use crate::log::note::VerifierKey;
use crate::log::store::Folder;
use crate::log::tile::{self, Edge, HASH_BYTES, TILE_WIDTH, TileCoordinate, TileKind};
use crate::log::tree::{leaf_hash, root_of};
use crate::log::wal::WalContent;
use fleet_config::domain::{LeafIndex, Sha256};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

const CHECKPOINT: &str = "checkpoint";
const WAL: &str = ".state/wal";
const VERSION: &str = ".state/version";
/// Bounds the report on a folder that is no ledger at all.
const FINDINGS_MAX: usize = 10_000;

/// What verification saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogReport {
    /// The checkpoint, if the verifier key signed it.
    pub checkpoint: Option<Checkpoint>,
    /// Entries that were read, those of the WAL included.
    pub size: u64,
    /// Bundles and tiles that were compared.
    pub files: u64,
    /// Empty if all is well.
    pub findings: Vec<Finding>,
}

/// Checks the log in `folder` against `verifier` alone: the checkpoint's signature, the root rebuilt from the entries,
/// every tile and bundle (superseded partial ones too), the WAL. All findings are collected. `on_entry` gets every
/// entry that the signed tree or the WAL vouches for, in order. A writer may run meanwhile.
pub fn verify_log(
    folder: &Path,
    verifier: &VerifierKey,
    on_entry: &mut dyn FnMut(LeafIndex, &[u8]),
) -> LogReport {
    let folder = Folder::at(folder);
    let mut findings = Vec::new();
    // A copy of the published files has neither version nor WAL, and claims nothing beyond its checkpoint.
    let has_state = !folder.is_published_alone();
    if has_state && let Err(error) = folder.check_version() {
        findings.push(Finding::file(VERSION, Fault::Version { cause: error.to_string() }));
    }
    // WAL, then checkpoint, then listing: a running writer only adds to what the earlier ones account for.
    let read = has_state.then(|| WalContent::read(&folder.wal_path())).transpose();
    let wal = match read {
        Ok(wal) => wal,
        Err(error) => {
            findings.push(Finding::of_wal(WAL, &error));
            None
        }
    };
    let checkpoint = match folder.read_checkpoint(verifier) {
        Ok((_, checkpoint)) => Some(checkpoint),
        Err(error) => {
            findings.push(Finding::of_checkpoint(CHECKPOINT, &error));
            None
        }
    };
    let listing = Listing::read(folder.root(), &mut findings);
    let size = checkpoint.as_ref().map_or_else(|| listing.entries_at_most(), |checkpoint| checkpoint.size);
    let mut pass = Pass {
        folder,
        size,
        root: checkpoint.as_ref().map(|checkpoint| checkpoint.root),
        listing,
        findings,
        edge: Edge::default(),
        foundation: Foundation::Whole,
        files: 0,
        on_entry,
    };
    pass.bundles(wal.as_ref());
    pass.check_root();
    if let Some(wal) = &wal {
        pass.wal_tail(wal);
    }
    pass.right_edge();
    pass.leftovers(verifier, wal.as_ref());
    let (size, files, mut findings) = (pass.edge.size(), pass.files, pass.findings);
    if findings.len() > FINDINGS_MAX {
        findings.truncate(FINDINGS_MAX);
        findings.push(Finding::file("", Fault::TooMany { limit: FINDINGS_MAX }));
    }
    LogReport { checkpoint, size, files, findings }
}

/// Whether every leaf hash so far is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Foundation {
    Whole,
    /// Neither a bundle nor its tile could be read: hashes above it cannot be computed and are not judged.
    Gap,
}

struct Pass<'a> {
    folder: Folder,
    /// Entries that the checkpoint covers.
    size: u64,
    root: Option<Sha256>,
    listing: Listing,
    findings: Vec<Finding>,
    edge: Edge,
    foundation: Foundation,
    files: u64,
    on_entry: &'a mut dyn FnMut(LeafIndex, &[u8]),
}

/// A bundle as found: what its framing lets through, and the hashes of it.
struct BundleContent {
    coordinate: TileCoordinate,
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
    leaves: Vec<Sha256>,
}

impl Pass<'_> {
    fn bundles(&mut self, wal: Option<&WalContent>) {
        let overlap = wal.map(|wal| overlap(wal, self.size)).unwrap_or_default();
        let mut number = 0;
        while number * u64::from(TILE_WIDTH) < self.size && self.findings.len() <= FINDINGS_MAX {
            let width = width_at(number, self.size);
            let content = self.read_bundle(TileCoordinate { kind: TileKind::Entries, index: number, width });
            let accepted = self.accept(number, width, content.as_ref());
            let start = number * u64::from(TILE_WIDTH);
            if let Some(content) = &content {
                self.hand_out(start, content, &accepted);
            }
            for (index, leaf) in (start..).zip(&accepted) {
                if let Some((offset, in_wal)) = overlap.get(&index)
                    && in_wal != leaf
                {
                    self.findings.push(Finding::at(WAL, *offset, Fault::Entry { index }));
                }
                self.push(*leaf);
            }
            number += 1;
        }
    }

    fn read_bundle(&mut self, wanted: TileCoordinate) -> Option<BundleContent> {
        let (coordinate, bytes) = match self.folder.read_at_least(wanted) {
            Ok(found) => found,
            Err(error) => {
                self.findings.push(Finding::of_tile(&wanted, &error));
                return None;
            }
        };
        let (mut places, error) = bundle::split(&bytes, usize::from(coordinate.width));
        if let Some(error) = error {
            self.findings.push(Finding::at(coordinate.to_string(), error.offset(), error.into()));
        }
        places.truncate(usize::from(wanted.width));
        let leaves = places.iter().map(|place| leaf_hash(&bytes[place.clone()])).collect();
        Some(BundleContent { coordinate, bytes, places, leaves })
    }

    /// The leaf hashes of one bundle that are to be believed.
    fn accept(&mut self, number: u64, width: u16, content: Option<&BundleContent>) -> Vec<Sha256> {
        let bundle =
            content.map(|content| &content.leaves).filter(|leaves| leaves.len() == usize::from(width));
        let tile = self.folder.read_tile(0, number, width).ok();
        match (bundle, tile) {
            (Some(bundle), Some(tile)) if *bundle != tile && self.is_signed(number, &tile) => tile,
            (Some(bundle), _) => bundle.clone(),
            (None, Some(tile)) => tile,
            (None, None) => {
                self.foundation = Foundation::Gap;
                vec![Sha256([0; HASH_BYTES]); usize::from(width)]
            }
        }
    }

    /// Whether what stands above a level-0 tile vouches for these hashes.
    fn is_signed(&self, number: u64, leaves: &[Sha256]) -> bool {
        if leaves.len() < usize::from(TILE_WIDTH) {
            let mut edge = self.edge.clone();
            leaves.iter().for_each(|leaf| edge.push(*leaf, |_| ()));
            return Some(edge.root()) == self.root;
        }
        let (index, position) = tile::place(number);
        let above = self.folder.read_tile(1, index, width_at(index, tile::level_size(1, self.size)));
        above.is_ok_and(|hashes| hashes.get(position) == Some(&root_of(leaves)))
    }

    /// Hands out the entries that match what is believed and reports the others.
    fn hand_out(&mut self, start: u64, content: &BundleContent, accepted: &[Sha256]) {
        let found = content.places.iter().zip(&content.leaves).zip(accepted);
        for (index, ((place, leaf), accepted)) in (start..).zip(found) {
            if leaf == accepted {
                (self.on_entry)(LeafIndex(index), &content.bytes[place.clone()]);
            } else {
                let fault = Fault::Entry { index };
                self.findings.push(Finding::at(content.coordinate.to_string(), place.start as u64, fault));
            }
        }
    }

    fn push(&mut self, leaf: Sha256) {
        let mut full = Vec::new();
        self.edge.push(leaf, |tile| full.push(tile));
        for tile in full {
            self.check_tile(tile.coordinate, &tile.hashes);
        }
    }

    fn check_root(&mut self) {
        let found = self.edge.root();
        if let Some(signed) = self.root
            && self.foundation == Foundation::Whole
            && signed != found
        {
            let fault = Fault::Root { size: self.size, signed, found };
            self.findings.push(Finding::file(CHECKPOINT, fault));
        }
    }

    /// Entries that are committed and not yet under the checkpoint.
    fn wal_tail(&mut self, wal: &WalContent) {
        let Some((first, end)) = wal.range() else { return };
        if first > self.size || end < self.size {
            // Without a signed checkpoint the size is a guess, and no reproach to the WAL.
            if self.root.is_some() {
                self.findings.push(Finding::file(WAL, Fault::WalRange { first, end, size: self.size }));
            }
            return;
        }
        let covered = self.size;
        for (sequence, entry) in wal.entries().filter(|(sequence, _)| *sequence >= covered) {
            (self.on_entry)(LeafIndex(sequence), entry);
            self.push(leaf_hash(entry));
        }
    }

    fn right_edge(&mut self) {
        let partials: Vec<_> =
            self.edge.partials().map(|(coordinate, hashes)| (coordinate, hashes.to_vec())).collect();
        for (coordinate, hashes) in partials {
            self.check_tile(coordinate, &hashes);
        }
    }

    /// Compares all files of one tile, and at level 0 of its bundle, with the hashes that follow from the entries.
    fn check_tile(&mut self, computed: TileCoordinate, hashes: &[Sha256]) {
        let TileKind::Hashes(level) = computed.kind else { return };
        let required = width_at(computed.index, tile::level_size(level, self.size));
        let present = self.listing.take(computed.kind, computed.index);
        let wanted = TileCoordinate { width: required, ..computed };
        if required > 0 && !present.contains(&required) && !present.contains(&TILE_WIDTH) {
            self.findings.push(Finding::file(wanted.to_string(), Fault::Missing));
        }
        for width in present {
            self.check_hashes(TileCoordinate { width, ..computed }, hashes);
        }
        if level == 0 {
            let bundles = self.listing.take(TileKind::Entries, computed.index);
            // The bundle that the entries were read from is the required one, or the full one in its place.
            let read = if bundles.contains(&required) { required } else { TILE_WIDTH };
            self.files += u64::from(bundles.contains(&read) && required > 0);
            for width in bundles.into_iter().filter(|width| required == 0 || *width != read) {
                let coordinate = TileCoordinate { kind: TileKind::Entries, index: computed.index, width };
                self.check_bundle(coordinate, hashes);
            }
        }
    }

    fn check_hashes(&mut self, coordinate: TileCoordinate, hashes: &[Sha256]) {
        let TileCoordinate { kind, width, .. } = coordinate;
        let Some(bytes) = self.read_listed(coordinate, hashes.len()) else { return };
        let expected = u64::from(width) * HASH_BYTES as u64;
        if bytes.len() as u64 != expected {
            let fault = Fault::Length { found: bytes.len() as u64, expected };
            return self.findings.push(Finding::file(coordinate.to_string(), fault));
        }
        if self.foundation == Foundation::Gap && kind != TileKind::Hashes(0) {
            return;
        }
        let unknown = Sha256([0; HASH_BYTES]);
        for (position, (found, hash)) in bytes.chunks_exact(HASH_BYTES).zip(hashes).enumerate() {
            if let Some(byte) = found.iter().zip(hash.as_bytes()).position(|(a, b)| a != b)
                && *hash != unknown
            {
                let offset = (position * HASH_BYTES + byte) as u64;
                self.findings.push(Finding::at(coordinate.to_string(), offset, Fault::TileHash { position }));
            }
        }
    }

    fn check_bundle(&mut self, coordinate: TileCoordinate, hashes: &[Sha256]) {
        let Some(bytes) = self.read_listed(coordinate, hashes.len()) else { return };
        let (places, error) = bundle::split(&bytes, usize::from(coordinate.width));
        if let Some(error) = error {
            self.findings.push(Finding::at(coordinate.to_string(), error.offset(), error.into()));
        }
        let start = coordinate.index * u64::from(TILE_WIDTH);
        for (index, (place, hash)) in (start..).zip(places.into_iter().zip(hashes)) {
            if leaf_hash(&bytes[place.clone()]) != *hash {
                let fault = Fault::Entry { index };
                self.findings.push(Finding::at(coordinate.to_string(), place.start as u64, fault));
            }
        }
    }

    /// Reads a listed file that should be the beginning of `known` hashes or entries.
    fn read_listed(&mut self, coordinate: TileCoordinate, known: usize) -> Option<Vec<u8>> {
        if usize::from(coordinate.width) > known {
            // Perhaps a running writer went on after the WAL was read; judged with the other leftovers.
            self.listing.put_back(coordinate);
            return None;
        }
        match self.folder.read_at_least(coordinate) {
            Ok((found, bytes)) if found == coordinate => {
                self.files += 1;
                Some(bytes)
            }
            // A running writer has just put the full tile in the place of the partial ones.
            Ok(_) => None,
            Err(error) => {
                self.findings.push(Finding::of_tile(&coordinate, &error));
                None
            }
        }
    }

    /// Judges what a running writer may have changed since: files beyond the known entries, and an unfinished frame.
    fn leftovers(&mut self, verifier: &VerifierKey, wal: Option<&WalContent>) {
        let wal_now = WalContent::read(&self.folder.wal_path()).ok();
        let checkpoint_now = self.folder.read_checkpoint(verifier).ok();
        let in_wal = wal_now.as_ref().and_then(WalContent::range).map_or(0, |(_, end)| end);
        let in_checkpoint = checkpoint_now.map_or(0, |(_, checkpoint)| checkpoint.size);
        let size = in_wal.max(in_checkpoint).max(self.edge.size());
        for coordinate in std::mem::take(&mut self.listing).rest() {
            let held = match coordinate.kind {
                TileKind::Entries => size,
                TileKind::Hashes(level) => tile::level_size(level, size),
            };
            // What a damaged WAL would account for cannot be told; the WAL is reported already.
            if wal.is_some() && width_at(coordinate.index, held) < coordinate.width {
                self.findings.push(Finding::file(coordinate.to_string(), Fault::Beyond { size }));
            }
        }
        if let (Some(before), Some(now)) = (wal, wal_now)
            && let Tail::Torn(torn) = before.scan.tail
            && before.scan.tail == now.scan.tail
        {
            self.findings.push(Finding::at(WAL, torn.offset, Fault::Torn { bytes: torn.bytes }));
        }
    }
}

/// Offset and leaf hash of each WAL frame that the checkpoint covers too.
fn overlap(wal: &WalContent, size: u64) -> BTreeMap<u64, (u64, Sha256)> {
    let covered = wal.scan.frames.iter().filter(|frame| frame.sequence < size);
    covered
        .map(|frame| (frame.sequence, (frame.offset, leaf_hash(&wal.bytes[frame.entry.clone()]))))
        .collect()
}

/// How much of tile or bundle `index` a level of `held` hashes or entries fills.
fn width_at(index: u64, held: u64) -> u16 {
    let before = index.saturating_mul(u64::from(TILE_WIDTH));
    u16::try_from(held.saturating_sub(before)).unwrap_or(TILE_WIDTH).min(TILE_WIDTH)
}
