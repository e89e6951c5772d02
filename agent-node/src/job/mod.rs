//! The steps of one attempt: prepare, compile, validate, time, sign.
