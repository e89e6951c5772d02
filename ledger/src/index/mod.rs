//! The sled index: a cache of the log, never the truth.
