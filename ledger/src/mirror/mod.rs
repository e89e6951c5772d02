//! Mirrors: a verified copy of another log's published files, made without trusting the place that it comes from.
//!
//! The log's key is all that is believed. Before anything is copied, the source's tiles must show that what was mirrored
//! before is the beginning of what it has now; else the log was forked or set back and nothing is touched. Entries are
//! hashed as they come, tiles are made from these hashes and must lead to the signed root; the checkpoint is written last.
//! So a mirror is a whole log at every moment, and an interrupted copy goes on where it ended.

mod copy;
mod source;
mod target;
mod tiles;

#[cfg(test)]
mod tests;

pub use copy::{MirrorError, MirrorReport, Progress, mirror};
pub use source::{FolderSource, Source, SourceError};
