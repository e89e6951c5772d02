//! The scheduler: pure decisions over facts.
