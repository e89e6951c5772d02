//! Candidates whose static initialisers, which run while they are loaded, want their failure to look like the fleet's.

use crate::bench::{Bench, Given, bench, bytes, evaluate, floats, launch, output, ramp};
use crate::hostile::ANSWER;
use agent_node::backend::{Backend, Failure, Worker, WorkerOptions};
use agent_node::sandbox::Confinement;
use fleet_config::domain::{Blame, Cause, DeviceId, FaultKind, Status};

const N: usize = 64;
/// A launch limit below the shortest limit of a load.
const BRIEF: u64 = 100;
const PATIENT: u64 = 60_000;

/// Words of the control page beside `ring` and `done`.
const PAGE: &str = r#"
#include <csignal>
static void report(unsigned status, const char* text, unsigned length) {
    volatile unsigned* p = page();
    if (!p) _exit(99);
    volatile char* to = (volatile char*)(p + 7);
    for (unsigned i = 0; i < length && i < 240; ++i) to[i] = text[i];
    p[6] = 0xffffffffu;
    p[2] = status;
    answer();
}
"#;

fn source(constructor: &str) -> String {
    format!(
        "{ANSWER}{PAGE}struct Early {{ Early() {{ {constructor} }} }};\nstatic Early early;\n\
         extern \"C\" __global__ void f(const float* x, float* y, int n) {{ for (int i = 0; i < n; ++i) y[i] = 2.f * x[i]; }}\n"
    )
}

fn open(bench: &Bench, constructor: &str, limit: u64) -> Result<Box<dyn Worker>, Failure> {
    let artefact = bench.compile(&source(constructor), "f", None).unwrap();
    bench.worker(&artefact, limit)
}

/// Prepares and launches once; whether the outputs are right.
fn works(worker: &mut dyn Worker) -> Result<bool, Failure> {
    let shape = launch(1, 1, vec![Given::In(bytes(&ramp(N))), output(N), Given::Int(64)]);
    let buffers = evaluate(worker, "f", &shape)?;
    let right: Vec<f32> = ramp(N).iter().map(|x| 2.0 * x).collect();
    Ok(floats(&buffers[1]) == right)
}

fn is_the_candidates(failure: &Failure, status: Status, code: &str) -> Cause {
    let outcome = &failure.outcome;
    assert_eq!((outcome.status, outcome.blame), (status, Blame::Candidate), "{outcome:?}");
    let cause = outcome.cause.clone().unwrap();
    assert_eq!(cause.code, code, "{cause:?}");
    cause
}

/// The constructor fails as the candidate's, and the job after it knows nothing of that.
fn fails(constructor: &str, limit: u64, status: Status, code: &str) -> Option<Cause> {
    let bench = bench()?;
    let cause = is_the_candidates(&open(&bench, constructor, limit).err().unwrap(), status, code);
    assert!(works(open(&bench, "", PATIENT).unwrap().as_mut()).unwrap(), "the next job");
    Some(cause)
}

#[test]
fn a_constructor_that_reports_a_failed_set_up_is_a_failed_load() {
    let report = "const char t[] = \"threads: no more processes\"; report(4, t, sizeof t - 1);";
    let Some(cause) = fails(report, PATIENT, Status::LaunchError, "launch/load") else { return };
    assert!(cause.message.contains("status 4, \"threads: no more processes"), "{}", cause.message);
    // The same where it waits for its judgement, so that nothing of the worker's own comes after it.
    let waits = format!("{report} for (;;) {{}}");
    fails(&waits, PATIENT, Status::LaunchError, "launch/load");
}

#[test]
fn a_text_of_a_constructor_is_quoted_and_bounded() {
    let body = "static char t[240]; const char e[] = \"\\x1b[2J\\x1b]0;owned\\x07\"; \
                for (unsigned i = 0; i < 240; ++i) t[i] = e[i % (sizeof e - 1)]; report(3, t, 240);";
    let Some(cause) = fails(body, PATIENT, Status::LaunchError, "launch/load") else { return };
    assert!(cause.message.contains("\\u{1b}[2J\\u{1b}]0;owned\\u{7}"), "{}", cause.message);
    assert!(cause.message.chars().all(|letter| !letter.is_control()), "{:?}", cause.message);
    assert!(cause.message.len() < 2000, "{}", cause.message.len());
}

