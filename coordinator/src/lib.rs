//! The mind: who does what and when, and the windows people look through.
//!
//! Read in this order: [`scheduler`] (pure: facts and decisions), [`journal`] (durable facts), [`driver`] (the
//! only event loop), [`transport`] (nodes over QUIC), [`http`] (people and programs), [`cli`].

pub mod cli;
pub mod clock;
pub mod driver;
pub mod http;
pub mod journal;
pub mod scheduler;
pub mod state;
pub mod transport;
