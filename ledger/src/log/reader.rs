//! Reading a log while its writer may run: the verified checkpoint, entries, proofs.

use super::checkpoint::Checkpoint;
use super::note::VerifierKey;
use super::proof::{self, MakeError, ProofError, Subtree};
use super::proof_file::ProofFile;
use super::recovery::bundle_width;
use super::store::{Bundle, Folder, StoreError};
use super::tile::{self, TILE_WIDTH};
use super::tree::{Frontier, leaf_hash, root_of};
use super::wal::{WalContent, WalError};
use fleet_config::domain::{LeafIndex, Sha256};
use std::ops::Range;
use std::path::Path;

/// Tree levels in one level of tiles.
const TILE_HEIGHT: u32 = 8;

/// Why something cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Wal(#[from] WalError),
    #[error("the WAL starts at entry {first}, but the checkpoint covers {size} entries only")]
    Gap { first: u64, size: u64 },
    #[error("entry {index} does not match its hash in the tiles; run `muster ledger verify`")]
    Entry { index: u64 },
    #[error("entry {index} is not in the log of {size} entries")]
    OutOfRange { index: u64, size: u64 },
    #[error(
        "a proof for {size} entries needs a checkpoint of at least that size, the newest has {checkpoint}"
    )]
    NotIntegrated { size: u64, checkpoint: u64 },
    #[error("the tiles give a proof that does not hold: {0}; run `muster ledger verify`")]
    Proof(#[from] ProofError),
}

impl From<MakeError<StoreError>> for ReadError {
    fn from(error: MakeError<StoreError>) -> Self {
        match error {
            MakeError::Proof(error) => Self::Proof(error),
            MakeError::Source(error) => Self::Store(error),
        }
    }
}

/// A log as it stood when it was opened. Takes no lock and changes nothing.
#[derive(Debug)]
pub struct LogReader {
    folder: Folder,
    checkpoint: Checkpoint,
    note: String,
    /// Entries beyond the checkpoint. Those of a batch whose sync is under way may be among them.
    tail: Vec<Vec<u8>>,
}

impl LogReader {
    /// Opens the log in `folder`, believing the checkpoint only if `verifier` signed it. A folder of published files
    /// alone (a mirror, a copy) is one too: it has no WAL, and ends where its checkpoint ends.
    pub fn open(folder: &Path, verifier: &VerifierKey) -> Result<Self, ReadError> {
        let folder = Folder::at(folder);
        if folder.is_published_alone() {
            let (note, checkpoint) = folder.read_checkpoint(verifier)?;
            return Ok(Self { folder, checkpoint, note, tail: Vec::new() });
        }
        folder.check_version()?;
        // First the WAL, then the checkpoint: a running writer drops from the WAL only what a checkpoint covers
        // already, so in this order no entry falls between the two.
        let wal = WalContent::read(&folder.wal_path())?;
        let (note, checkpoint) = folder.read_checkpoint(verifier)?;
        let size = checkpoint.size;
        if let Some((first, _)) = wal.range()
            && first > size
        {
            return Err(ReadError::Gap { first, size });
        }
        let beyond = wal.entries().filter(|(sequence, _)| *sequence >= size);
        let tail = beyond.map(|(_, entry)| entry.to_vec()).collect();
        Ok(Self { folder, checkpoint, note, tail })
    }

    /// The signed checkpoint.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The signed checkpoint as its note.
    pub fn checkpoint_note(&self) -> &str {
        &self.note
    }

    /// Number of committed entries, those of the WAL included.
    pub fn size(&self) -> u64 {
        self.checkpoint.size + self.tail.len() as u64
    }

    /// Number of entries that the checkpoint covers.
    pub fn integrated_size(&self) -> u64 {
        self.checkpoint.size
    }

    /// One entry.
    pub fn entry(&self, index: LeafIndex) -> Result<Vec<u8>, ReadError> {
        let out_of_range = ReadError::OutOfRange { index: index.0, size: self.size() };
        let end = index.0.checked_add(1).unwrap_or(index.0);
        match self.entries(index.0..end).next() {
            Some(entry) => Ok(entry?.1),
            None => Err(out_of_range),
        }
    }

