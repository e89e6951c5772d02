//! Tiles: 256 hashes of one level a file, their coordinates and paths, and the right edge that fills them.
//!
//! c2sp.org/tlog-tiles with height 8. Hash i of tile (L, n) is the root over 256^L leaves that start at leaf
//! (n·256 + i)·256^L; a tile that is not full carries its width in its name and is never hashed upwards.

use super::tree::{Frontier, empty_root, join, root_of};
use fleet_config::domain::Sha256;
use std::fmt;

/// Hashes in a full tile, entries in a full bundle.
pub const TILE_WIDTH: u16 = 256;
/// Levels of eight tree levels each.
const TILE_HEIGHT: u32 = 8;
/// Bytes of one hash.
pub const HASH_BYTES: usize = 32;
/// Largest level that a path may name (tlog-tiles: 0 to 63).
const LEVEL_MAX: u8 = 63;
/// Longest path that is looked at: index groups of a 64-bit number fit easily.
const PATH_BYTES_MAX: usize = 80;

/// What a file below `tile/` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TileKind {
    /// Entries themselves, length-prefixed.
    Entries,
    /// Hashes of this level; level 0 holds leaf hashes.
    Hashes(u8),
}

/// One file below `tile/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TileCoordinate {
    pub kind: TileKind,
    pub index: u64,
    /// 1 to 256; below 256 the tile is partial.
    pub width: u16,
}

impl TileCoordinate {
    /// The full tile at this place.
    pub fn full(kind: TileKind, index: u64) -> Self {
        Self { kind, index, width: TILE_WIDTH }
    }

    /// Whether the tile will not grow any more.
    pub fn is_full(&self) -> bool {
        self.width == TILE_WIDTH
    }

    /// The directory, relative to the ledger folder, that holds the partial forms of this tile.
    pub fn partials_path(&self) -> String {
        format!("{}.p", Self::full(self.kind, self.index))
    }

    /// The coordinate that a path relative to the ledger folder names, if it is spelled the one right way.
    pub fn parse(path: &str) -> Option<Self> {
        if path.len() > PATH_BYTES_MAX {
            return None;
        }
        let rest = path.strip_prefix("tile/")?;
        let (kind, rest) = rest.split_once('/')?;
        let kind = match kind {
            "entries" => TileKind::Entries,
            level => TileKind::Hashes(level.parse().ok().filter(|level| *level <= LEVEL_MAX)?),
        };
        let (place, width) = match rest.split_once(".p/") {
            Some((place, width)) => {
                (place, width.parse().ok().filter(|width| (1..TILE_WIDTH).contains(width))?)
            }
            None => (rest, TILE_WIDTH),
        };
        let mut index = 0_u64;
        for group in place.split('/') {
            let digits = group.strip_prefix('x').unwrap_or(group);
            index = index.checked_mul(1000)?.checked_add(digits.parse().ok()?)?;
        }
        let coordinate = Self { kind, index, width };
        // Printing again refuses every other spelling: signs, missing zeros, misplaced `x`.
        (coordinate.to_string() == path).then_some(coordinate)
    }
}

impl fmt::Display for TileCoordinate {
    /// The path relative to the ledger folder, for example `tile/0/x001/x234/067.p/12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TileKind::Entries => f.write_str("tile/entries")?,
            TileKind::Hashes(level) => write!(f, "tile/{level}")?,
        }
        let mut groups = vec![self.index % 1000];
        let mut rest = self.index / 1000;
        while rest > 0 {
            groups.push(rest % 1000);
            rest /= 1000;
        }
        for (left, group) in groups.iter().enumerate().rev() {
            write!(f, "/{}{group:03}", if left == 0 { "" } else { "x" })?;
        }
        if self.is_full() { Ok(()) } else { write!(f, ".p/{}", self.width) }
    }
}

/// How many hashes level `level` has in a tree of `size` leaves.
pub fn level_size(level: u8, size: u64) -> u64 {
    size.checked_shr(TILE_HEIGHT * u32::from(level)).unwrap_or(0)
}

/// The levels that a tree of `size` leaves has tiles in.
pub fn levels(size: u64) -> impl Iterator<Item = u8> {
    (0..=LEVEL_MAX).take_while(move |level| level_size(*level, size) > 0)
}

