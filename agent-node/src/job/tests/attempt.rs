//! What one attempt does in which order, and what it says about candidate, task and fleet.

use super::world::{Disk, World, decimal, plan, record};
use crate::job::AttemptError;
use fleet_config::domain::{
    Blame, Candidate, Input, Milliseconds, Outcome, PartsPerBillion, Stage, Status, canonical,
};
use ledger::entry::decode_samples;
use ledger::entry::predicate::{Evidence, VolatileFacts};

fn check(source: &str, status: Status, stage: Stage, blame: Blame, code: &str) -> Outcome {
    let outcome = World::new().record(source).outcome;
    let found = outcome.cause.as_ref().map(|cause| cause.code.as_str());
    assert_eq!((outcome.status, outcome.stage, outcome.blame), (status, stage, blame), "{outcome:?}");
    assert_eq!(found, Some(code));
    outcome
}

fn place(events: &[String], line: &str) -> usize {
    events.iter().position(|event| event == line).unwrap_or_else(|| panic!("no `{line}` in {events:#?}"))
}

#[test]
fn a_good_candidate_is_ok_and_faster_by_what_the_clock_says() {
    let mut world = World::new();
    let finished = world.run("good fast").unwrap();
    let result = record(&finished);
    assert_eq!(result.outcome, Outcome::ok());
    assert_eq!(result.timings.len(), 1);
    assert_eq!(result.timings[0].ratio, PartsPerBillion(2_000_000_000));
    let blob = |name| &finished.blobs.iter().find(|(blob, _)| *blob == name).unwrap().1;
    let series = decode_samples(blob(result.timings[0].samples)).unwrap();
    assert_eq!(series.baseline.len(), usize::try_from(result.timings[0].pairs).unwrap());
    let evidence: Evidence = canonical::from_bytes(blob(result.evidence.unwrap())).unwrap();
    assert_eq!(evidence.cases.len(), 4, "two cases, two draws");
    assert_eq!(evidence.cases[0].outputs, evidence.cases[0].expected);
    assert_ne!(evidence.cases[0].inputs, evidence.cases[1].inputs);
    let volatile: VolatileFacts = canonical::from_bytes(blob(result.volatile)).unwrap();
    assert!(!volatile.before.is_empty() && volatile.during.len() == 1 && !volatile.after.is_empty());
    for named in result.blobs() {
        assert!(finished.blobs.iter().any(|(blob, _)| *blob == named), "{named:?} is not sent");
    }
    assert_eq!(result.seeds.len(), 2);
}

#[test]
fn the_reference_is_dead_before_the_candidate_starts_and_the_candidate_before_anything_is_compared() {
    let mut world = World::new();
    world.run("good").unwrap();
    let events = world.events();
    assert!(place(&events, "kill reference good") < place(&events, "open good"));
    // Validation opens the candidate for the smoke stage and once per case, each time after the last one's end; the
    // task's own once.
    let validation = &events[..place(&events, "hold Alone")];
    let count = |what: &str| validation.iter().filter(|event| *event == what).count();
    assert_eq!((count("open good"), count("open reference good"), count("open baseline good")), (3, 1, 1));
    let timing = &events[validation.len()..];
    assert!(place(timing, "kill good") < place(timing, "open reference good"));
    let mut alive = 0;
    for event in validation {
        alive += i32::from(event == "open good") - i32::from(event == "kill good");
        assert!(alive <= 1);
        assert!(!(alive == 1 && event.starts_with("open reference")), "expected values beside a candidate");
    }
    // A wrong candidate's verdict comes after its end: nothing of it is alive when the attempt is signed.
    let mut world = World::new();
    world.run("wrong").unwrap();
    let events = world.events();
    assert!(place(&events, "kill wrong") < place(&events, "progress sign"));
}

#[test]
fn the_first_draw_is_launched_twice_in_different_poison() {
    let mut world = World::new();
    world.run("good").unwrap();
    let fills: Vec<String> =
        world.events().into_iter().filter(|e| e.starts_with("fill") && e.ends_with(" good")).collect();
    let own: Vec<&str> =
        fills.iter().filter(|e| e.split(' ').count() == 3).map(String::as_str).take(4).collect();
    let [smoke, case] = ["fill ff good", "fill 7b good"];
    assert_eq!(
        own,
        [smoke, smoke, case, smoke],
        "the smoke stage, then two launches of draw one and one of two"
    );
}

