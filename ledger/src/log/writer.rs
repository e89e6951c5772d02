//! The single writer of a log: commits batches to the WAL and integrates them into tiles and checkpoints.

use super::bundle::{self, ENTRY_BYTES_MAX};
use super::checkpoint::Checkpoint;
use super::frame::{FRAME_HEADER_BYTES, Tail, TornTail};
use super::note::LogSigner;
use super::recovery::{self, RecoveryError};
use super::store::{Store, StoreError};
use super::tile::{self, Edge, FullTile, TILE_WIDTH, TileCoordinate, TileKind};
use super::tree::{Frontier, empty_root, leaf_hash};
use super::wal::{Wal, WalError};
use crate::disk::DiskError;
use crate::fault::{FaultPoint, reach};
use fleet_config::domain::LeafIndex;
use std::path::Path;

/// Most entries of one batch: bounds the memory of one call and the time until its sync returns.
pub const BATCH_ENTRIES_MAX: usize = 4096;
/// Once this much is committed and not integrated, appending integrates by itself: the WAL stays readable in one
/// piece even if nobody calls [`LogWriter::integrate`].
const PENDING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why a log cannot be opened or created.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Wal(#[from] WalError),
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Why an append or an integration failed.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error(
        "entry {position} of the batch has {bytes} bytes, at most 32768 are allowed; put large content in a blob"
    )]
    EntryTooLarge { position: usize, bytes: usize },
    #[error("the batch has {entries} entries, at most 4096 are allowed")]
    BatchTooLarge { entries: usize },
    #[error("the log's writer stopped: {0}")]
    Failed(#[from] StoreError),
    #[error("the log's writer stopped earlier and must be opened again: {cause}")]
    Stopped { cause: String },
}

/// What opening found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReport {
    /// Entries that the checkpoint covers.
    pub integrated_size: u64,
    /// All committed entries, those of the WAL included.
    pub size: u64,
    /// What a crash left of an unfinished write, now cut off.
    pub torn: Option<TornTail>,
}

/// Whether writing may go on.
#[derive(Debug)]
enum Health {
    Sound,
    /// After a failed sync the kernel may have dropped what it could not write, and a compare that failed means that
    /// history differs from what is in memory. In both cases only opening again tells what is true.
    Stopped {
        cause: String,
    },
}

/// The log as its one writer thread owns it. Blocking; every call may take a few disk syncs.
#[derive(Debug)]
pub struct LogWriter {
    store: Store,
    signer: LogSigner,
    wal: Wal,
    /// What the published checkpoint says, and its note.
    checkpoint: Checkpoint,
    note: String,
    /// The same tree twice, computed in two ways: as tiles and as a compact range. They must agree before anything
    /// is signed.
    edge: Edge,
    frontier: Frontier,
    /// Bytes of the last bundle as far as it is filled.
    bundle: Vec<u8>,
    /// Committed entries that are not integrated.
    pending: Vec<Vec<u8>>,
    pending_bytes: usize,
    health: Health,
}

impl LogWriter {
    /// Makes an empty log in `folder`, which may exist but must not hold one.
    pub fn create(folder: &Path, signer: LogSigner) -> Result<Self, OpenError> {
        let mut store = Store::begin_creation(folder)?;
        Wal::create(&store.folder().wal_path())?;
        let origin = signer.verifier().name().to_owned();
        let checkpoint = Checkpoint { origin, size: 0, root: empty_root() };
        store.put_checkpoint(&checkpoint.sign(&signer))?;
        // We may die anywhere above: without the version file the folder is no ledger and creation starts again.
        store.finish_creation()?;
        Ok(Self::from_store(store, signer)?.0)
    }

    /// Opens the log in `folder`, replaying what the WAL holds beyond the checkpoint.
    pub fn open(folder: &Path, signer: LogSigner) -> Result<(Self, OpenReport), OpenError> {
        Self::from_store(Store::open(folder)?, signer)
    }