/// The last tile that `count` hashes or entries fill in part; none when they end at a tile's end.
pub fn partial(kind: TileKind, count: u64) -> Option<TileCoordinate> {
    let width = (count % u64::from(TILE_WIDTH)) as u16;
    (width > 0).then_some(TileCoordinate { kind, index: count / u64::from(TILE_WIDTH), width })
}

/// Which tile holds hash `position` of a level, and where in it.
pub fn place(position: u64) -> (u64, usize) {
    (position / u64::from(TILE_WIDTH), (position % u64::from(TILE_WIDTH)) as usize)
}

/// The bytes of a tile.
pub fn encode(hashes: &[Sha256]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
}

/// The hashes of a tile, if the bytes are a whole number of them.
pub fn decode(bytes: &[u8]) -> Option<Vec<Sha256>> {
    let (chunks, rest) = bytes.as_chunks::<HASH_BYTES>();
    rest.is_empty().then(|| chunks.iter().map(|chunk| Sha256(*chunk)).collect())
}

/// A tile that has become full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullTile {
    pub coordinate: TileCoordinate,
    pub hashes: Vec<Sha256>,
}

/// The right edge of the tree: for each level the hashes of its last, not yet full tile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edge {
    size: u64,
    levels: Vec<Vec<Sha256>>,
}

impl Edge {
    /// An edge read back from partial tiles, lowest level first. None unless the widths are those of `size`.
    pub fn from_partials(size: u64, levels: Vec<Vec<Sha256>>) -> Option<Self> {
        let widths_fit = levels
            .iter()
            .zip(0_u8..)
            .all(|(hashes, level)| hashes.len() as u64 == level_size(level, size) % u64::from(TILE_WIDTH));
        let complete = levels.len() == self::levels(size).count();
        (widths_fit && complete).then_some(Self { size, levels })
    }

    /// Number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends the hash of one leaf and hands every tile that becomes full to `on_full`, lowest level first.
    pub fn push(&mut self, leaf: Sha256, mut on_full: impl FnMut(FullTile)) {
        self.size += 1;
        let mut hash = leaf;
        for level in 0..=LEVEL_MAX {
            let slot = usize::from(level);
            if self.levels.len() == slot {
                self.levels.push(Vec::new());
            }
            self.levels[slot].push(hash);
            if self.levels[slot].len() < usize::from(TILE_WIDTH) {
                return;
            }
            let hashes = std::mem::take(&mut self.levels[slot]);
            hash = root_of(&hashes);
            let index = level_size(level, self.size) / u64::from(TILE_WIDTH) - 1;
            on_full(FullTile { coordinate: TileCoordinate::full(TileKind::Hashes(level), index), hashes });
        }
    }

    /// The partial tiles of this size with their hashes, lowest level first.
    pub fn partials(&self) -> impl Iterator<Item = (TileCoordinate, &[Sha256])> {
        self.levels.iter().zip(0_u8..).filter_map(|(hashes, level)| {
            let coordinate = partial(TileKind::Hashes(level), level_size(level, self.size))?;
            Some((coordinate, hashes.as_slice()))
        })
    }

    /// The hashes of the last, not yet full tile of `level`.
    pub fn level(&self, level: u8) -> &[Sha256] {
        self.levels.get(usize::from(level)).map_or(&[], Vec::as_slice)
    }

    /// Root of the tree.
    pub fn root(&self) -> Sha256 {
        join(self.subtrees().iter()).unwrap_or_else(empty_root)
    }

    /// The compact range of this edge: within a level the perfect subtrees stand in order, higher levels stand to
    /// the left.
    pub fn frontier(&self) -> Frontier {
        Frontier::from_subtrees(self.size, self.subtrees())
            .expect("invariant: the widths of the levels are the digits of the size, base 256")
    }

