//! Harness of the whole-fleet tests: real binaries on loopback, one state folder each, no fixed ports, no sleeps.

pub mod fleet;
pub mod process;
pub mod wait;
