//! Coordinator's transport and node's session against each other over loopback QUIC.

#![expect(clippy::unwrap_used, reason = "a test's helper fails the test by panicking")]

mod abuse;
mod blob;
mod coordinator;
mod join;
mod node;
mod protocol;
mod reconnect;
mod report;
