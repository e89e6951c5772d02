//! Hashing of the Merkle tree: RFC 6962 §2.1 with SHA-256, and the compact range that appends to it.

use fleet_config::domain::Sha256;
use sha2::{Digest as _, Sha256 as Hasher};

/// SHA-256(0x00 ‖ entry). The prefix keeps an entry from passing for an inner node.
pub fn leaf_hash(entry: &[u8]) -> Sha256 {
    let mut hasher = Hasher::new();
    hasher.update([0x00]);
    hasher.update(entry);
    Sha256(hasher.finalize().into())
}

/// SHA-256(0x01 ‖ left ‖ right).
pub fn node_hash(left: &Sha256, right: &Sha256) -> Sha256 {
    let mut hasher = Hasher::new();
    hasher.update([0x01]);
    hasher.update(left.as_bytes());
    hasher.update(right.as_bytes());
    Sha256(hasher.finalize().into())
}

/// Root of the tree without leaves: SHA-256 of nothing.
pub fn empty_root() -> Sha256 {
    Sha256::of(b"")
}

/// Root over the hashes of subtrees of one size. For 2^k of them this is the hash of their common subtree.
pub fn root_of(hashes: &[Sha256]) -> Sha256 {
    let mut frontier = Frontier::default();
    for hash in hashes {
        frontier.push(*hash);
    }
    frontier.root()
}

/// The compact range [0, size): roots of the perfect subtrees along the right edge, largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    /// One root for each set bit of `size`.
    subtrees: Vec<Sha256>,
}

impl Frontier {
    /// Appends the hash of one leaf, merging what becomes perfect.
    pub fn push(&mut self, leaf: Sha256) {
        let mut hash = leaf;
        // Each trailing one of the old size is a perfect subtree of exactly the size reached so far.
        for _ in 0..self.size.trailing_ones() {
            let left = self.subtrees.pop().expect("invariant: one subtree for each set bit of the size");
            hash = node_hash(&left, &hash);
        }
        self.subtrees.push(hash);
        self.size += 1;
    }

    /// The range of `size` leaves with these subtree roots, if there is one for each set bit of `size`.
    pub fn from_subtrees(size: u64, subtrees: Vec<Sha256>) -> Option<Self> {
        (subtrees.len() as u64 == u64::from(size.count_ones())).then_some(Self { size, subtrees })
    }

    /// Number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Root of the tree over all leaves so far.
    pub fn root(&self) -> Sha256 {
        join(self.subtrees.iter()).unwrap_or_else(empty_root)
    }

    /// The roots of the perfect subtrees, largest first.
    pub fn subtrees(&self) -> &[Sha256] {
        &self.subtrees
    }
}

/// Joins the roots of perfect subtrees, largest first, into the root over all of them (RFC 6962 splits at the
/// largest power of two, so the smaller ones on the right are joined first). Nothing joins to nothing.
pub fn join<'a>(subtrees: impl DoubleEndedIterator<Item = &'a Sha256>) -> Option<Sha256> {
    subtrees.rev().copied().reduce(|right, left| node_hash(&left, &right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ct_merkle::mem_backed_tree::MemoryBackedTree;
    use proptest::prelude::*;

    #[test]
    fn the_empty_tree_has_the_hash_of_nothing() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Frontier::default().root().to_string(), empty);
    }

    #[test]
    fn roots_equal_those_of_an_independent_implementation() {
        let mut oracle = MemoryBackedTree::<oracle_sha2::Sha256, Vec<u8>>::new();
        let mut frontier = Frontier::default();
        let mut leaves = Vec::new();
        for index in 0..600_u32 {
            let entry = index.to_be_bytes().repeat(index as usize % 5);
            leaves.push(leaf_hash(&entry));
            frontier.push(leaf_hash(&entry));
            oracle.push(entry);
            assert_eq!(frontier.root().as_bytes()[..], oracle.root().as_bytes()[..], "size {}", index + 1);
            assert_eq!(frontier.subtrees().len() as u32, frontier.size().count_ones());
        }
        assert_eq!(root_of(&leaves), frontier.root());
    }

    proptest! {
        #[test]
        fn any_entries_give_the_root_of_an_independent_implementation(
            entries in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..80)
        ) {
            let mut oracle = MemoryBackedTree::<oracle_sha2::Sha256, Vec<u8>>::new();
            let mut frontier = Frontier::default();
            for entry in &entries {
                frontier.push(leaf_hash(entry));
                oracle.push(entry.clone());
            }
            prop_assert_eq!(frontier.root().as_bytes().to_vec(), oracle.root().as_bytes().to_vec());
        }
    }
}