#[test]
fn a_constructor_that_answers_early_skips_nothing() {
    let Some(bench) = bench() else { return };
    let late =
        "answer(); volatile unsigned spin = 0; for (unsigned i = 0; i < 100000000u; ++i) spin = spin + i;";
    let mut worker = open(&bench, late, PATIENT).unwrap();
    assert!(works(worker.as_mut()).unwrap(), "the map was lost");
}

#[test]
fn a_constructor_that_answers_early_and_dies_is_the_candidates() {
    let Some(bench) = bench() else { return };
    let dies = "answer(); volatile unsigned spin = 0; for (unsigned i = 0; i < 100000000u; ++i) spin = spin + i; _exit(0);";
    // Whether the end is seen while it is loaded or when buffers are mapped depends on the machine.
    let failure = open(&bench, dies, PATIENT).and_then(|mut worker| works(worker.as_mut())).unwrap_err();
    let cause = is_the_candidates(&failure, Status::RuntimeError, "launch/worker-ended");
    assert_eq!(cause.vendor_code.as_deref(), Some("exit 0"));
    assert!(works(open(&bench, "", PATIENT).unwrap().as_mut()).unwrap(), "the next job");
}

#[test]
fn a_constructor_that_answers_everything_itself_has_no_outputs_to_show() {
    let Some(bench) = bench() else { return };
    let mut worker = open(&bench, "for (;;) answer();", PATIENT).unwrap();
    assert!(!works(worker.as_mut()).unwrap(), "nothing was computed");
    assert!(works(open(&bench, "", PATIENT).unwrap().as_mut()).unwrap(), "the next job");
}

#[test]
fn an_endless_constructor_is_a_timeout_of_the_load() {
    let body = "volatile int go = 1; while (go) {}";
    let Some(cause) = fails(body, BRIEF, Status::Timeout, "launch/load-time-limit") else { return };
    assert!(cause.message.contains("loading") && cause.message.contains("timed out"), "{}", cause.message);
}

#[test]
fn a_constructor_that_ends_the_process_is_the_candidates() {
    let Some(cause) = fails("_exit(0);", PATIENT, Status::RuntimeError, "launch/worker-ended") else {
        return;
    };
    assert_eq!((cause.fault, cause.vendor_code.as_deref()), (Some(FaultKind::ForbiddenCall), Some("exit 0")));
    assert!(cause.message.contains("while the candidate was loaded"), "{}", cause.message);
}

#[test]
fn a_constructor_that_faults_is_the_candidates() {
    let body = "volatile unsigned long nowhere = 16; *(volatile int*)nowhere = 1;";
    let Some(cause) = fails(body, PATIENT, Status::RuntimeError, "launch/fault") else { return };
    assert!(cause.message.contains("while the candidate was loaded"), "{}", cause.message);
}

#[test]
fn a_constructor_cannot_kill_its_confined_process_and_is_blamed_where_it_can() {
    let Some(bench) = bench() else { return };
    // The sandbox refuses the signal, so that the candidate goes on as if nothing had been asked.
    let artefact = bench.compile(&source("raise(SIGKILL);"), "f", None).unwrap();
    assert!(works(bench.worker(&artefact, PATIENT).unwrap().as_mut()).unwrap());
    let options = WorkerOptions { confinement: Confinement::UnsafeNone, ..bench.options(PATIENT) };
    let killed = bench.backend.open(&DeviceId("CPU-test".to_owned()), &artefact, &options).err().unwrap();
    let cause = is_the_candidates(&killed, Status::RuntimeError, "launch/worker-ended");
    assert_eq!((cause.fault, cause.vendor_code.as_deref()), (Some(FaultKind::Killed), Some("SIGKILL")));
    assert!(works(open(&bench, "", PATIENT).unwrap().as_mut()).unwrap(), "the next job");
}
