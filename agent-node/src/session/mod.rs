//! The session with the coordinator: pure machine, driver, outbox.