    fn subtrees(&self) -> Vec<Sha256> {
        let mut subtrees = Vec::new();
        for hashes in self.levels.iter().rev() {
            let mut frontier = Frontier::default();
            hashes.iter().for_each(|hash| frontier.push(*hash));
            subtrees.extend_from_slice(frontier.subtrees());
        }
        subtrees
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tree::leaf_hash;
    use proptest::prelude::*;

    #[test]
    fn paths_are_spelled_as_tlog_tiles_says() {
        let at = |kind, index, width| TileCoordinate { kind, index, width }.to_string();
        assert_eq!(at(TileKind::Hashes(0), 1_234_067, 256), "tile/0/x001/x234/067");
        assert_eq!(at(TileKind::Hashes(3), 5, 256), "tile/3/005");
        assert_eq!(at(TileKind::Hashes(1), 1, 17), "tile/1/001.p/17");
        assert_eq!(at(TileKind::Entries, 273, 112), "tile/entries/273.p/112");
        assert_eq!(at(TileKind::Entries, 1000, 256), "tile/entries/x001/000");
    }

    #[test]
    fn other_spellings_are_refused() {
        let wrong = [
            "tile/0/5",
            "tile/0/+05",
            "tile/00/005",
            "tile/64/005",
            "tile/0/x005",
            "tile/0/x000/005",
            "tile/0/001/067",
            "tile/0/005.p/0",
            "tile/0/005.p/256",
            "tile/0/005.p/007",
            "tile/0/005.p",
            "tile/entries",
            "tile/data/005",
            "tile/0/x018/x446/x744/x073/x709/x551/616",
            "0/005",
            "",
        ];
        for path in wrong {
            assert_eq!(TileCoordinate::parse(path), None, "{path}");
        }
    }

    #[test]
    fn the_tiles_of_seventy_thousand_leaves_are_those_of_the_specification() {
        let mut full = [0_u64; 3];
        let mut edge = Edge::default();
        for index in 0..70_000_u32 {
            edge.push(leaf_hash(&index.to_be_bytes()), |tile| match tile.coordinate.kind {
                TileKind::Hashes(level) => {
                    assert_eq!(tile.coordinate.index, full[usize::from(level)]);
                    full[usize::from(level)] += 1;
                }
                TileKind::Entries => panic!("the edge fills hash tiles alone"),
            });
        }
        assert_eq!(full, [273, 1, 0]);
        let partials: Vec<_> = edge.partials().map(|(coordinate, _)| coordinate.to_string()).collect();
        assert_eq!(partials, ["tile/0/273.p/112", "tile/1/001.p/17", "tile/2/000.p/1"]);
    }

    #[test]
    fn the_edge_has_the_root_of_the_compact_range_at_every_size() {
        let (mut edge, mut frontier) = (Edge::default(), Frontier::default());
        assert_eq!(edge.root(), frontier.root());
        for index in 0..1100_u32 {
            let leaf = leaf_hash(&index.to_be_bytes());
            edge.push(leaf, |_| ());
            frontier.push(leaf);
            assert_eq!(edge.root(), frontier.root(), "size {}", index + 1);
            let levels = levels(edge.size()).map(|level| edge.level(level).to_vec()).collect();
            assert_eq!(Edge::from_partials(edge.size(), levels), Some(edge.clone()));
        }
        assert_eq!(Edge::from_partials(1100, vec![Vec::new()]), None);
    }

    #[test]
    fn tiles_decode_only_from_whole_hashes() {
        let hashes = [leaf_hash(b"a"), leaf_hash(b"b")];
        assert_eq!(decode(&encode(&hashes)).unwrap(), hashes);
        assert_eq!(decode(&encode(&hashes)[1..]), None);
    }

    proptest! {
        #[test]
        fn a_path_parses_to_what_printed_it(
            index in any::<u64>(), width in 1_u16..=256, level in 0_u8..=63, entries in any::<bool>()
        ) {
            let kind = if entries { TileKind::Entries } else { TileKind::Hashes(level) };
            let coordinate = TileCoordinate { kind, index, width };
            prop_assert_eq!(TileCoordinate::parse(&coordinate.to_string()), Some(coordinate));
        }

        #[test]
        fn no_text_panics_the_parser(path in "tile/[0-9a-z/.+x]{0,40}") {
            if let Some(coordinate) = TileCoordinate::parse(&path) {
                prop_assert_eq!(coordinate.to_string(), path);
            }
        }
    }
}
