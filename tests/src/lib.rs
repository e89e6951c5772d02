//! Harness of the whole-fleet tests: real binaries on loopback, one state folder each, no fixed ports, no sleeps.

pub mod book;
pub mod fleet;
pub mod local;
pub mod mcp;
pub mod ordinary;
pub mod process;
pub mod python;
pub mod saxpy;
pub mod skip;
pub mod small_disk;
pub mod wait;
