//! The screens: each finds the faults it is for, and none objects to a right kernel.

mod kernels;

use crate::bench::{Bench, Given, Launch, bench, bench_with, input, launch, ramp};
use agent_node::backend::Backend;
use agent_node::backend::screen::{Finding, Screening};
use fleet_config::domain::{FaultKind, Screen, Status};
use kernels::{RIGHT, Subject, WRONG};
use std::fmt::Write as _;

const ELEMENTS: usize = 256;

fn source(subject: &Subject) -> String {
    format!(
        "{}\n#define T int(threadIdx.x)\n#define I int(blockIdx.x * blockDim.x + threadIdx.x)\nextern \"C\" __global__ void f(const float* x, float* y, int n) {{\n{}\n}}\n",
        subject.before, subject.body
    )
}

fn shape(subject: &Subject) -> Launch {
    let mut given = vec![input(&ramp(ELEMENTS)), Given::Out(ELEMENTS * 4), Given::Int(ELEMENTS as i32)];
    // One element less behind `y`, so that writing by thread index runs over.
    if subject.name == "global past the end" {
        given[1] = Given::Out(ELEMENTS * 4 - 40);
    }
    if subject.name == "global past the end, located" {
        given[2] = Given::Int(ELEMENTS as i32);
    }
    let mut shape = launch(subject.grid, subject.block, given);
    if subject.name == "global past the end, located" {
        shape.grid = [5, 1, 1];
    }
    shape.shared_bytes = subject.shared;
    shape.limit = 5_000;
    shape
}

fn run(bench: &Bench, subject: &Subject, screen: Screen) -> Screening {
    bench.screen(screen, &source(subject), "f", &shape(subject))
}

/// With `MUSTER_TABLE` set, prints which screen finds what in `subject` and at what cost in milliseconds, as a row of
/// the table in `docs/SCREENS.md`.
#[expect(clippy::disallowed_methods, reason = "the cost is what the row is for")]
fn print_row(bench: &Bench, subject: &Subject) {
    if std::env::var_os("MUSTER_TABLE").is_none() {
        return;
    }
    let mut row = format!("| {} |", subject.name);
    for screen in Screen::ALL {
        let from = std::time::Instant::now();
        let Screening { finding, runs, .. } = run(bench, subject, screen);
        let first = runs.first().map(|run| &run.buffers[1]);
        let differs = runs.iter().any(|run| Some(&run.buffers[1]) != first);
        let word = match finding {
            Finding::Fault(_) => "found",
            Finding::NoFaultFound if differs => "differs",
            Finding::NoFaultFound => "–",
            Finding::NotRun(_) => "not run",
        };
        let _ = write!(row, " {word} {} |", from.elapsed().as_millis());
    }
    println!("{row}");
}

/// A screen whose library is not installed is told on the way.
fn is_there(bench: &Bench, screen: Screen) -> bool {
    let offer = bench.backend.screens().into_iter().find(|offer| offer.screen == screen).unwrap();
    if let Some(missing) = offer.missing {
        eprintln!("SKIPPED: {screen}: {}; {}", missing.cause, missing.next);
        return false;
    }
    true
}

