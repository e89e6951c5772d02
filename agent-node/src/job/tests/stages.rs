//! The stages of validation: which finds what, what is skipped and why, and what a task's strength is.

use super::world::{World, decimal, record};
use fleet_config::domain::{
    CheckEvidence, CheckFinding, CheckName, Determinism, Fake, Input, NanRule, OptionalStage, Outcome,
    Screen, Special, SpecialValue, Stage, Status, Stress, SweepRange, Task, Validation, ValidationStage,
    canonical,
};
use ledger::entry::predicate::Evidence;
use std::collections::BTreeMap;

const NO: CheckFinding = CheckFinding::NotRun;
const PASSED: CheckFinding = CheckFinding::NoFaultFound;
const FOUND: CheckFinding = CheckFinding::FaultFound;

/// A task that allows every stage.
fn open_world() -> World {
    let mut world = World::new();
    let range = SweepRange { low: 1, high: 500, multiple_of: 1 };
    allow(
        &mut world,
        Validation {
            determinism: Determinism::Tolerance,
            sweep: BTreeMap::from([("n".to_owned(), range)]),
            stress: Stress::ALL.to_vec(),
            allow: Vec::new(),
        },
    );
    world
}

fn allow(world: &mut World, validation: Validation) {
    world.task.format = Task::format_for(Some(&validation)).to_owned();
    world.task.validation = Some(validation);
}

fn run(world: &mut World, source: &str) -> (Outcome, Vec<CheckEvidence>) {
    let finished = world.run(source).unwrap();
    let result = record(&finished);
    let blob = result.evidence.expect("something was looked at");
    let bytes = &finished.blobs.iter().find(|(name, _)| *name == blob).unwrap().1;
    let evidence: Evidence = canonical::from_bytes(bytes).unwrap();
    (result.outcome, evidence.checks)
}

fn findings(checks: &[CheckEvidence]) -> Vec<CheckFinding> {
    let names: Vec<&str> = checks.iter().map(|one| one.check.name()).collect();
    assert_eq!(names, ValidationStage::ALL.map(ValidationStage::name));
    checks.iter().map(|one| one.finding).collect()
}

fn told(checks: &[CheckEvidence], stage: ValidationStage) -> &CheckEvidence {
    checks.iter().find(|one| one.check == stage.check()).unwrap()
}

#[test]
fn a_good_candidate_passes_every_stage_that_its_task_allows() {
    let (outcome, checks) = run(&mut open_world(), "good");
    assert_eq!(outcome, Outcome::ok());
    assert_eq!(findings(&checks), [PASSED; 8]);
    let looked = |stage| {
        let one = told(&checks, stage);
        (one.cases, one.draws, one.launches)
    };
    assert_eq!(looked(ValidationStage::Contract), (2, 0, 0));
    assert_eq!(looked(ValidationStage::Smoke), (1, 1, 1));
    assert_eq!(looked(ValidationStage::Cases), (2, 4, 4));
    assert_eq!(looked(ValidationStage::Determinism), (2, 2, 2));
    assert_eq!(looked(ValidationStage::Stress), (5, 5, 5));
    assert_eq!(told(&checks, ValidationStage::Smoke).case, "odd");
    assert!(told(&checks, ValidationStage::Shapes).detail.contains("shape n="));
    assert!(told(&checks, ValidationStage::TimedLaunches).launches > 10);
    // The device takes two milliseconds for a launch.
    assert!(told(&checks, ValidationStage::Cases).took.0 >= 4 * 2);
    assert_eq!(told(&checks, ValidationStage::Determinism).took.0, 2 * 2);
}

#[test]
fn a_task_without_permission_is_run_on_its_cases_alone_and_says_why() {
    let (outcome, checks) = run(&mut World::new(), "good hardcodes brittle");
    assert_eq!(outcome, Outcome::ok());
    assert_eq!(findings(&checks), [PASSED, PASSED, PASSED, NO, NO, PASSED, PASSED, PASSED]);
    assert!(told(&checks, ValidationStage::Shapes).detail.contains("no range"));
    let mut world = open_world();
    world.task.validation.as_mut().unwrap().stress.clear();
    let (_, checks) = run(&mut world, "good");
    assert_eq!(told(&checks, ValidationStage::Stress).detail, "the task opts out");
    let mut world = open_world();
    world.task.inputs.insert("x".to_owned(), Input::Arange { start: 1, step: 3 });
    let (_, checks) = run(&mut world, "good");
    assert_eq!(told(&checks, ValidationStage::Stress).detail, "no floating input is drawn");
}

