//! The outside check of a whole ledger folder: trusts the verifier key alone.
//!
//! [`verify_ledger`] checks everything. [`verify_log`] checks the bytes: checkpoint, bundles, tiles, WAL. It hands every sound entry to a callback, so that
//! what the entries say ([`semantic`]) can be checked in the same pass.

mod finding;
mod ledger;
#[cfg(test)]
mod ledger_tests;
mod listing;
mod log;
#[cfg(test)]
mod mutation_tests;
pub mod semantic;
#[cfg(test)]
mod tests;

pub use finding::{Fault, Finding};
pub use ledger::{Report, ReportFinding, verify_ledger};
pub use log::{LogReport, verify_log};
