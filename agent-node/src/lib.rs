//! The hands: build, run, check, measure, sign.
//!
//! Read in this order: [`session`] (the conversation with the coordinator), [`job`] (the steps of one attempt),
//! [`backend`] (devices), [`sandbox`] (what a candidate may do), [`measure`] (how time is taken), [`probe`] (the
//! environment fingerprint).

pub mod backend;
pub mod job;
pub mod measure;
pub mod probe;
pub mod sandbox;
pub mod session;