    fn from_store(mut store: Store, signer: LogSigner) -> Result<(Self, OpenReport), OpenError> {
        let (note, checkpoint) = store.folder().read_checkpoint(signer.verifier())?;
        let right = recovery::read_right_edge(store.folder(), &checkpoint)?;
        let (wal, content) = Wal::open(&store.folder().wal_path())?;
        let pending = recovery::entries_beyond(store.folder(), &checkpoint, &content)?;
        if let Some((first, _)) = content.range() {
            // We may have died between the checkpoint and the removal of partial tiles. The WAL was not trimmed
            // then, and tells from where that integration started.
            remove_superseded(&mut store, first, checkpoint.size)?;
        }
        let torn = match content.scan.tail {
            Tail::Whole => None,
            Tail::Torn(torn) => Some(torn),
        };
        let size = checkpoint.size + pending.len() as u64;
        let report = OpenReport { integrated_size: checkpoint.size, size, torn };
        let pending_bytes = wal_bytes(&pending);
        let frontier = right.edge.frontier();
        let (edge, bundle, health) = (right.edge, right.bundle, Health::Sound);
        let writer = Self {
            store,
            signer,
            wal,
            checkpoint,
            note,
            edge,
            frontier,
            bundle,
            pending,
            pending_bytes,
            health,
        };
        Ok((writer, report))
    }

    /// Commits a batch: when this returns, the entries are durable and have these indices for ever.
    pub fn append_batch(&mut self, entries: &[Vec<u8>]) -> Result<Vec<LeafIndex>, AppendError> {
        self.check_health()?;
        check_batch(entries)?;
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let first = self.size();
        if let Err(error) = self.wal.append(first, entries) {
            return Err(self.stop(error.into()));
        }
        self.pending_bytes += wal_bytes(entries);
        self.pending.extend_from_slice(entries);
        let indices = (first..self.size()).map(LeafIndex).collect();
        if self.pending_bytes > PENDING_BYTES_MAX {
            self.integrate()?;
        }
        Ok(indices)
    }

    /// Brings everything committed under a new signed checkpoint, which is durable when this returns.
    pub fn integrate(&mut self) -> Result<Checkpoint, AppendError> {
        self.check_health()?;
        if !self.pending.is_empty()
            && let Err(error) = self.integrate_pending()
        {
            return Err(self.stop(error));
        }
        Ok(self.checkpoint.clone())
    }

    /// Number of committed entries.
    pub fn size(&self) -> u64 {
        self.checkpoint.size + self.pending.len() as u64
    }

    /// Number of entries that the published checkpoint covers.
    pub fn integrated_size(&self) -> u64 {
        self.checkpoint.size
    }

    /// The published checkpoint.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The published checkpoint as the signed note.
    pub fn checkpoint_note(&self) -> &str {
        &self.note
    }

    /// The log's key, for promises.
    pub fn signer(&self) -> &LogSigner {
        &self.signer
    }

    fn integrate_pending(&mut self) -> Result<(), StoreError> {
        let old_size = self.checkpoint.size;
        reach(FaultPoint::IntegrateBeforeBundles);
        let entries = std::mem::take(&mut self.pending);
        self.write_bundles(&entries)?;
        // We may die here or at any later point before the checkpoint: the new files are no part of the old tree,
        // and the next integration from the WAL writes the same ones again or others of another width.
        reach(FaultPoint::IntegrateAfterBundles);
        self.write_tiles(&entries, old_size)?;
        reach(FaultPoint::IntegrateAfterTiles);
        self.store.sync()?;
        let root = self.edge.root();
        if root != self.frontier.root() {
            return Err(StoreError::Computation { size: self.edge.size() });
        }
        let origin = self.signer.verifier().name().to_owned();
        let checkpoint = Checkpoint { origin, size: self.edge.size(), root };
        let note = checkpoint.sign(&self.signer);
        reach(FaultPoint::IntegrateBeforeCheckpoint);
        self.store.put_checkpoint(&note)?;
        (self.checkpoint, self.note, self.pending_bytes) = (checkpoint, note, 0);
        // We may die here: the WAL overlaps the checkpoint, and superseded partial tiles are still there. Opening
        // checks the one and removes the other.
        reach(FaultPoint::IntegrateAfterCheckpoint);
        remove_superseded(&mut self.store, old_size, self.checkpoint.size)?;
        Ok(self.wal.clear()?)
    }

