//! The only event loop: gathers events, steps the scheduler, performs its effects.
