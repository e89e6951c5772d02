//! What an optimisation loop needs from verdicts: feedback, rewards, what is worth trying. Pure: what it decides from is
//! handed in, and the command line does what it says.
//!
//! Read in this order: [`feedback`] (one record, told to whoever proposed it), [`reward`] (a number for training),
//! [`profile`] and
//! [`amdahl`] (several kernels of one whole), [`economics`] (what it costs and when it pays).

pub mod amdahl;
pub mod economics;
pub mod feedback;
pub mod profile;
pub mod reward;

#[cfg(test)]
mod fixture;