    /// The entries of a range in order, bundle by bundle, each checked against its leaf hash in the tiles. A range
    /// that reaches behind the end is cut.
    pub fn entries(&self, range: Range<u64>) -> Entries<'_> {
        Entries { reader: self, next: range.start, end: range.end.min(self.size()), bundle: None }
    }

    /// Proof that entry `index` is in the tree of `size` entries, and the root of that tree. Checked before it is
    /// given out; for another size than the checkpoint's, also its consistency with the signed root.
    pub fn inclusion(&self, index: LeafIndex, size: u64) -> Result<(Vec<Sha256>, Sha256), ReadError> {
        let root = self.root_at(size)?;
        let path = proof::inclusion(index.0, size, |subtree| self.subtree(subtree))?;
        let leaf = self.subtree(Subtree { level: 0, index: index.0 })?;
        proof::check_inclusion(leaf, index.0, size, &path, root)?;
        Ok((path, root))
    }

    /// The proof file of one entry under the signed checkpoint, with the entry in it, checked.
    pub fn prove(&self, index: LeafIndex) -> Result<ProofFile, ReadError> {
        let size = self.checkpoint.size;
        if index.0 >= size {
            return Err(match index.0 < self.size() {
                true => ReadError::NotIntegrated { size: index.0 + 1, checkpoint: size },
                false => ReadError::OutOfRange { index: index.0, size: self.size() },
            });
        }
        let entry = self.entry(index)?;
        let (path, _) = self.inclusion(index, size)?;
        Ok(ProofFile { extra: Some(entry), index: index.0, path, checkpoint: self.note.clone() })
    }

    /// Proof that the tree of `old` entries is the beginning of the tree of `new` entries, checked.
    pub fn consistency(&self, old: u64, new: u64) -> Result<Vec<Sha256>, ReadError> {
        let (old_root, new_root) = (self.root_at(old)?, self.root_at(new)?);
        let path = proof::consistency(old, new, |subtree| self.subtree(subtree))?;
        proof::check_consistency(old, old_root, new, new_root, &path)?;
        Ok(path)
    }

    /// The root that the log had at an earlier size, shown to be consistent with the signed one.
    pub fn root_at(&self, size: u64) -> Result<Sha256, ReadError> {
        let Checkpoint { size: newest, root, .. } = self.checkpoint;
        if size > newest {
            return Err(ReadError::NotIntegrated { size, checkpoint: newest });
        }
        if size == newest {
            return Ok(root);
        }
        let subtrees =
            proof::parts(size).map(|part| self.subtree(part)).collect::<Result<Vec<_>, StoreError>>()?;
        let old_root = super::tree::join(subtrees.iter()).unwrap_or_else(super::tree::empty_root);
        let path = proof::consistency(size, newest, |subtree| self.subtree(subtree))?;
        proof::check_consistency(size, old_root, newest, root, &path)?;
        Ok(old_root)
    }

    /// The root over the first `size` committed entries. Up to the checkpoint it is shown to be consistent with the signed
    /// root; beyond, it is computed from entries that no checkpoint covers yet.
    pub fn head_at(&self, size: u64) -> Result<Sha256, ReadError> {
        let integrated = self.checkpoint.size;
        let Some(beyond) = size.checked_sub(integrated).filter(|beyond| *beyond > 0) else {
            return self.root_at(size);
        };
        let tail = self.tail.get(..beyond as usize);
        let tail = tail.ok_or(ReadError::OutOfRange { index: size, size: self.size() })?;
        let subtrees = proof::parts(integrated)
            .map(|part| self.subtree(part))
            .collect::<Result<Vec<_>, StoreError>>()?;
        let mut frontier = Frontier::from_subtrees(integrated, subtrees).unwrap_or_default();
        tail.iter().for_each(|entry| frontier.push(leaf_hash(entry)));
        Ok(frontier.root())
    }

    fn subtree(&self, subtree: Subtree) -> Result<Sha256, StoreError> {
        let level = (subtree.level / TILE_HEIGHT) as u8;
        let height = subtree.level % TILE_HEIGHT;
        let (tile, start) = tile::place(subtree.index << height);
        let hashes = self.tile(level, tile)?;
        let end = start + (1 << height);
        match hashes.get(start..end) {
            Some(hashes) => Ok(root_of(hashes)),
            None => {
                Err(StoreError::TileLength { path: format!("tile/{level} number {tile}"), width: end as u16 })
            }
        }
    }

    /// A tile as wide as it is in the checkpoint's tree.
    fn tile(&self, level: u8, index: u64) -> Result<Vec<Sha256>, StoreError> {
        let width = bundle_width(index, tile::level_size(level, self.checkpoint.size));
        self.folder.read_tile(level, index, width)
    }

    fn bundle(&self, index: u64) -> Result<Bundle, ReadError> {
        let width = bundle_width(index, self.checkpoint.size);
        let bundle = self.folder.read_bundle(index, width)?;
        let leaves = self.tile(0, index)?;
        for (position, leaf) in leaves.iter().enumerate() {
            if bundle.entry(position).map(leaf_hash) != Some(*leaf) {
                return Err(ReadError::Entry { index: index * u64::from(TILE_WIDTH) + position as u64 });
            }
        }
        Ok(bundle)
    }
}

/// Streams entries; holds one bundle at a time. Ends after the first error.
#[derive(Debug)]
pub struct Entries<'a> {
    reader: &'a LogReader,
    next: u64,
    end: u64,
    bundle: Option<(u64, Bundle)>,
}

impl Entries<'_> {
    fn read(&mut self, index: u64) -> Result<Vec<u8>, ReadError> {
        let integrated = self.reader.checkpoint.size;
        if let Some(place) = index.checked_sub(integrated) {
            return Ok(self.reader.tail[place as usize].clone());
        }
        let (number, position) = tile::place(index);
        let bundle = match self.bundle.take() {
            Some((held, bundle)) if held == number => bundle,
            Some(_) | None => self.reader.bundle(number)?,
        };
        let entry = bundle.entry(position).map(<[u8]>::to_vec);
        self.bundle = Some((number, bundle));
        entry.ok_or(ReadError::Entry { index })
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<(LeafIndex, Vec<u8>), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let index = self.next;
        self.next += 1;
        match self.read(index) {
            Ok(entry) => Some(Ok((LeafIndex(index), entry))),
            Err(error) => {
                self.end = self.next;
                Some(Err(error))
            }
        }
    }
}
