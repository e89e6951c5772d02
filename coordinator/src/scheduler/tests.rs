//! Tests of the scheduler, one step at a time.
