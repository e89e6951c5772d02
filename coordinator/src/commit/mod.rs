//! The ledger's writer: one thread that decides what is accepted, appends, and acknowledges.
//!
//! A result is committed by its append and by nothing else. Whether it may be appended (cell open, fence current)
//! is decided here, in the order in which entries reach the log, so that no race between a result, a loss and an
//! end has two winners. Requests are taken in batches: one sync commits a batch, then its answers go out.

mod content;
mod handle;
mod history;
mod openings;
mod report;
mod request;
mod writer;

pub use content::Content;
pub use handle::CommitHandle;
pub use history::{Definition, History};
pub use openings::Openings;
pub use report::{PROMISE_CONTEXT, promise_bytes};
pub use request::{CommitRequest, IncomingReport};
pub use writer::{CommitError, CommitThread, Parts};
