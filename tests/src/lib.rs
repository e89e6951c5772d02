//! Harness of the whole-fleet tests: real binaries on loopback.