#[test]
fn each_stage_finds_what_the_ones_before_it_cannot() {
    let check = |source: &str, stage: ValidationStage, status: Status, code: &str| {
        let mut world = open_world();
        let (outcome, checks) = run(&mut world, source);
        assert_eq!((outcome.status, outcome.stage), (status, Stage::Validate), "{source}: {outcome:?}");
        assert_eq!(outcome.cause.unwrap().code, code, "{source}");
        // What a screen would have seen too is entered under its own name beside this.
        let found: Vec<&str> = (checks.iter())
            .filter(|one| one.finding == FOUND && one.check != Screen::Fences.check())
            .map(|one| one.check.name())
            .collect();
        assert_eq!(found, [stage.name()], "{source}");
        // A kernel that failed is never timed.
        assert!(!world.events().iter().any(|event| event == "hold Alone"), "{source}");
        assert_eq!(told(&checks, ValidationStage::TimedLaunches).finding, NO);
    };
    use ValidationStage::{PostRun, Shapes, Smoke};
    check("wrong", Smoke, Status::WrongResult, "validate/mismatch");
    check("crash", Smoke, Status::RuntimeError, "run/fault");
    check("hardcodes", Shapes, Status::WrongResult, "validate/mismatch");
    check("brittle", ValidationStage::Stress, Status::WrongResult, "stress/mismatch");
    check("sloppy", ValidationStage::Stress, Status::WrongResult, "stress/mismatch");
    check("scribbles", PostRun, Status::ContractViolation, "contract/input-modified");
    check("overruns", PostRun, Status::ContractViolation, "contract/fence");
}

#[test]
fn a_fault_of_the_timed_launches_and_of_the_plan_has_its_stage_too() {
    let (outcome, checks) = run(&mut World::new(), "tires");
    assert_eq!(outcome.stage, Stage::Time);
    assert_eq!(findings(&checks), [PASSED, PASSED, PASSED, NO, NO, PASSED, FOUND, PASSED]);
    let mut world = World::new();
    world.plan = Some(super::world::plan("1", "1024 * 2"));
    let (outcome, checks) = run(&mut world, "good");
    assert_eq!(outcome.status, Status::LaunchError);
    assert_eq!(findings(&checks), [FOUND, NO, NO, NO, NO, NO, NO, NO]);
}

#[test]
fn launches_that_differ_within_the_tolerance_pass_unless_the_task_wants_the_same_bits() {
    let (outcome, checks) = run(&mut World::new(), "wavers");
    assert_eq!(outcome, Outcome::ok());
    let detail = &told(&checks, ValidationStage::Determinism).detail;
    assert!(detail.starts_with("2 of 2 repeated launches gave other bits"), "{detail}");
    let mut world = World::new();
    allow(&mut world, Validation { determinism: Determinism::Bitwise, ..Validation::default() });
    let (outcome, checks) = run(&mut world, "wavers");
    let cause = outcome.cause.unwrap();
    assert_eq!((outcome.status, cause.code.as_str()), (Status::WrongResult, "determinism/differs"));
    assert_eq!(cause.mismatch.unwrap().count, 1);
    assert_eq!(told(&checks, ValidationStage::Determinism).finding, FOUND);
    assert_eq!(told(&checks, ValidationStage::Cases).finding, NO);
    let mut world = World::new();
    allow(&mut world, Validation { determinism: Determinism::Bitwise, ..Validation::default() });
    assert_eq!(run(&mut world, "good").0, Outcome::ok());
}

#[test]
fn two_nan_are_equal_only_where_the_task_says_so() {
    let special = Special { index: 0, value: SpecialValue::Nan };
    let input = Input::Uniform { low: decimal("1"), high: decimal("2"), specials: vec![special] };
    for (rule, status) in [(NanRule::Never, Status::WrongResult), (NanRule::Equal, Status::Ok)] {
        let mut world = World::new();
        world.task.inputs.insert("x".to_owned(), input.clone());
        world.task.tolerance.nan = rule;
        // The baseline of this task is wrong too, where no NaN is right.
        assert_eq!(world.record("good").outcome.status, status, "{rule:?}");
    }
    // A NaN where the reference has a number never passes, whatever the rule.
    let mut world = open_world();
    world.task.tolerance.nan = NanRule::Equal;
    assert_eq!(run(&mut world, "brittle").0.status, Status::WrongResult);
}

#[test]
fn where_the_reference_is_not_finite_nothing_is_judged_and_that_is_said() {
    let mut world = open_world();
    world.task.validation.as_mut().unwrap().stress = vec![Stress::NearMax];
    world.task.reference.source = world.task.baseline.source.clone();
    let (outcome, checks) = run(&mut world, "good");
    assert_eq!(outcome, Outcome::ok());
    assert_eq!(told(&checks, ValidationStage::Stress).launches, 1);
}

