//! The Merkle log over opaque bytes: tree, tiles, signed notes, WAL and integration.
//!
//! Formats: RFC 6962 hashing with SHA-256; tiles, entry bundles, checkpoint and signed note as C2SP's
//! tlog-tiles, tlog-checkpoint and signed-note say. The WAL is ours (see [`frame`]).
//!
//! Pure rooms: [`tree`], [`proof`], [`tile`], [`bundle`], [`note`], [`checkpoint`], [`proof_file`], [`frame`]. Rooms that touch
//! the disk: [`wal`], [`store`], [`writer`] with its `recovery`, [`reader`].
//!
//! Life of an entry: [`LogWriter::append_batch`] frames it into the WAL and syncs (the commit);
//! [`LogWriter::integrate`] writes bundles, tiles and a signed checkpoint from what is committed, then empties
//! the WAL. [`LogReader`] reads the checkpointed part from bundles and the rest from the WAL.

pub mod bundle;
pub mod checkpoint;
pub mod frame;
pub mod note;
pub mod proof;
pub mod proof_file;
pub mod reader;
pub(crate) mod recovery;
#[cfg(test)]
mod seeded_tests;
pub mod store;
#[cfg(test)]
pub(crate) mod tests;
pub mod tile;
pub mod tree;
pub mod wal;
pub mod writer;

pub use checkpoint::Checkpoint;
pub use note::{KeyError, LogSigner, VerifierKey};
pub use proof_file::ProofFile;
pub use reader::{LogReader, ReadError};
pub use writer::{AppendError, LogWriter, OpenError, OpenReport};