    fn write_bundles(&mut self, entries: &[Vec<u8>]) -> Result<(), StoreError> {
        let mut size = self.edge.size();
        for entry in entries {
            bundle::push(&mut self.bundle, entry);
            size += 1;
            let (index, position) = tile::place(size - 1);
            if position + 1 == usize::from(TILE_WIDTH) {
                self.store.put_once(&TileCoordinate::full(TileKind::Entries, index), &self.bundle)?;
                self.bundle.clear();
            }
        }
        match tile::partial(TileKind::Entries, size) {
            Some(coordinate) => self.store.put_once(&coordinate, &self.bundle),
            None => Ok(()),
        }
    }

    fn write_tiles(&mut self, entries: &[Vec<u8>], old_size: u64) -> Result<(), StoreError> {
        let mut full: Vec<FullTile> = Vec::new();
        for entry in entries {
            let leaf = leaf_hash(entry);
            self.edge.push(leaf, |tile| full.push(tile));
            self.frontier.push(leaf);
        }
        for tile in full {
            self.store.put_once(&tile.coordinate, &tile::encode(&tile.hashes))?;
        }
        for (coordinate, hashes) in self.edge.partials() {
            // A level that gained no hash has its partial tile since an earlier checkpoint.
            if tile::partial(coordinate.kind, level_size(coordinate.kind, old_size)) != Some(coordinate) {
                self.store.put_once(&coordinate, &tile::encode(hashes))?;
            }
        }
        Ok(())
    }

    fn check_health(&self) -> Result<(), AppendError> {
        match &self.health {
            Health::Sound => Ok(()),
            Health::Stopped { cause } => Err(AppendError::Stopped { cause: cause.clone() }),
        }
    }

    fn stop(&mut self, error: StoreError) -> AppendError {
        tracing::error!(%error, "the log's writer stops");
        self.health = Health::Stopped { cause: error.to_string() };
        error.into()
    }
}

fn check_batch(entries: &[Vec<u8>]) -> Result<(), AppendError> {
    if entries.len() > BATCH_ENTRIES_MAX {
        return Err(AppendError::BatchTooLarge { entries: entries.len() });
    }
    match entries.iter().position(|entry| entry.len() > ENTRY_BYTES_MAX) {
        Some(position) => Err(AppendError::EntryTooLarge { position, bytes: entries[position].len() }),
        None => Ok(()),
    }
}

/// What the entries take in the WAL.
fn wal_bytes(entries: &[Vec<u8>]) -> usize {
    entries.iter().map(|entry| FRAME_HEADER_BYTES + entry.len()).sum()
}

fn level_size(kind: TileKind, size: u64) -> u64 {
    match kind {
        TileKind::Entries => size,
        TileKind::Hashes(level) => tile::level_size(level, size),
    }
}

/// Removes the partial forms of the tiles that were partial at `old_size` and are full at `size`. Readers fall back to
/// the full tile.
fn remove_superseded(store: &mut Store, old_size: u64, size: u64) -> Result<(), StoreError> {
    let kinds = tile::levels(size).map(TileKind::Hashes).chain([TileKind::Entries]);
    for kind in kinds {
        let (index, _) = tile::place(level_size(kind, old_size));
        if tile::place(level_size(kind, size)).0 > index {
            store.remove_partials(&TileCoordinate::full(kind, index))?;
        }
    }
    Ok(())
}
