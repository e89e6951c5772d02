//! Questions to a log that one pass over its entries answers: which entries, and what each of them says in a row.
//!
//! Pure: entries and blobs come from the caller, in order of leaves. Memory holds the names that definitions gave and a
//! bounded number of documents, never the rows. Read in this order: [`Row`] (what an entry says), [`Filter`] (which rows
//! are asked for), [`Query`] (the pass), [`csv`].

pub mod csv;
mod document;
mod filter;
mod row;
mod run;

#[cfg(test)]
mod tests;

pub use document::BlobLookup;
pub use filter::{Filter, FilterError, Metric, MetricRange, Moment};
pub use row::{CaseRow, Row};
pub use run::{Query, Unheard};
