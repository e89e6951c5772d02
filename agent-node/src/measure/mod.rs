//! Measuring: which launch comes next ([`plan`]), what stands for the series ([`summary`]) and what time it is ([`clock`]).

pub mod clock;
pub mod plan;
pub mod summary;