#[test]
fn compiling_and_validating_share_the_machine_and_timing_has_it_alone() {
    let mut world = World::new();
    world.run("good").unwrap();
    let holds: Vec<String> =
        world.events().into_iter().filter(|e| e.starts_with("hold") || e.starts_with("release")).collect();
    let expected = ["Shared", "Shared", "Shared", "Shared", "Alone", "Shared"]
        .map(|hold| [format!("hold {hold}"), format!("release {hold}")])
        .concat();
    assert_eq!(holds, expected, "three compilations, one group of cases, one timed case and its verdict");
}

#[test]
fn waiting_for_the_machine_is_queueing_however_the_stage_ends() {
    let times = World::new().record("good").stage_times;
    assert_eq!((times.queue, times.compile), (Milliseconds(5 + 6 * 3), Milliseconds(0)));
    let times = World::new().record("syntax").stage_times;
    assert_eq!((times.queue, times.compile), (Milliseconds(5 + 3 * 3), Milliseconds(0)));
}

#[test]
fn a_machine_that_others_keep_is_waited_for_no_longer_than_the_lease_allows() {
    let mut world = World::new();
    world.disk = Disk::MachineTaken;
    let result = world.record("good");
    let outcome = &result.outcome;
    assert_eq!(
        (outcome.status, outcome.stage, outcome.blame),
        (Status::Infrastructure, Stage::Time, Blame::Fleet)
    );
    assert_eq!(outcome.cause.as_ref().unwrap().code, "machine/crowded");
    // 90 s of lease less the 60 s that running may still take.
    assert!((29_900..31_000).contains(&result.stage_times.queue.0), "{}", result.stage_times.queue);
}

#[test]
fn a_candidate_that_remembers_or_leaves_out_timed_launches_is_wrong() {
    // Right in validation, where each case has two draws and the first launch of a process is remembered.
    let mut world = World::new();
    world.policy.draws = 1;
    world.task.cases.remove(0);
    for source in ["remembers", "skips"] {
        let outcome = world.record(source).outcome;
        let found = (outcome.status, outcome.stage, outcome.blame);
        assert_eq!(found, (Status::WrongResult, Stage::Time, Blame::Candidate), "{source}: {outcome:?}");
        let cause = outcome.cause.unwrap();
        assert!(cause.mismatch.is_some() && cause.case.as_deref() == Some("wide"), "{cause:?}");
    }
}

#[test]
fn each_fault_of_a_candidate_has_its_status() {
    let candidate = Blame::Candidate;
    let outcome = check("wrong", Status::WrongResult, Stage::Validate, candidate, "validate/mismatch");
    let cause = outcome.cause.unwrap();
    assert_eq!(cause.case.as_deref(), Some("odd"));
    assert_eq!(cause.mismatch.map(|m| (m.index, m.count, m.total)), Some((0, 1, 7)));
    check("idle", Status::WrongResult, Stage::Validate, candidate, "validate/mismatch");
    check("zeros", Status::WrongResult, Stage::Validate, candidate, "validate/mismatch");
    check("tires", Status::WrongResult, Stage::Time, candidate, "time/mismatch");
    check("overruns", Status::ContractViolation, Stage::Validate, candidate, "contract/fence");
    check("crash", Status::RuntimeError, Stage::Validate, candidate, "run/fault");
    check("nul \0", Status::Rejected, Stage::Prepare, candidate, "prepare/nul-byte");
    let outcome =
        check("scribbles", Status::ContractViolation, Stage::Validate, candidate, "contract/input-modified");
    let memory = outcome.cause.unwrap().memory.unwrap();
    assert_eq!((memory.buffer.as_str(), memory.offset), ("x", 8));
    let outcome = check("syntax", Status::CompileError, Stage::Compile, candidate, "compile/error");
    assert!(outcome.log.is_some());
}

#[test]
fn a_source_with_nul_reaches_no_compiler() {
    let mut world = World::new();
    world.run("nul \0").unwrap();
    assert!(!world.events().iter().any(|event| event.starts_with("compile")));
}

#[test]
fn faults_of_the_fleet_are_never_charged_to_the_candidate() {
    check("panic", Status::Infrastructure, Stage::Compile, Blame::Fleet, "node/panic");
    check("lost", Status::WorkerLost, Stage::Validate, Blame::Fleet, "run/lost");
    for (disk, stage, code) in [
        (Disk::SourcesMissing, Stage::Prepare, "prepare/missing-blob"),
        (Disk::LockUnwritable, Stage::Compile, "machine/lock"),
    ] {
        let mut world = World::new();
        world.disk = disk;
        let outcome = world.record("good").outcome;
        assert_eq!(
            (outcome.status, outcome.stage, outcome.blame),
            (Status::Infrastructure, stage, Blame::Fleet)
        );
        assert_eq!(outcome.cause.unwrap().code, code);
    }
}

