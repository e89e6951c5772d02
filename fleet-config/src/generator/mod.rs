//! Inputs, exact to the bit on every machine.

/// Raised when any element of any draw changes; part of every record.
pub const VERSION: u64 = 1;
