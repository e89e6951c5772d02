//! Measuring: which launch comes next ([`plan`]), what time it is ([`clock`]), and what may have moved the times
//! ([`disturbance`]).

pub mod clock;
pub mod disturbance;
pub mod plan;
