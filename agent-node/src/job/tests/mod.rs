//! One attempt against a device that lives in this test process: order of events, verdicts, blame.

mod attempt;
mod pair;
mod resolution;
mod world;
