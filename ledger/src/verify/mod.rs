//! The outside check of a whole ledger folder: trusts the verifier key alone.

pub mod semantic;