fn is_caught(bench: &Bench, screens: &[Screen]) {
    let mut wrong = String::new();
    for subject in WRONG.iter().filter(|subject| screens.contains(&subject.found_by.unwrap())) {
        let screen = subject.found_by.unwrap();
        if !is_there(bench, screen) {
            continue;
        }
        print_row(bench, subject);
        match run(bench, subject, screen) {
            // What an order changes is for the caller to compare.
            Screening { finding: Finding::NoFaultFound, runs, .. } if screen == Screen::Orders => {
                let outputs: Vec<_> = runs.iter().map(|run| &run.buffers[1]).collect();
                if outputs.len() != 3 || outputs.iter().all(|output| *output == outputs[0]) {
                    let _ = writeln!(wrong, "{}: every order gives the same", subject.name);
                }
            }
            Screening { finding: Finding::Fault(failure), .. } => {
                let cause = failure.outcome.cause.unwrap();
                if !cause.message.contains(subject.says) {
                    let _ = writeln!(wrong, "{}: {}", subject.name, cause.message);
                }
            }
            other => {
                let _ = writeln!(wrong, "{}: {screen}: {other:?}", subject.name);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn is_passed(bench: &Bench, screens: &[Screen]) {
    let mut wrong = String::new();
    if screens == Screen::CHEAP {
        RIGHT.iter().for_each(|subject| print_row(bench, subject));
    }
    for screen in screens.iter().filter(|screen| is_there(bench, **screen)) {
        // Sums onto an output that is given with zeros; here it is an output that nobody has set.
        let is_due = |subject: &&Subject| {
            *screen != Screen::UninitialisedMemory || subject.name != "atomic sum of all blocks"
        };
        for subject in RIGHT.iter().filter(is_due) {
            let Screening { finding, .. } = run(bench, subject, *screen);
            if !matches!(finding, Finding::NoFaultFound) {
                let _ = writeln!(wrong, "{}: {screen}: {finding:?}", subject.name);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_cheap_screens_find_what_they_are_for() {
    let Some(bench) = bench() else { return };
    is_caught(&bench, &Screen::CHEAP);
}

#[test]
fn the_cheap_screens_object_to_no_right_kernel() {
    let Some(bench) = bench() else { return };
    is_passed(&bench, &Screen::CHEAP);
}

#[test]
fn the_address_screen_finds_overruns_of_every_kind() {
    let Some(bench) = bench() else { return };
    is_caught(&bench, &[Screen::Address]);
}

#[test]
fn the_address_screen_objects_to_no_right_kernel() {
    let Some(bench) = bench() else { return };
    is_passed(&bench, &[Screen::Address]);
}

#[test]
fn outputs_that_are_read_before_they_are_written_are_found() {
    let Some(bench) = bench() else { return };
    is_caught(&bench, &[Screen::UninitialisedMemory]);
}

#[test]
fn no_right_kernel_reads_an_output_before_it_writes_it() {
    let Some(bench) = bench() else { return };
    is_passed(&bench, &[Screen::UninitialisedMemory]);
}

#[test]
fn races_inside_a_block_are_found() {
    let Some(bench) = bench() else { return };
    is_caught(&bench, &[Screen::RacesInBlock]);
}

#[test]
fn races_between_blocks_are_found() {
    let Some(bench) = bench() else { return };
    is_caught(&bench, &[Screen::RacesBetweenBlocks]);
}

#[test]
fn no_right_kernel_has_a_race_inside_a_block() {
    let Some(bench) = bench() else { return };
    is_passed(&bench, &[Screen::RacesInBlock]);
}

#[test]
fn no_right_kernel_has_a_race_between_blocks() {
    let Some(bench) = bench() else { return };
    is_passed(&bench, &[Screen::RacesBetweenBlocks]);
}

#[test]
fn clang_builds_of_the_screens_find_faults_too() {
    let Some(bench) = bench_with(&["/usr/bin/clang++".into()]) else { return };
    // Where its libraries are installed, every screen can be run.
    let missing = |screen: &Screen| !is_there(&bench, *screen);
    let sanitized = [Screen::Address, Screen::RacesInBlock, Screen::RacesBetweenBlocks];
    assert!(matches!(sanitized.iter().filter(|screen| missing(screen)).count(), 0 | 3));
    let names =
        ["end of a static shared array", "local array", "histogram without atomics", "sum of all blocks"];
    let mut wrong = String::new();
    for subject in WRONG.iter().filter(|subject| names.contains(&subject.name)) {
        let screen = subject.found_by.unwrap();
        if !is_there(&bench, screen) {
            continue;
        }
        match run(&bench, subject, screen).finding {
            Finding::Fault(failure) if failure.outcome.cause.as_ref().unwrap().source.is_some() => {}
            other => {
                let _ = writeln!(wrong, "{}: {other:?}", subject.name);
            }
        }
        let control = RIGHT.iter().find(|subject| subject.name == "double buffer").unwrap();
        let Screening { finding, .. } = run(&bench, control, screen);
        if !matches!(finding, Finding::NoFaultFound) {
            let _ = writeln!(wrong, "{}: {screen}: {finding:?}", control.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_race_is_told_with_variable_byte_threads_and_lines() {
    let Some(bench) = bench() else { return };
    if !is_there(&bench, Screen::RacesInBlock) {
        return;
    }
    let subject = WRONG.iter().find(|subject| subject.name == "dynamic shared memory without barrier");
    let Finding::Fault(failure) = run(&bench, subject.unwrap(), Screen::RacesInBlock).finding else {
        panic!("no fault");
    };
    assert_eq!(failure.outcome.status, Status::RuntimeError);
    let cause = failure.outcome.cause.unwrap();
    assert_eq!((cause.fault, cause.code.as_str()), (Some(FaultKind::Race), "screen/races-in-block"));
    let memory = cause.memory.unwrap();
    assert_eq!((memory.buffer.as_str(), memory.size), ("dynamic shared memory", 256));
    assert!(memory.offset >= 0 && memory.offset < 256 && memory.place.is_some(), "{memory:?}");
    let lines = ["kernels/cand.cu:6", "kernels/cand.cu:7"];
    assert!(lines.iter().all(|line| cause.message.contains(line)), "{}", cause.message);
    assert!(String::from_utf8(failure.log.unwrap()).unwrap().contains("ThreadSanitizer: data race"));
}
