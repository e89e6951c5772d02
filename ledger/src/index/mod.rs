//! The sled index: a cache of the log, never the truth.
//!
//! One design for both readers: [`Index`] is a set of rows (key, value) that a pure function makes of each entry
//! (`row`), kept in sled by the coordinator ([`Index::open`]) and in memory by offline readers
//! ([`Index::in_memory`]). Queries see rows only, so both give the same answers. Rows of an entry and the cursor
//! go in as one batch; a crash leaves the index behind the log and never beside it. On opening, the cursor's tree
//! head and a checksum over all rows are compared; whatever does not fit is deleted and made again.
//!
//! The coordinator's writer, at start: open the log, `integrate`, open a reader, [`Index::open`]. After each
//! `append_batch`: [`Index::apply`] for each entry in order. Every answer says the tree size that it is about.

mod codec;
mod query;
mod row;
mod store;

#[cfg(test)]
mod tests;

pub use codec::CodecError;
pub use query::{Answer, PREFIX_DIGITS_MIN, QueryError, ReuseKey};
pub use row::{EntrySummary, ResultSummary};

use crate::entry::Entry;
use crate::log::tree::{Frontier, leaf_hash};
use crate::log::{LogReader, ReadError};
use fleet_config::domain::{LeafIndex, Sha256};
use row::{Meta, rows_of};
use std::path::Path;
use store::{Batch, Rows};

/// Entries of one batch while rebuilding: bounds memory, and a crash repeats little.
const REBUILD_BATCH: usize = 256;

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("the index is open in another process")]
    Locked,
    #[error("the index store failed: {0}; restart to rebuild it")]
    Store(#[from] sled::Error),
    #[error("the folder of the index cannot be replaced: {0}")]
    Folder(#[from] std::io::Error),
    #[error("a row of the index is damaged: {0}; restart to rebuild it")]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Log(#[from] ReadError),
    #[error("entry {found} was applied where {expected} is next")]
    OutOfOrder { expected: u64, found: u64 },
}

/// What opening found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// The index held a prefix of the log; this many entries were added.
    CaughtUp(u64),
    /// It was made anew.
    Rebuilt { cause: String },
}

/// Rows of every entry up to a cursor.
#[derive(Debug)]
pub struct Index {
    rows: Rows,
    meta: Meta,
}

impl Index {
    /// Opens the index in `folder` (by custom `<ledger>/index`) and brings it up to `log`. A folder that is no
    /// index of this log is deleted and built again. The caller holds the ledger's lock.
    pub fn open(folder: &Path, log: &LogReader) -> Result<(Self, Opened), IndexError> {
        let (mut index, cause) = match store::open(folder)? {
            Ok((rows, meta)) => {
                let index = Self { rows, meta };
                let cause = index.disagreement(log);
                (Some(index), cause)
            }
            Err(cause) => (None, Some(cause)),
        };
        if let Some(cause) = cause {
            tracing::warn!(cause, "rebuilding the index");
            drop(index.take());
            let rows = store::recreate(folder)?;
            let mut index = Self { rows, meta: Meta::new(&log.checkpoint().origin) };
            index.catch_up(log)?;
            return Ok((index, Opened::Rebuilt { cause }));
        }
        let Some(mut index) = index else { return Err(IndexError::Locked) };
        let added = index.catch_up(log)?;
        Ok((index, Opened::CaughtUp(added)))
    }

    /// The same rows without a store, made from the whole log: for readers beside or without a coordinator.
    pub fn in_memory(log: &LogReader) -> Result<Self, IndexError> {
        let mut index = Self { rows: Rows::memory(), meta: Meta::new(&log.checkpoint().origin) };
        index.catch_up(log)?;
        Ok(index)
    }

    /// Takes in the next entry of the log. Durable at the store's leisure: what a crash loses is read again.
    pub fn apply(&mut self, leaf: LeafIndex, bytes: &[u8]) -> Result<(), IndexError> {
        self.apply_all(std::iter::once((leaf, bytes)))
    }

    /// Tree size that answers are about.
    pub fn size(&self) -> u64 {
        self.meta.next
    }

    /// Tree head over the entries that were applied.
    pub fn root(&self) -> Sha256 {
        self.meta.frontier().map_or_else(crate::log::tree::empty_root, |frontier| frontier.root())
    }

    /// Writes what is buffered. Not a sync; the index needs none.
    pub fn flush(&self) -> Result<(), IndexError> {
        self.rows.flush()
    }

    fn catch_up(&mut self, log: &LogReader) -> Result<u64, IndexError> {
        let start = self.meta.next;
        let mut held = Vec::with_capacity(REBUILD_BATCH);
        for entry in log.entries(start..log.size()) {
            held.push(entry?);
            if held.len() == REBUILD_BATCH {
                self.apply_all(held.iter().map(|(leaf, bytes)| (*leaf, bytes.as_slice())))?;
                held.clear();
            }
        }
        self.apply_all(held.iter().map(|(leaf, bytes)| (*leaf, bytes.as_slice())))?;
        self.rows.flush()?;
        Ok(self.meta.next - start)
    }

    /// Rows and cursor of these entries in one batch. An entry that cannot be read keeps its place in the count:
    /// only verification judges.
    fn apply_all<'b>(
        &mut self,
        entries: impl Iterator<Item = (LeafIndex, &'b [u8])>,
    ) -> Result<(), IndexError> {
        let mut meta = self.meta.clone();
        let mut frontier = meta.frontier().unwrap_or_default();
        let mut batch = Batch::new();
        for (leaf, bytes) in entries {
            if leaf.0 != meta.next {
                return Err(IndexError::OutOfOrder { expected: meta.next, found: leaf.0 });
            }
            let rows = rows_of(leaf, Entry::read(bytes).ok().as_ref(), &mut meta)?;
            for (key, value) in rows {
                meta.add_to_checksum(&key, &value);
                batch.push((key, value));
            }
            frontier.push(leaf_hash(bytes));
            meta.next += 1;
        }
        if batch.is_empty() {
            return Ok(());
        }
        meta.keep_frontier(&frontier);
        self.rows.write(batch, &meta)?;
        self.meta = meta;
        Ok(())
    }

    /// Why these rows are not those of the beginning of `log`, if they are not.
    fn disagreement(&self, log: &LogReader) -> Option<String> {
        let checkpoint = log.checkpoint();
        if self.meta.origin != checkpoint.origin {
            return Some("it is of another ledger".to_owned());
        }
        if self.meta.next > log.integrated_size() {
            return Some(format!(
                "it holds {} entries and the checkpoint {}",
                self.meta.next,
                log.integrated_size()
            ));
        }
        let Some(frontier) = self.meta.frontier() else {
            return Some("its tree head does not fit its size".to_owned());
        };
        match log.root_at(self.meta.next) {
            Ok(root) if root == frontier.root() => None,
            Ok(_) => Some(format!("its tree head at {} is not the log's", self.meta.next)),
            Err(error) => Some(format!("the log has no tree head at {}: {error}", self.meta.next)),
        }
    }
}

impl Meta {
    fn frontier(&self) -> Option<Frontier> {
        Frontier::from_subtrees(self.next, self.subtrees.clone())
    }
    fn keep_frontier(&mut self, frontier: &Frontier) {
        self.subtrees = frontier.subtrees().to_vec();
    }
}
