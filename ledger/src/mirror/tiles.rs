//! Tiles of a source at one tree size, as far as they are asked for.

use super::source::{Source, SourceError};
use crate::log::bundle::BUNDLE_BYTES_MAX;
use crate::log::proof::{Subtree, parts};
use crate::log::tile::{self, HASH_BYTES, TILE_WIDTH, TileCoordinate, TileKind};
use crate::log::tree::root_of;
use fleet_config::domain::Sha256;

/// Tree levels in one level of tiles.
const TILE_HEIGHT: u32 = 8;

/// Why a tile is no use.
#[derive(Debug, thiserror::Error)]
pub enum TileError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("`{0}` is missing at the source")]
    Missing(String),
    #[error("`{0}` at the source has the wrong length")]
    Length(String),
}

/// The tiles of a tree of `size` leaves. Their hashes are believed only where a proof or the root confirms them.
pub(super) struct Tiles<'a> {
    pub(super) source: &'a mut dyn Source,
    pub(super) size: u64,
}

impl Tiles<'_> {
    /// How wide a tile or bundle is at this size.
    pub(super) fn width(&self, kind: TileKind, index: u64) -> u16 {
        let held = match kind {
            TileKind::Entries => self.size,
            TileKind::Hashes(level) => tile::level_size(level, self.size),
        };
        let before = index.saturating_mul(u64::from(TILE_WIDTH));
        u16::try_from(held.saturating_sub(before)).unwrap_or(TILE_WIDTH).min(TILE_WIDTH)
    }

    /// The bytes of a tile or bundle that is at least as wide as at this size: a source that goes on writing drops partial
    /// ones once the full one is there.
    pub(super) fn bytes(
        &mut self,
        kind: TileKind,
        index: u64,
    ) -> Result<(TileCoordinate, Vec<u8>), TileError> {
        let bytes_max = match kind {
            TileKind::Entries => BUNDLE_BYTES_MAX,
            TileKind::Hashes(_) => TILE_WIDTH as u64 * HASH_BYTES as u64,
        };
        let wanted = TileCoordinate { kind, index, width: self.width(kind, index) };
        if let Some(bytes) = self.source.fetch(&wanted.to_string(), bytes_max)? {
            return Ok((wanted, bytes));
        }
        let full = TileCoordinate::full(kind, index);
        let found = if wanted.is_full() { None } else { self.source.fetch(&full.to_string(), bytes_max)? };
        found.map(|bytes| (full, bytes)).ok_or_else(|| TileError::Missing(wanted.to_string()))
    }

    /// The hashes of a tile at this size.
    pub(super) fn hashes(&mut self, level: u8, index: u64) -> Result<Vec<Sha256>, TileError> {
        let width = self.width(TileKind::Hashes(level), index);
        let (found, bytes) = self.bytes(TileKind::Hashes(level), index)?;
        let hashes = tile::decode(&bytes).filter(|hashes| hashes.len() == usize::from(found.width));
        let mut hashes = hashes.ok_or_else(|| TileError::Length(found.to_string()))?;
        hashes.truncate(usize::from(width));
        Ok(hashes)
    }

    /// The root of a perfect subtree.
    pub(super) fn subtree(&mut self, subtree: Subtree) -> Result<Sha256, TileError> {
        let level = (subtree.level / TILE_HEIGHT) as u8;
        let height = subtree.level % TILE_HEIGHT;
        let (number, start) = tile::place(subtree.index << height);
        let hashes = self.hashes(level, number)?;
        let within = hashes.get(start..start + (1 << height));
        within.map(root_of).ok_or_else(|| TileError::Length(format!("tile/{level} number {number}")))
    }

    /// The root that the tree had at an earlier size, as these tiles tell it.
    pub(super) fn root_at(&mut self, size: u64) -> Result<Sha256, TileError> {
        let subtrees = parts(size).map(|part| self.subtree(part)).collect::<Result<Vec<_>, TileError>>()?;
        Ok(crate::log::tree::join(subtrees.iter()).unwrap_or_else(crate::log::tree::empty_root))
    }
}
