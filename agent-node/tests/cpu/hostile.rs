//! Candidates that want a better time than they earn: what they can reach in their own process, and what it gains them.

use crate::bench::{Bench, Given, bench, bench_of_one_thread, bytes, launch, output, ramp};
use agent_node::backend::{Backend, Interrupt, Worker, WorkerOptions};
use agent_node::sandbox::Confinement;
use fleet_config::domain::{DeviceId, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const N: usize = 4096;

/// Finds the control page as any code in the process can, and answers the doorbell: `ring` and `done` are its first words.
pub(crate) const ANSWER: &str = r#"
#include <cstdio>
#include <cstring>
#include <unistd.h>
#include <sys/syscall.h>
static volatile unsigned* page() {
    static volatile unsigned* found = nullptr;
    if (found) return found;
    FILE* maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to, offset;
        if (strstr(line, "buffers") && sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) == 3 && offset == 0) {
            found = (volatile unsigned*)from;
            break;
        }
    }
    return found;
}
static void answer() {
    volatile unsigned* p = page();
    if (!p) return;
    p[1] = p[0];
    syscall(SYS_futex, (unsigned*)p + 1, 1 /* wake */, 1, 0, 0, 0);
}
"#;

fn source(body: &str) -> String {
    format!("{ANSWER}\nextern \"C\" __global__ void f(const float* x, float* y, int n) {{\n{body}\n}}\n")
}

fn worker(bench: &Bench, source: &str) -> Box<dyn Worker> {
    let artefact = bench.compile(source, "f", None).unwrap_or_else(|failure| panic!("{failure:?}"));
    let mut worker = bench.worker(&artefact, 60_000).unwrap();
    let shape = launch(1, 1, vec![Given::In(bytes(&ramp(N))), output(N), Given::Int(4096)]);
    crate::bench::prepare(worker.as_mut(), "f", &shape);
    worker
}

/// Keeps this thread busy, so that whatever could still run in the worker would.
fn linger() {
    let mut sum = 0_u64;
    for number in 0..200_000_000_u64 {
        sum = std::hint::black_box(sum ^ number);
    }
}

#[test]
fn a_launch_that_answers_before_its_work_has_no_outputs_to_show() {
    let Some(bench) = bench() else { return };
    // 10^9 steps of a chain that cannot be shortened, then the right outputs.
    let body = "answer(); volatile unsigned spin = 0; for (unsigned i = 0; i < 1000000000u; ++i) spin = spin + i;\n\
                for (int i = 0; i < n; ++i) y[i] = 2.f * x[i];";
    let mut worker = worker(&bench, &source(body));
    match worker.launch() {
        Ok(_) => {
            let early = worker.read(1).unwrap();
            assert!(early.iter().all(|byte| *byte == 0xff), "nothing was computed yet");
            assert_eq!(worker.sample(1, &[0, 4095], 4).unwrap(), [0xff; 8]);
            linger();
            assert_eq!(worker.read(1).unwrap(), early, "the worker computed while it was not its turn");
        }
        Err(failure) => assert_eq!(failure.outcome.status, Status::Suspicious, "{failure:?}"),
    }
}

#[test]
fn outputs_that_change_after_the_answer_are_suspicious() {
    let Some(bench) = bench() else { return };
    let body = "answer(); volatile float* out = y; for (unsigned k = 0;; ++k) { for (int i = 0; i < n; ++i) out[i] = (float)k; if (k % 64 == 0) answer(); }";
    let mut worker = worker(&bench, &source(body));
    for _ in 0..200 {
        match worker.launch() {
            // It had no processor between the answer and the stop; then it changed nothing either.
            Ok(_) => {
                let first = worker.read(1).unwrap();
                assert_eq!(worker.read(1).unwrap(), first);
            }
            Err(failure) => {
                assert_eq!(failure.outcome.status, Status::Suspicious, "{failure:?}");
                assert_eq!(failure.outcome.cause.unwrap().code, "run/late-write");
                return;
            }
        }
    }
    // On a crowded machine the supervisor may take the worker's processor at every answer. Then no output changed
    // after any of them, which the comparisons above hold. That a change is seen wherever there is one does not depend
    // on luck in the test of `Watch::across`, which makes it at the right moment.
    eprintln!("no write came between an answer and its stop: the machine is crowded");
}

#[test]
fn an_answer_to_a_question_that_was_not_asked_yet_counts_for_nothing() {
    let Some(bench) = bench() else { return };
    // The next number, had the doorbell counted upwards.
    let body = "for (int i = 0; i < n; ++i) y[i] = 2.f * x[i]; if (page()) page()[1] = page()[0] + 1;";
    let mut worker = worker(&bench, &source(body));
    for _ in 0..20 {
        worker.fill(1, 0xff).unwrap();
        worker.launch().unwrap();
        let right: Vec<f32> = ramp(N).iter().map(|x| 2.0 * x).collect();
        assert_eq!(worker.read(1).unwrap(), bytes(&right));
    }
}

