//! What a writer must believe before it goes on: that the folder is exactly what its checkpoint and WAL say.

use super::checkpoint::Checkpoint;
use super::store::{Folder, StoreError};
use super::tile::{self, Edge, TILE_WIDTH};
use super::tree::leaf_hash;
use super::wal::WalContent;
use fleet_config::domain::Sha256;
use std::collections::BTreeMap;

/// Why a folder is refused. None of these is repaired: each means that the disk or somebody changed history.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the tiles have the root {found}, the checkpoint of {size} entries says {signed}")]
    Root { size: u64, found: Sha256, signed: Sha256 },
    #[error("entry {index} in the bundles is not the one in the tiles")]
    BundleEntry { index: u64 },
    #[error("entry {index} in the WAL is not the one in the bundles")]
    WalEntry { index: u64 },
    #[error("the WAL starts at entry {first}, but the checkpoint covers {size} entries only")]
    Gap { first: u64, size: u64 },
    #[error("the WAL ends at entry {end}, before the {size} entries of the checkpoint")]
    Behind { end: u64, size: u64 },
}

/// What a writer needs in memory to continue.
#[derive(Debug)]
pub(crate) struct RightEdge {
    pub(crate) edge: Edge,
    /// Bytes of the last bundle as far as it is filled.
    pub(crate) bundle: Vec<u8>,
}

/// Reads the right edge of the tree back and checks that it leads to the signed root, and that the last bundle holds
/// the entries that the tiles were made from.
pub(crate) fn read_right_edge(folder: &Folder, checkpoint: &Checkpoint) -> Result<RightEdge, RecoveryError> {
    let size = checkpoint.size;
    let mut levels = Vec::new();
    for level in tile::levels(size) {
        let (index, width) = tile::place(tile::level_size(level, size));
        levels.push(if width == 0 { Vec::new() } else { folder.read_tile(level, index, width as u16)? });
    }
    let edge =
        Edge::from_partials(size, levels).expect("invariant: tiles were read with the widths of this size");
    let found = edge.root();
    if found != checkpoint.root {
        return Err(RecoveryError::Root { size, found, signed: checkpoint.root });
    }
    let (index, width) = tile::place(size);
    if width == 0 {
        return Ok(RightEdge { edge, bundle: Vec::new() });
    }
    let mut bundle = folder.read_bundle(index, width as u16)?;
    for (position, leaf) in edge.level(0).iter().enumerate() {
        if bundle.entry(position).map(leaf_hash) != Some(*leaf) {
            let index = index * u64::from(TILE_WIDTH) + position as u64;
            return Err(RecoveryError::BundleEntry { index });
        }
    }
    let end = bundle.entries.last().map_or(0, |place| place.end);
    bundle.bytes.truncate(end);
    Ok(RightEdge { edge, bundle: bundle.bytes })
}

/// Checks the WAL against the checkpointed part and gives the entries beyond it.
///
/// The WAL may overlap the checkpoint, when a crash came between the checkpoint and the trimming of the WAL; then
/// both must hold the same entries. It may not leave a gap, and it may not end before the checkpoint: every
/// checkpoint is made from entries that were durable here first.
pub(super) fn entries_beyond(
    folder: &Folder,
    checkpoint: &Checkpoint,
    wal: &WalContent,
) -> Result<Vec<Vec<u8>>, RecoveryError> {
    let Some((first, end)) = wal.range() else { return Ok(Vec::new()) };
    let size = checkpoint.size;
    if first > size {
        return Err(RecoveryError::Gap { first, size });
    }
    if end < size {
        return Err(RecoveryError::Behind { end, size });
    }
    let mut bundles = BTreeMap::new();
    let mut beyond = Vec::new();
    for (sequence, entry) in wal.entries() {
        if sequence >= size {
            beyond.push(entry.to_vec());
            continue;
        }
        let (index, position) = tile::place(sequence);
        let width = bundle_width(index, size);
        let bundle = match bundles.entry(index) {
            std::collections::btree_map::Entry::Occupied(read) => read.into_mut(),
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(folder.read_bundle(index, width)?)
            }
        };
        if bundle.entry(position) != Some(entry) {
            return Err(RecoveryError::WalEntry { index: sequence });
        }
    }
    Ok(beyond)
}

/// How many entries bundle `index` has in a log of `size` entries.
pub(super) fn bundle_width(index: u64, size: u64) -> u16 {
    let start = index * u64::from(TILE_WIDTH);
    u16::try_from(size.saturating_sub(start)).unwrap_or(TILE_WIDTH).min(TILE_WIDTH)
}
