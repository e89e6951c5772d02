//! What an optimisation loop needs from verdicts: feedback, rewards, what to try, when to stop, what is worth it. Pure: what
//! it decides from is handed in, and the command line does what it says.
//!
//! Read in this order: [`feedback`] (one record, told to whoever proposed it), [`reward`] (a number for training),
//! [`profile`] and
//! [`amdahl`] (several kernels of one whole), [`economics`] (what it costs and when it pays). Campaigns:
//! [`settings`] and [`attempt`] (what their folder keeps), [`template`] and [`search`] (parameter search), [`campaign`] (keep
//! or revert, stop), [`report`] (the result folder).

pub mod amdahl;
pub mod attempt;
pub mod campaign;
pub mod economics;
pub mod feedback;
pub mod profile;
pub mod report;
pub mod reward;
pub mod search;
pub mod settings;
pub mod template;

#[cfg(test)]
mod fixture;
