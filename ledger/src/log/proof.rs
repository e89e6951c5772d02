//! Inclusion and consistency proofs: made from subtree hashes, checked against roots alone.
//!
//! Made by RFC 6962 §2.1.1 and §2.1.2, checked by RFC 9162 §2.1.3.2 and §2.1.4.2.

use super::tree::{join, node_hash};
use fleet_config::domain::Sha256;

/// A perfect subtree: leaves `index << level` up to `(index + 1) << level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subtree {
    pub level: u32,
    pub index: u64,
}

/// The perfect subtrees that a tree of `size` leaves is made of, largest first; joined they give its root.
pub fn parts(size: u64) -> impl Iterator<Item = Subtree> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let level = (size - at).checked_ilog2()?;
        let subtree = Subtree { level, index: at >> level };
        at += 1 << level;
        Some(subtree)
    })
}

/// Why a proof does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    #[error("leaf {index} is not in a tree of {size} entries")]
    OutOfRange { index: u64, size: u64 },
    #[error("a tree of {new} entries cannot extend one of {old}")]
    Shrinks { old: u64, new: u64 },
    #[error("the proof has the wrong length for these tree sizes")]
    Length,
    #[error("the proof leads to another root")]
    Root,
}

/// Why a proof could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError<E> {
    #[error(transparent)]
    Proof(#[from] ProofError),
    #[error("cannot find the hash of a subtree: {0}")]
    Source(E),
}

/// The hashes from the sibling of leaf `index` up to the root of the tree of `size` leaves.
pub fn inclusion<E>(
    index: u64,
    size: u64,
    mut source: impl FnMut(Subtree) -> Result<Sha256, E>,
) -> Result<Vec<Sha256>, MakeError<E>> {
    if index >= size {
        return Err(ProofError::OutOfRange { index, size }.into());
    }
    let mut path = Vec::new();
    let (mut start, mut end) = (0, size);
    while end - start > 1 {
        let middle = start + split(end - start);
        let sibling = if index < middle { (middle, end) } else { (start, middle) };
        path.push(range_hash(sibling.0, sibling.1, &mut source).map_err(MakeError::Source)?);
        (start, end) = if index < middle { (start, middle) } else { (middle, end) };
    }
    path.reverse();
    Ok(path)
}

/// The hashes that show the tree of `old` leaves to be the beginning of the tree of `new` leaves.
pub fn consistency<E>(
    old: u64,
    new: u64,
    mut source: impl FnMut(Subtree) -> Result<Sha256, E>,
) -> Result<Vec<Sha256>, MakeError<E>> {
    if old > new {
        return Err(ProofError::Shrinks { old, new }.into());
    }
    // Nothing is consistent with everything, and every tree with itself: both need no proof.
    if old == 0 || old == new {
        return Ok(Vec::new());
    }
    let mut path = Vec::new();
    let (mut start, mut end) = (0, new);
    while old != end {
        let middle = start + split(end - start);
        let sibling = if old <= middle { (middle, end) } else { (start, middle) };
        path.push(range_hash(sibling.0, sibling.1, &mut source).map_err(MakeError::Source)?);
        (start, end) = if old <= middle { (start, middle) } else { (middle, end) };
    }
    // When the old tree is itself a subtree that starts at leaf 0, the checker knows its root already.
    if start > 0 {
        path.push(range_hash(start, end, &mut source).map_err(MakeError::Source)?);
    }
    path.reverse();
    Ok(path)
}

