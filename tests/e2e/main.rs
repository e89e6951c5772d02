//! Whole-fleet tests on the CPU device: a process is only what its binary does.

mod case;
mod compile;
mod coordinator;
mod damage;
mod holdout;
mod hostile;
mod kept;
mod kill;
mod late;
mod levels;
mod mcp;
mod optimize;
mod outside;
mod proofs;
mod python;
mod records;
mod rejudge;
mod reuse;
mod revoke;
mod sample;
mod secrets;
mod tamper;
mod up;
mod wait;

/// The device class of the tests, which every x86-64 machine since about 2009 has.
const CLASS: &str = "cpu:x86-64-v2";

/// How long a queue of cells may take on a busy machine.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(420);
