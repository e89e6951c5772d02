//! The ledger's own fixed entries: its tests and the targets see one and the same world.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "the fixture serves the ledger's own tests too"
)]

pub(crate) use ledger::entry::*;

#[path = "../../../ledger/src/entry/fixture.rs"]
pub(crate) mod fixture;