#[test]
fn a_task_is_weak_by_the_fake_that_passes_it_whole_unless_it_allows_that() {
    let weak = |world: &mut World, fake: Fake| {
        let outcome = world.record("good").outcome;
        assert_eq!(outcome.status, Status::TaskWeak, "{fake:?}: {outcome:?}");
        let message = outcome.cause.unwrap().message;
        assert!(message.ends_with(&format!("(fake: {})", fake.name())), "{message}");
        allow(world, Validation { allow: vec![fake], ..Validation::default() });
        let outcome = world.record("good").outcome;
        assert_eq!(outcome.status, Status::Ok, "allowed: {outcome:?}");
    };
    // 2x + 1 is within 0.9 of x for all of these, and their own spread is twice that.
    let mut world = World::new();
    world.task.tolerance.absolute = decimal("0.9");
    let narrow = |low: &str, high: &str| Input::Uniform {
        low: decimal(low),
        high: decimal(high),
        specials: Vec::new(),
    };
    world.task.inputs.insert("x".to_owned(), narrow("-1.85", "-0.15"));
    weak(&mut world, Fake::CopiedInput);
    let mut world = World::new();
    world.task.inputs.insert("x".to_owned(), narrow("1", "1.00001"));
    let outcome = world.record("good").outcome;
    assert!(outcome.cause.unwrap().message.ends_with("(fake: constant)"));
    allow(&mut world, Validation { allow: vec![Fake::Constant], ..Validation::default() });
    let outcome = world.record("good").outcome;
    assert!(outcome.cause.unwrap().message.ends_with("(fake: other-seed)"));
    // One case that sees through a fake is enough.
    let mut world = World::new();
    world.task.cases[0].inputs.insert("x".to_owned(), narrow("1", "1.00001"));
    assert_eq!(world.record("good").outcome.status, Status::Ok);
}

#[test]
fn stages_that_the_policy_leaves_out_do_not_run_and_the_record_says_whose_choice_that_was() {
    let mut world = open_world();
    world.policy = world.policy.with_stages(&[OptionalStage::Stress]);
    let (outcome, checks) = run(&mut world, "good hardcodes wavers");
    assert_eq!(outcome, Outcome::ok(), "no stage that runs can see it");
    assert_eq!(findings(&checks), [PASSED, NO, PASSED, NO, PASSED, NO, PASSED, PASSED]);
    for stage in [ValidationStage::Smoke, ValidationStage::Shapes, ValidationStage::Determinism] {
        let one = told(&checks, stage);
        assert_eq!(one.detail, "left out by the policy cpu-paired/1+stages=stress");
        assert_eq!((one.launches, one.took.0), (0, 0), "{}", stage.name());
    }
    assert_eq!(told(&checks, ValidationStage::Cases).launches, 4, "no case is launched twice");
    // What always runs still finds what it finds.
    assert_eq!(run(&mut world, "wrong").0.status, Status::WrongResult);
    assert_eq!(run(&mut world, "brittle").0.cause.unwrap().code, "stress/mismatch");
    // A form that does not fit its fields is read by nobody.
    world.policy.format = "muster.policy/1".to_owned();
    assert_eq!(run_outcome(&mut world, "good").status, Status::Infrastructure);
}

fn run_outcome(world: &mut World, source: &str) -> Outcome {
    world.record(source).outcome
}

#[test]
fn a_wrong_answer_says_for_which_sizes_where_the_task_allows_to_try_more() {
    let message = |world: &mut World| world.record("odd").outcome.cause.unwrap().message;
    let known = message(&mut open_world());
    assert!(known.contains("only when n is odd"), "{known}");
    assert!(known.contains("right at n = 2, 4, 32"), "{known}");
    // The cases alone are two sizes: nothing is claimed.
    let unknown = message(&mut World::new());
    assert!(!unknown.contains("only when"), "{unknown}");
    // A candidate that is wrong for every size has no rule.
    let always = open_world().record("wrong").outcome.cause.unwrap().message;
    assert!(!always.contains("only when"), "{always}");
}

#[test]
fn a_candidate_that_is_the_baseline_once_more_or_uses_a_library_is_labelled_and_ranked() {
    let labels = |world: &mut World, source: &str| -> Vec<String> {
        let finished = world.run(source).unwrap();
        let result = record(&finished);
        assert_eq!(result.outcome, Outcome::ok(), "{source}");
        let blob = result.evidence.unwrap();
        let bytes = &finished.blobs.iter().find(|(name, _)| *name == blob).unwrap().1;
        let evidence: Evidence = canonical::from_bytes(bytes).unwrap();
        let labelled = evidence.checks.into_iter().filter(|one| one.finding == CheckFinding::Labelled);
        labelled.inspect(|one| assert_eq!(one.check, CheckName::label())).map(|one| one.detail).collect()
    };
    let mut world = World::new();
    world.baseline("baseline good");
    let expected = "same as the baseline (equal sources but for comments and white space)";
    assert_eq!(labels(&mut world, "baseline /* mine */\n good"), [expected]);
    assert!(labels(&mut world, "good baseline").is_empty(), "other words are another source");
    assert_eq!(
        labels(&mut world, "good cublasSgemm dlopen"),
        ["uses a library: cuBLAS, whatever it opens with dlopen"]
    );
    assert!(labels(&mut world, "good // cublasSgemm").is_empty(), "a comment calls nothing");
}
