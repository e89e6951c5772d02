//! The session with the coordinator: pure machine, driver, outbox.
//!
//! ```text
//! Session::open(options)     folder, keys, pin or invite, outbox of an earlier run
//!   .fetcher()  ──► BlobFetcher, for jobs: cache first, then the coordinator, across reconnects
//!   .run(runner, devices, stop)
//!        driver ── Input ──► machine (pure) ── Effect ──► driver
//!          ├─ link: control, assignment and report streams of one connection
//!          ├─ jobs: JobRunner::start, which outlive connections
//!          └─ outbox: signed results until they are acknowledged
//! ```

mod blob_cache;
mod driver;
mod fetch;
mod folder;
mod identity;
mod link;
pub mod machine;
mod open;
mod outbox;
mod pin;
mod promise;
mod report;
mod runner;
mod witness;

pub use blob_cache::BlobCache;
pub use fetch::{BlobFetcher, FetchError};
pub use folder::NodeFolder;
pub use identity::NodeIdentity;
pub use machine::{AttemptKey, HELD_MAX, SessionEnd};
pub use open::{Session, SessionOptions};
pub use outbox::{Outbox, OutboxError};
pub use pin::Pin;
pub use promise::Promise;
pub use runner::{FinishedJob, JobEnd, JobFailure, JobOrder, JobRunner, ProgressSender};
