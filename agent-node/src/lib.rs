//! The hands: build, run, check, measure, sign.
//!
//! Read in this order: [`session`] (the conversation with the coordinator), [`job`] (the steps of one attempt),
//! [`backend`] (devices), [`sandbox`] (what a candidate may do), [`measure`] (how time is taken), [`probe`] (the
//! environment fingerprint), [`machine_lock`] (timing runs alone), [`device_lock`] (a GPU has one node at a time), [`clock`] (the only reader of time),
//! [`health`] (whether a GPU may be believed),
//! [`state`] (the folder of a node), [`mutation`] (faults put into a task's reference), [`harness`] (what measures), [`inventory`] (the devices on offer).

pub mod backend;
pub mod clock;
pub mod device_lock;
pub mod harness;
pub mod health;
pub mod inventory;
pub mod job;
pub mod machine_lock;
pub mod measure;
pub mod mutation;
pub mod probe;
pub mod sandbox;
pub mod scratch;
pub mod session;
pub mod state;
pub mod transport;
