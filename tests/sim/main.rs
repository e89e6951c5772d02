//! A whole fleet in one process: seeded time, loss, duplication, reordering, crashes, pauses, replay.

#![expect(clippy::unwrap_used, reason = "a test harness: what cannot be is a failed test")]

mod check;
mod coordinator;
mod node;
mod random;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;
use world::{Weather, World};

fn storm() -> Weather {
    Weather {
        nodes: 6,
        submissions: 4,
        candidates: 6,
        calm_after: Duration::from_secs(300),
        end: Duration::from_secs(3_000),
        coordinator_crash: 8,
        loss: 20,
        duplication: 50,
        trouble_ms: 4_000,
        fleet_fault: 60,
        ledger_ms: 50,
        cancels: 300,
    }
}

/// What a batch of histories was made of: a check that trouble happened at all.
#[derive(Debug, Default)]
struct Sum {
    cells: usize,
    retries: usize,
    crashes: u64,
    refused: u64,
}

fn run_seeds(seeds: std::ops::Range<u64>, weather: &Weather) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut world = World::new(seed, weather.clone());
            world.run();
            let (cells, retries) = world.check();
            (cells, retries, world.crashes, world.refused)
        }));
        match outcome {
            Ok((cells, retries, crashes, refused)) => {
                sum.cells += cells;
                sum.retries += retries;
                sum.crashes += crashes;
                sum.refused += refused;
            }
            Err(panic) => {
                eprintln!("seed {seed} failed; weather {weather:?}");
                resume_unwind(panic);
            }
        }
    }
    eprintln!("{sum:?}");
    sum
}

/// Set MUSTER_SIM_SEED to start the histories of the storm elsewhere (a soak, or one seed that failed).
fn first_seed() -> u64 {
    std::env::var("MUSTER_SIM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[test]
fn every_cell_ends_once_whatever_happens() {
    let first = first_seed();
    let sum = run_seeds(first..first + 200, &storm());
    assert!(sum.retries > 100 && sum.crashes > 100 && sum.refused > 10, "too calm to mean anything: {sum:?}");
}

#[test]
fn a_slow_ledger_delays_and_breaks_nothing() {
    let sum = run_seeds(1_000..1_040, &Weather { ledger_ms: 4_000, ..storm() });
    assert!(sum.retries > 10 && sum.crashes > 10, "too calm to mean anything: {sum:?}");
}

/// Results wait in the writer while their leases run out: the loss that is asked for then must not be written.
#[test]
fn a_ledger_slower_than_a_lease_never_records_a_result_and_a_loss() {
    let weather = Weather { ledger_ms: 90_000, end: Duration::from_secs(30_000), ..storm() };
    let sum = run_seeds(4_000..4_030, &weather);
    assert!(sum.cells > 100, "{sum:?}");
}

#[test]
fn a_coordinator_that_keeps_dying_still_finishes() {
    let weather = Weather { coordinator_crash: 60, loss: 0, trouble_ms: 0, fleet_fault: 0, ..storm() };
    let sum = run_seeds(2_000..2_060, &weather);
    assert!(sum.crashes > 300, "too calm to mean anything: {sum:?}");
}

#[test]
fn without_trouble_nothing_is_tried_twice() {
    let calm = Weather { calm_after: Duration::from_secs(60), cancels: 0, ..storm() };
    let weather =
        Weather { coordinator_crash: 0, loss: 0, duplication: 0, trouble_ms: 0, fleet_fault: 0, ..calm };
    let sum = run_seeds(3_000..3_040, &weather);
    assert_eq!((sum.retries, sum.refused), (0, 0));
}

#[test]
fn ten_thousand_nodes_are_one_fleet() {
    let weather = Weather {
        nodes: 10_000,
        submissions: 4,
        candidates: 4_000,
        calm_after: Duration::from_secs(40),
        coordinator_crash: 0,
        loss: 2,
        trouble_ms: 50,
        fleet_fault: 10,
        cancels: 0,
        ..storm()
    };
    let sum = run_seeds(42..43, &weather);
    assert!(sum.cells > 1_000, "{sum:?}");
}
