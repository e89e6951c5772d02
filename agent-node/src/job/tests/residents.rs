//! Workers of the task's own implementations that are kept: how long, for what, and that it changes no verdict.

use super::world::{World, device, record};
use crate::job::Residents;
use crate::measure::clock::Clock;
use fleet_config::domain::{DeviceDescription, DeviceKind, Milliseconds, Outcome, Picoseconds, Status};

/// Those of a GPU with so many gibibytes.
fn residents(memory: u64) -> Residents {
    Residents::on(&DeviceDescription { kind: DeviceKind::Gpu, memory: memory << 30, ..device() })
}

fn keeping() -> World {
    let mut world = World::new();
    world.residents = residents(80);
    world
}

fn count(world: &World, line: &str) -> usize {
    world.events().iter().filter(|event| *event == line).count()
}

#[test]
fn one_reference_answers_for_several_attempts_and_never_beside_a_launch() {
    let mut world = keeping();
    for source in ["good", "good fast", "wrong", "good"] {
        world.run(source).unwrap();
    }
    assert_eq!(count(&world, "open reference good"), 1);
    assert_eq!(count(&world, "kill reference good"), 0, "it waits for the next attempt");
    world.residents = residents(8);
    assert_eq!(count(&world, "kill reference good"), 1);
}

#[test]
fn a_candidate_is_validated_in_one_process_and_timed_in_another() {
    let mut world = keeping();
    world.run("good").unwrap();
    let events = world.events();
    let timing = events.iter().position(|event| event == "hold Alone").unwrap();
    let counted = |events: &[String], line: &str| events.iter().filter(|event| *event == line).count();
    let (before, after) = events.split_at(timing);
    assert_eq!((counted(before, "open good"), counted(before, "kill good")), (1, 1));
    assert_eq!((counted(after, "open good"), counted(after, "kill good")), (1, 1));
    assert_eq!(counted(before, "attend good"), 2, "smoke, then two cases");
    assert_eq!(counted(after, "attend good"), 0);
}

#[test]
fn however_an_attempt_ends_the_candidate_is_gone() {
    for source in ["wrong", "overruns", "crash", "tires", "odd", "good"] {
        let mut world = keeping();
        world.cancel_after = (source == "good").then_some("attend good");
        let _ended = world.run(source);
        let opened = count(&world, &format!("open {source}"));
        assert_eq!(opened, count(&world, &format!("kill {source}")), "{source}");
        assert!(opened > 0, "{source}");
    }
}

#[test]
fn verdicts_are_the_same_with_residents_and_without() {
    for source in ["good", "wrong", "odd", "overruns", "scribbles", "crash", "tires", "skips", "zeros"] {
        let mut world = keeping();
        world.run("good").unwrap();
        let kept = record(&world.run(source).unwrap()).outcome;
        assert_eq!(kept, record(&World::new().run(source).unwrap()).outcome, "{source}");
    }
}

#[test]
fn a_resident_that_fails_is_replaced_and_nobody_is_charged() {
    let mut world = keeping();
    world.reference("reference homesick");
    for _ in 0..2 {
        assert_eq!(record(&world.run("good").unwrap()).outcome, Outcome::ok());
    }
    assert!(count(&world, "attend reference homesick") >= 2);
    assert_eq!(count(&world, "open reference homesick"), count(&world, "attend reference homesick") + 1);
    // A reference that always fails is the task's fault as before.
    let mut world = keeping();
    world.reference("reference crash");
    assert_ne!(record(&world.run("good").unwrap()).outcome.status, Status::Ok);
}

#[test]
fn a_resident_answers_for_what_it_was_started_with_alone() {
    let mut world = keeping();
    world.run("good").unwrap();
    world.task.limits.launch = Milliseconds(world.task.limits.launch.0 + 1);
    world.run("good").unwrap();
    assert_eq!((count(&world, "open reference good"), count(&world, "kill reference good")), (2, 1));
    world.reference("reference good, said otherwise");
    world.run("good").unwrap();
    assert_eq!(count(&world, "kill reference good"), 2);
}

#[test]
fn nobody_is_kept_for_long() {
    let mut world = keeping();
    world.run("good").unwrap();
    let now = world.clock.now();
    world.residents.tidy(Picoseconds(now.0 + 29_000_000_000_000));
    assert_eq!(count(&world, "kill reference good"), 0);
    world.residents.tidy(Picoseconds(now.0 + 31_000_000_000_000));
    assert_eq!(count(&world, "kill reference good"), 1);
    assert_eq!(record(&world.run("good").unwrap()).outcome, Outcome::ok());
}

#[test]
fn a_small_device_keeps_its_memory_for_buffers() {
    let mut world = World::new();
    world.residents = residents(8);
    world.run("good").unwrap();
    let attended = world.events().into_iter().filter(|event| event.starts_with("attend")).count();
    assert_eq!(attended, 0);
}
