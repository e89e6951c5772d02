//! The contract: whatever coordinator and nodes must agree on before work starts is defined here.
//!
//! Read in this order: [`domain`] (the nouns), [`generator`] (inputs, exact to the bit), [`mod@compare`]
//! (outputs against what is expected), [`wire`] (the sentences), [`config`] (the settings), [`identity`]
//! (keys), [`invite`] (how a node gets in), [`refusal`] (how bad input is answered), `state` (folders and keys on
//! disk; a feature). Nothing in this crate reads a clock, draws randomness or does IO, save `config::load` and
//! `state`.

pub mod compare;
pub mod config;
pub mod domain;
pub mod generator;
pub mod identity;
pub mod invite;
pub mod refusal;
#[cfg(feature = "state")]
pub mod state;
pub mod wire;