/// Checks that `leaf` is entry `index` of the tree of `size` entries with this `root`.
pub fn check_inclusion(
    leaf: Sha256,
    index: u64,
    size: u64,
    proof: &[Sha256],
    root: Sha256,
) -> Result<(), ProofError> {
    if index >= size {
        return Err(ProofError::OutOfRange { index, size });
    }
    let (mut node, mut last, mut hash) = (index, size - 1, leaf);
    for sibling in proof {
        if last == 0 {
            return Err(ProofError::Length);
        }
        if node & 1 == 1 || node == last {
            hash = node_hash(sibling, &hash);
            (node, last) = skip_missing_siblings(node, last);
        } else {
            hash = node_hash(&hash, sibling);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    match (last, hash == root) {
        (0, true) => Ok(()),
        (0, false) => Err(ProofError::Root),
        (1.., _) => Err(ProofError::Length),
    }
}

/// Checks that the tree of `new` entries with `new_root` begins with the tree of `old` entries with `old_root`.
pub fn check_consistency(
    old: u64,
    old_root: Sha256,
    new: u64,
    new_root: Sha256,
    proof: &[Sha256],
) -> Result<(), ProofError> {
    if old > new {
        return Err(ProofError::Shrinks { old, new });
    }
    if old == 0 || old == new {
        let same = old == 0 || old_root == new_root;
        return match (proof.is_empty(), same) {
            (true, true) => Ok(()),
            (true, false) => Err(ProofError::Root),
            (false, _) => Err(ProofError::Length),
        };
    }
    let shift = (old - 1).trailing_ones();
    let (mut node, mut last) = ((old - 1) >> shift, (new - 1) >> shift);
    // The proof leaves out the old root where it is itself a subtree of the new tree.
    let (seed, siblings) = if old.is_power_of_two() {
        (old_root, proof)
    } else {
        let (first, rest) = proof.split_first().ok_or(ProofError::Length)?;
        (*first, rest)
    };
    let (mut old_hash, mut new_hash) = (seed, seed);
    for sibling in siblings {
        if last == 0 {
            return Err(ProofError::Length);
        }
        if node & 1 == 1 || node == last {
            old_hash = node_hash(sibling, &old_hash);
            new_hash = node_hash(sibling, &new_hash);
            (node, last) = skip_missing_siblings(node, last);
        } else {
            new_hash = node_hash(&new_hash, sibling);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    match (last, old_hash == old_root && new_hash == new_root) {
        (0, true) => Ok(()),
        (0, false) => Err(ProofError::Root),
        (1.., _) => Err(ProofError::Length),
    }
}

/// On the right edge a node may have no sibling for some levels; the proof has no hash for these.
fn skip_missing_siblings(node: u64, last: u64) -> (u64, u64) {
    let shift = if node == 0 { 0 } else { node.trailing_zeros() };
    (node >> shift, last >> shift)
}

/// Where RFC 6962 splits `count` > 1 leaves: the largest power of two below `count`.
fn split(count: u64) -> u64 {
    1 << (count - 1).ilog2()
}

/// Hash of the leaves [start, end), where `start` is a multiple of a power of two that is at least the length,
/// as it is for every range that a proof asks for.
fn range_hash<E>(
    start: u64,
    end: u64,
    source: &mut impl FnMut(Subtree) -> Result<Sha256, E>,
) -> Result<Sha256, E> {
    let mut subtrees = Vec::new();
    let mut at = start;
    while at < end {
        let level = (end - at).ilog2();
        subtrees.push(source(Subtree { level, index: at >> level })?);
        at += 1 << level;
    }
    Ok(join(subtrees.iter()).expect("invariant: proofs ask for ranges that are not empty"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tree::{Frontier, leaf_hash, root_of};
    use ct_merkle::mem_backed_tree::MemoryBackedTree;
    use proptest::prelude::*;
    use std::convert::Infallible;

    type Oracle = MemoryBackedTree<oracle_sha2::Sha256, [u8; 4]>;

    fn leaves(size: u64) -> Vec<Sha256> {
        (0..size as u32).map(|index| leaf_hash(&index.to_be_bytes())).collect()
    }

    fn oracle(size: u64) -> Oracle {
        let mut tree = Oracle::new();
        (0..size as u32).for_each(|index| tree.push(index.to_be_bytes()));
        tree
    }

    fn source(leaves: &[Sha256]) -> impl FnMut(Subtree) -> Result<Sha256, Infallible> + '_ {
        |subtree| {
            let start = (subtree.index << subtree.level) as usize;
            Ok(root_of(&leaves[start..start + (1 << subtree.level)]))
        }
    }

    fn flat(hashes: &[Sha256]) -> Vec<u8> {
        hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
    }

    #[test]
    fn every_inclusion_proof_of_small_trees_equals_the_oracles_and_holds_for_its_leaf_alone() {
        for size in 1..=40 {
            let (leaves, oracle) = (leaves(size), oracle(size));
            let root = root_of(&leaves);
            for index in 0..size {
                let proof = inclusion(index, size, source(&leaves)).unwrap();
                assert_eq!(flat(&proof), oracle.prove_inclusion(index as usize).as_bytes(), "{index}/{size}");
                let leaf = leaves[index as usize];
                assert_eq!(check_inclusion(leaf, index, size, &proof, root), Ok(()));
                for other in 0..size {
                    if other != index {
                        assert!(check_inclusion(leaf, other, size, &proof, root).is_err());
                    }
                }
            }
        }
    }

    #[test]
    fn every_consistency_proof_of_small_trees_equals_the_oracles() {
        for new in 1..=40 {
            let leaves = leaves(new);
            let new_root = root_of(&leaves);
            for old in 0..=new {
                let proof = consistency(old, new, source(&leaves)).unwrap();
                if old > 0 && old < new {
                    let theirs = oracle(new).prove_consistency((new - old) as usize);
                    assert_eq!(flat(&proof), theirs.as_bytes(), "{old}..{new}");
                }
                let old_root = root_of(&leaves[..old as usize]);
                assert_eq!(check_consistency(old, old_root, new, new_root, &proof), Ok(()), "{old}..{new}");
            }
        }
    }

    /// The eight leaves that RFC 6962's first implementation was tested with; roots and proofs were made by a program of
    /// its own from the definitions in the RFC, and the roots are those that are published.
    #[test]
    fn consistency_proofs_are_the_golden_ones() {
        let path = format!("{}/../tests/vectors/proofs/consistency.json", env!("CARGO_MANIFEST_DIR"));
        let vector: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let hashes = |list: &serde_json::Value| -> Vec<Sha256> {
            list.as_array().unwrap().iter().map(|hash| hash.as_str().unwrap().parse().unwrap()).collect()
        };
        let leaf = |hex: &serde_json::Value| {
            leaf_hash(&data_encoding::HEXLOWER.decode(hex.as_str().unwrap().as_bytes()).unwrap())
        };
        let leaves: Vec<Sha256> = vector["leaves"].as_array().unwrap().iter().map(leaf).collect();
        let roots = hashes(&vector["roots"]);
        for (size, root) in roots.iter().enumerate().skip(1) {
            assert_eq!(root_of(&leaves[..size]), *root, "{size}");
        }
        let proofs = vector["proofs"].as_array().unwrap();
        assert_eq!(proofs.len(), 45);
        for proof in proofs {
            let (old, new) = (proof["old"].as_u64().unwrap(), proof["new"].as_u64().unwrap());
            let made = consistency(old, new, source(&leaves[..new as usize])).unwrap();
            assert_eq!(made, hashes(&proof["hashes"]), "{old}..{new}");
            let (old_root, new_root) = (roots[old as usize], roots[new as usize]);
            assert_eq!(check_consistency(old, old_root, new, new_root, &made), Ok(()), "{old}..{new}");
        }
    }

    #[test]
    fn ranges_that_make_no_sense_are_refused() {
        let leaves = leaves(4);
        let root = root_of(&leaves);
        assert!(inclusion(4, 4, source(&leaves)).is_err());
        assert!(consistency(5, 4, source(&leaves)).is_err());
        assert_eq!(
            check_inclusion(leaves[0], 4, 4, &[], root),
            Err(ProofError::OutOfRange { index: 4, size: 4 })
        );
        assert_eq!(check_consistency(5, root, 4, root, &[]), Err(ProofError::Shrinks { old: 5, new: 4 }));
        assert_eq!(check_consistency(4, root, 4, leaves[0], &[]), Err(ProofError::Root));
        assert_eq!(check_consistency(3, root, 4, root, &[]), Err(ProofError::Length));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn a_changed_cut_or_lengthened_proof_fails(
            size in 2_u64..2000, at in any::<u64>(), bit in 0_usize..256, place in any::<prop::sample::Index>()
        ) {
            let leaves = leaves(size);
            let mut frontier = Frontier::default();
            leaves.iter().for_each(|leaf| frontier.push(*leaf));
            let root = frontier.root();
            let index = at % size;
            let leaf = leaves[index as usize];
            let proof = inclusion(index, size, source(&leaves)).unwrap();
            prop_assert_eq!(check_inclusion(leaf, index, size, &proof, root), Ok(()));

            let mut changed = proof.clone();
            changed[place.index(proof.len())].0[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(check_inclusion(leaf, index, size, &changed, root), Err(ProofError::Root));
            prop_assert!(check_inclusion(leaf, index, size, &proof[1..], root).is_err());
            let longer = [&proof[..], &[root]].concat();
            prop_assert_eq!(check_inclusion(leaf, index, size, &longer, root), Err(ProofError::Length));

            let old = 1 + at % (size - 1);
            let old_root = root_of(&leaves[..old as usize]);
            let proof = consistency(old, size, source(&leaves)).unwrap();
            prop_assert_eq!(check_consistency(old, old_root, size, root, &proof), Ok(()));
            let mut changed = proof.clone();
            changed[place.index(proof.len())].0[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(check_consistency(old, old_root, size, root, &changed).is_err());
            prop_assert!(check_consistency(old, old_root, size, root, &proof[1..]).is_err());
        }
    }
}