#[test]
fn a_constructor_gets_no_thread_and_what_it_hangs_on_waking_is_timed() {
    // Of several threads the system may give the signal to one that the launch does not wait for.
    let Some(bench) = bench_of_one_thread() else { return };
    let source = r#"
#undef clock
#include <pthread.h>
#include <signal.h>
#include <time.h>
static int refused = -1;
static void* idle(void*) { for (;;) {} return nullptr; }
static void woken(int) {
    timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    do clock_gettime(CLOCK_MONOTONIC, &b); while ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec < 100000000L);
}
struct Early {
    Early() {
        pthread_t thread;
        refused = pthread_create(&thread, nullptr, idle, nullptr);
        struct sigaction action = {};
        action.sa_handler = woken;
        sigaction(SIGCONT, &action, nullptr);
    }
};
static Early early;
extern "C" __global__ void f(const float* x, float* y, int n) {
    for (int i = 0; i < n; ++i) y[i] = (float)refused;
}
"#;
    let mut worker = worker(&bench, source);
    let time = worker.launch().unwrap();
    let said = f32::from_le_bytes(worker.read(1).unwrap()[..4].try_into().unwrap());
    assert!(said > 0.0, "a thread was made: {said}");
    assert!(time.0 >= 50_000_000_000, "work before the doorbell is free: {time}");
}

#[test]
fn a_cancel_ends_an_endless_launch_and_a_compiler_long_before_their_limits() {
    let Some(mut bench) = bench() else { return };
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    bench.interrupt = Interrupt::when(move || counter.fetch_add(1, Ordering::Relaxed) >= 3);
    let endless = source("volatile int go = 1; while (go) {}");
    let before = std::mem::replace(&mut bench.interrupt, Interrupt::never());
    let artefact = bench.compile(&endless, "f", None).unwrap();
    bench.interrupt = before;
    let mut worker = bench.worker(&artefact, 60_000).unwrap();
    let shape = launch(1, 1, vec![Given::In(bytes(&ramp(N))), output(N), Given::Int(4096)]);
    crate::bench::prepare(worker.as_mut(), "f", &shape);
    let start = agent_node::clock::monotonic();
    let failure = worker.launch().unwrap_err();
    assert_eq!(failure.outcome.status, Status::Infrastructure, "{failure:?}");
    bench.interrupt = Interrupt::when(|| true);
    let failure = bench.compile(&source("y[0] = 17.f;"), "f", None).unwrap_err();
    assert_eq!(failure.outcome.status, Status::Infrastructure, "{failure:?}");
    let took = agent_node::clock::monotonic() - start;
    assert!(took < Duration::from_secs(20), "{took:?} of two limits of 60 s");
}

/// The kernel stops no other thread for one that waits for its tracer, never calls the process stopped, and lets it end only
/// after that thread is taken.
#[test]
fn a_thread_that_asks_to_be_traced_is_named_and_its_worker_ends() {
    let Some(bench) = bench() else { return };
    let several = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    for (whose, there) in [("gettid() == getpid()", true), ("gettid() != getpid()", several)] {
        // Every block takes a while, so that each thread gets some.
        let body = format!(
            "if ({whose}) asked = ptrace(PTRACE_TRACEME, 0, 0, 0);\n\
             volatile int spin = 0; for (int i = 0; i < 100000; ++i) spin = spin + i;\n\
             if (blockIdx.x == 0) for (int i = 0; i < n; ++i) y[i] = (float)asked;"
        );
        let source = format!(
            "#include <sys/ptrace.h>\n#include <unistd.h>\nstatic volatile long asked = -1;\n{}",
            source(&body)
        );
        let artefact = bench.compile(&source, "f", None).unwrap();
        let shape = launch(64, 1, vec![Given::In(bytes(&ramp(N))), output(N), Given::Int(4096)]);
        // The sandbox refuses the call, and the launch is like any other.
        let mut confined = bench.worker(&artefact, 60_000).unwrap();
        crate::bench::prepare(confined.as_mut(), "f", &shape);
        confined.launch().unwrap();
        assert_eq!(confined.read(1).unwrap()[..4], (-1.0_f32).to_le_bytes(), "{whose}");
        if !there {
            continue;
        }
        let options = WorkerOptions { confinement: Confinement::UnsafeNone, ..bench.options(5_000) };
        let mut free = bench.backend.open(&DeviceId("CPU-test".to_owned()), &artefact, &options).unwrap();
        crate::bench::prepare(free.as_mut(), "f", &shape);
        // On a crowded machine one thread may take all blocks of a launch.
        let failure = (0..100).find_map(|_| free.launch().err()).expect(whose);
        // If another thread took the signal, the traced one stops too, and stays so in the next launch.
        let (status, code) = (failure.outcome.status, failure.outcome.cause.unwrap().code);
        let named = (Status::Suspicious, "run/traced");
        let hung = (Status::Timeout, "launch/time-limit");
        assert!([named, hung].contains(&(status, code.as_str())), "{whose}: {status:?} {code}");
        free.finish();
    }
}
