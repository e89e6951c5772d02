//! Keys and pinned fingerprints as types.
