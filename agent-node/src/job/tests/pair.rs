//! Timing in one address space: what stands in memory before a launch, and who is blamed for what the baseline meets.

use super::world::{World, record};
use fleet_config::domain::{Blame, Fact, MeasurementPolicy, Outcome, Stage, Status, canonical, field};
use ledger::entry::predicate::VolatileFacts;

fn together() -> World {
    let mut world = World::new();
    world.policy = MeasurementPolicy::gpu_paired();
    world
}

fn check(world: &mut World, source: &str, status: Status, blame: Blame, code: &str) -> Outcome {
    let outcome = world.record(source).outcome;
    let found = outcome.cause.as_ref().map(|cause| cause.code.as_str());
    assert_eq!((outcome.status, outcome.blame, found), (status, blame, Some(code)), "{outcome:?}");
    assert_eq!(outcome.stage, Stage::Time);
    outcome
}

/// What was logged from the moment on that the device was ours for timing.
fn timing(world: &World) -> Vec<String> {
    let events = world.events();
    let from = events.iter().position(|event| event == "claim CPU-0 for Timing").unwrap();
    events[from..].to_vec()
}

#[test]
fn no_answer_of_the_baseline_is_in_memory_when_the_candidate_runs() {
    let mut world = together();
    let finished = world.run("good").unwrap();
    assert_eq!(record(&finished).outcome, Outcome::ok());
    let (mut answered, mut launches) = (false, 0);
    for event in timing(&world) {
        match event.as_str() {
            "launch baseline good" => answered = true,
            "fill ff baseline good" => answered = false,
            "launch good" => {
                assert!(!answered, "launch {launches} of the candidate could read the baseline's output");
                launches += 1;
            }
            _ => {}
        }
    }
    assert_eq!(launches, 110);
}

#[test]
fn sides_trade_buffers_after_every_second_pair_and_write_all_of_them_before_the_candidate_runs() {
    let mut world = together();
    world.policy = MeasurementPolicy::gpu_paired_traded();
    assert_eq!(record(&world.run("good").unwrap()).outcome, Outcome::ok());
    let (mut traded, mut written) = (0, [true; 2]);
    for event in timing(&world) {
        match event.as_str() {
            "trade baseline good" => (traded, written) = (traded + 1, [false; 2]),
            "fill ff good" => written[0] = true,
            "fill ff baseline good" => written[1] = true,
            "launch good" => assert_eq!(written, [true; 2], "after {traded} trades"),
            _ => {}
        }
    }
    assert_eq!(traded, 49, "after every second of 100 pairs but the last");
    let mut fixed = together();
    fixed.run("good").unwrap();
    assert!(!fixed.events().iter().any(|event| event.starts_with("trade")));
}

#[test]
fn the_baseline_runs_before_the_candidate_first_does_so_that_it_can_be_compared_with_itself() {
    let mut world = together();
    world.run("good").unwrap();
    let events = timing(&world);
    let first = events.iter().position(|event| event == "launch good").unwrap();
    let before = events[..first].iter().filter(|event| *event == "launch baseline good").count();
    assert!(before >= 10, "{before}");
}

#[test]
fn a_baseline_that_is_wrong_or_stopped_only_beside_the_candidate_is_the_candidates_doing() {
    for source in ["good spoils", "good breaks"] {
        let (violation, candidate) = (Status::ContractViolation, Blame::Candidate);
        check(&mut together(), source, violation, candidate, "time/neighbour");
        // In processes of their own it cannot.
        assert_eq!(World::new().record(source).outcome, Outcome::ok(), "{source}");
    }
}

#[test]
fn a_baseline_that_fails_alone_as_well_is_the_tasks() {
    let mut world = together();
    // Wrong from its fifth launch in a process on, whoever is beside it.
    world.baseline("baseline tires");
    check(&mut world, "good", Status::WrongResult, Blame::Task, "time/mismatch");
}

#[test]
fn a_fault_of_the_candidate_is_its_own_and_nobody_is_tried_alone() {
    let mut world = together();
    let outcome = world.record("good tires").outcome;
    assert_eq!((outcome.status, outcome.blame), (Status::WrongResult, Blame::Candidate));
    let opened = timing(&world).iter().filter(|event| *event == "open baseline good").count();
    assert_eq!(opened, 1);
}

#[test]
fn a_baseline_that_is_slow_beside_the_candidate_only_is_suspicious() {
    check(&mut together(), "good drags", Status::Suspicious, Blame::Nobody, "time/baseline-slowed");
}

#[test]
fn facts_of_the_workers_stand_beside_those_of_the_device() {
    let finished = together().run("good").unwrap();
    let blob = record(&finished).volatile;
    let bytes = &finished.blobs.iter().find(|(found, _)| *found == blob).unwrap().1;
    let volatile: VolatileFacts = canonical::from_bytes(bytes).unwrap();
    assert_eq!(volatile.during[0][field::EVENT_FLOOR], Fact::Count(7));
    assert!(volatile.during[0].contains_key(field::LOAD_1M));
}

#[test]
fn a_device_with_a_queue_of_its_own_needs_no_machine_for_itself() {
    let alone = |policy: MeasurementPolicy| {
        let mut world = World::new();
        world.policy = policy;
        world.run("good").unwrap();
        let events = world.events();
        assert_eq!(events.iter().filter(|event| *event == "claim CPU-0 for Timing").count(), 1);
        events.iter().filter(|event| *event == "hold Alone").count()
    };
    assert_eq!(alone(MeasurementPolicy::gpu_paired()), 0);
    // Where the time of launching is in the sample, or the processor is what is timed, it does.
    assert_eq!(alone(MeasurementPolicy::gpu_paired_hot()), 1);
    assert_eq!(alone(MeasurementPolicy::cpu_paired()), 1);
}

#[test]
fn the_device_is_claimed_for_validating_and_timing_and_not_for_compiling() {
    let mut world = World::new();
    world.run("good").unwrap();
    let events = world.events();
    let claimed = events.iter().position(|event| event.starts_with("claim CPU-0")).unwrap();
    let compiled = events.iter().rposition(|event| event.starts_with("compile ")).unwrap();
    assert!(compiled < claimed);
    let holds = events[compiled..].iter().filter(|event| event.starts_with("hold ")).count();
    assert_eq!(events.iter().filter(|event| event.starts_with("claim CPU-0")).count(), holds);
}