#[test]
fn without_the_candidates_document_there_is_nothing_to_sign() {
    let mut world = World::new();
    world.disk = Disk::DocumentsMissing;
    assert!(matches!(world.run("good"), Err(AttemptError::Unprepared(_))));
}

#[test]
fn faults_of_reference_and_baseline_are_the_tasks() {
    for (which, text, status) in [
        ("reference", "syntax", Status::CompileError),
        ("reference", "crash", Status::RuntimeError),
        ("baseline", "wrong", Status::WrongResult),
        ("baseline", "overruns", Status::ContractViolation),
    ] {
        let mut world = World::new();
        let digest = fleet_config::domain::BlobRef::of(text.as_bytes());
        world.blobs.insert(digest.blake3, text.as_bytes().to_vec());
        let implementation =
            if which == "reference" { &mut world.task.reference } else { &mut world.task.baseline };
        implementation.source.files[0].blob = digest;
        let outcome = world.record("good").outcome;
        assert_eq!((outcome.status, outcome.blame), (status, Blame::Task), "{which} {text}");
        assert!(outcome.cause.unwrap().message.contains(which) || which == "baseline");
    }
}

#[test]
fn a_task_that_zeros_or_nothing_would_pass_is_weak() {
    let mut world = World::new();
    world.task.tolerance.absolute = decimal("100");
    let outcome = world.record("zeros").outcome;
    assert_eq!((outcome.status, outcome.blame), (Status::TaskWeak, Blame::Task));
    let message = outcome.cause.unwrap().message;
    assert!(message.contains("zero") && message.contains("tolerance"), "{message}");

    // With all-zero inputs y is one everywhere: a constant is enough.
    let mut world = World::new();
    world.task.inputs.insert("x".to_owned(), Input::Constant { value: decimal("0") });
    let outcome = world.record("good").outcome;
    assert_eq!(outcome.status, Status::TaskWeak);
    assert!(outcome.cause.unwrap().message.ends_with("(fake: constant)"));
}

#[test]
fn a_cancelled_attempt_stops_between_steps_and_inside_them_and_signs_nothing() {
    for line in ["progress prepare", "compile baseline good", "launch reference good", "hold Alone"] {
        let mut world = World::new();
        world.cancel_after = Some(line);
        assert!(matches!(world.run("good"), Err(AttemptError::Cancelled)), "{line}");
        let events = world.events();
        assert!(!events.iter().any(|event| event == "progress sign"));
        let count = |what: &str| events.iter().filter(|event| event.starts_with(what)).count();
        assert_eq!(count("open"), count("kill"), "no worker outlives its attempt");
        assert_eq!(count("hold"), count("release"));
    }
}

#[test]
fn the_run_limit_ends_an_attempt_as_a_timeout() {
    let mut world = World::new();
    world.task.limits.run = Milliseconds(30);
    let outcome = world.record("good").outcome;
    assert_eq!(outcome.status, Status::Timeout);
    assert_eq!(outcome.cause.unwrap().code, "run/limit");
}

#[test]
fn a_slow_node_is_no_fault_of_a_candidate() {
    let mut world = World::new();
    world.disk = Disk::MachineSlow;
    let outcome = world.record("good").outcome;
    assert_eq!((outcome.status, outcome.blame), (Status::Infrastructure, Blame::Fleet));
    assert_eq!(outcome.cause.unwrap().code, "run/lease-over");
}

#[test]
fn a_launch_shape_beyond_the_limit_names_both_numbers() {
    let mut world = World::new();
    world.plan = Some(plan("1", "1024 * 2"));
    let outcome = world.record("good").outcome;
    assert_eq!((outcome.status, outcome.blame), (Status::LaunchError, Blame::Candidate));
    let message = outcome.cause.unwrap().message;
    assert!(message.contains("2048 threads per block, limit 1024"), "{message}");
}

#[test]
fn a_candidate_of_another_format_is_no_fault_of_its_author() {
    let mut world = World::new();
    world.task.format = "muster.task/9".to_owned();
    let outcome = world.record("good").outcome;
    assert_eq!((outcome.status, outcome.blame), (Status::Infrastructure, Blame::Fleet));
    assert_ne!(Candidate::FORMAT, world.task.format);
}
