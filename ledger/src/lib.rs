//! The memory: what was measured, provably, and what may be concluded from it.
//!
//! Truth: entry bundles, tiles, the signed checkpoint and the WAL tail. Beside it: blobs, addressed by hash.
//! Rebuildable and never trusted: the index. Read in this order: [`entry`] (what one leaf says), [`log`] (the
//! Merkle log over opaque bytes), [`blob`], [`verify`] (the outside check), [`index`], [`stats`], [`rank`], [`detect`]
//! (judging again what is recorded), [`query`] (rows of entries), [`mirror`] (verified copies), [`dossier`] (evidence bundles), [`audit`] (what stands behind a number), [`claim`] (what somebody says of it).

pub mod audit;
pub mod blob;
pub mod claim;
pub mod cores;
pub mod detect;
pub mod disk;
pub mod dossier;
pub mod entry;
pub mod fault;
#[cfg(feature = "index")]
pub mod index;
pub mod log;
pub mod mirror;
pub mod query;
pub mod rank;
pub mod stats;
pub mod verify;
