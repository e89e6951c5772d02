//! Entries: what one leaf says, who may say it, and its canonical bytes.
//!
//! One leaf is one DSSE envelope around one in-toto Statement. Writing: [`seal()`] a predicate with its
//! [`Subject`]. Taking in: [`check`] the bytes against the [`Signers`] that the entries so far have named, then
//! [`check_result_binding`] for results, append, and [`Signers::fold`] what was appended. Reading back what was
//! checked before: [`Entry::read`].

mod binding;
mod body;
mod dsse;
mod grants;
mod ingest;
pub mod predicate;
mod reach;
mod samples;
mod seal;
mod signers;
mod statement;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

pub use binding::{BindingError, Expected, check_result_binding};
pub use body::{Body, Entry, ReadError};
pub use dsse::{ENTRY_BYTES_MAX, Envelope, EnvelopeError, PAYLOAD_TYPE, pae};
pub use grants::{GRANTS_MAX, GrantsError, read_grants, seal_grants};
pub use ingest::{Checked, EntryError, FORMAT, check};
pub use predicate::{Kind, Predicate};
pub use reach::{Need, reach};
pub use samples::{SamplesError, case_timing, decode_samples, encode_samples};
pub use seal::{SealError, Sealed, seal};
pub use signers::{Enrolled, Signers};
pub use statement::{DigestSet, STATEMENT_TYPE, Statement, Subject};
