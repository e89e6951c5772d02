//! Measuring: which launch comes next ([`plan`]) and what time it is ([`clock`]).

pub mod clock;
pub mod plan;
