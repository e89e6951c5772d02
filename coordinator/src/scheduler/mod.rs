//! The scheduler: pure decisions over facts.
//!
//! `step(now, Input) → Effects`: no clock, no runtime, no randomness. Read [`fact`] (what is remembered), [`input`]
//! (all that can happen), [`effect`] (all that can be asked), then the rooms of each event.

pub mod acceptance;
pub mod effect;
pub mod fact;
pub mod input;
pub mod limits;
pub mod node_state;
pub mod retry;
