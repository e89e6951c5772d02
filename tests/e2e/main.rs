//! Whole-fleet tests on the CPU device: a process is only what its binary does.

mod sample;
mod tamper;
