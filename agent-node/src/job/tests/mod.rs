//! One attempt against a device that lives in this test process: order of events, verdicts, blame.

mod attempt;
mod pair;
mod residents;
mod resolution;
mod stages;
mod world;

/// The small task of these tests.
pub(super) fn tests_task() -> fleet_config::domain::Task {
    world::task(&mut std::collections::BTreeMap::new())
}
