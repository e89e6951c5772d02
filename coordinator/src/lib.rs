//! The mind: who does what and when, and the windows people look through.
//!
//! Read in this order: [`scheduler`] (pure: facts and decisions), [`journal`] (durable facts), [`commit`] (the
//! ledger's writer), [`driver`] (the only event loop), [`transport`] (nodes over QUIC), [`desk`] (what people ask,
//! checked), [`http`] (the API), [`optimizer`] (pure: what loops need
//! from verdicts), [`cli`], and [`start`], which puts them together.

pub mod address;
pub mod cli;
pub mod clock;
pub mod commit;
pub mod desk;
pub mod driver;
pub mod http;
pub mod journal;
mod keyring;
pub mod optimizer;
pub mod scheduler;
mod sealed;
pub mod start;
pub mod state;
pub mod stores;
pub mod transport;
