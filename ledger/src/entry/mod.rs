//! Entries: what one leaf says, who may say it, and its canonical bytes.

pub mod predicate;

pub use predicate::{Kind, Predicate};
