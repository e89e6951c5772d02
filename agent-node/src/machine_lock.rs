//! Timing runs alone on its machine.
