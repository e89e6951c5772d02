//! Candidates that mean harm to the node or to the verdict: each is blamed for itself, and the node lives.

use crate::levels::{at_level, levels};
use crate::{CLASS, PATIENCE};
use fleet_tests::fleet::Fleet;
use fleet_tests::saxpy::{self, RIGHT, kernel};
use std::path::PathBuf;

/// Finds the page that worker and supervisor share, by its name in the list of mappings.
const SHARED_PAGE: &str = r#"
extern "C" { int open(const char*, int, ...); long read(int, void*, unsigned long); }
static bool first(const char* offset) { for (int k = 0; k < 8; k++) if (offset[k] != '0') return false; return true; }
static volatile unsigned* page() {
  static char bytes[1 << 18]; int f = open("/proc/self/maps", 0); long n = 0, got;
  while (f >= 0 && n < (long)sizeof bytes && (got = read(f, bytes + n, sizeof bytes - n)) > 0) n += got;
  for (long line = 0, at = 0; at < n; at++) {
    if (bytes[at] != '\n') continue;
    bool memfd = false, shared = false;
    for (long k = line; k + 13 < at; k++) {
      memfd |= bytes[k] == 'm' && bytes[k + 1] == 'e' && bytes[k + 2] == 'm' && bytes[k + 3] == 'f' && bytes[k + 4] == 'd';
      shared |= bytes[k] == 'r' && bytes[k + 1] == 'w' && bytes[k + 3] == 's' && first(bytes + k + 5);
    }
    if (memfd && shared) {
      unsigned long address = 0;
      for (long k = line; bytes[k] != '-'; k++) address = 16 * address + (bytes[k] <= '9' ? bytes[k] - '0' : bytes[k] - 'a' + 10);
      return (volatile unsigned*)address;
    }
    line = at + 1;
  }
  return 0;
}
"#;

/// Name, source, and the statuses that are right for it.
type Case = (&'static str, String, &'static [&'static str]);

fn while_compiled() -> Vec<Case> {
    const FAILS: &[&str] = &["compile_error", "compile_timeout"];
    vec![
        (
            "template-bomb",
            kernel(
                "template <unsigned long A, unsigned long B> struct T { static const unsigned long v = T<A - 1, 2 * B>::v + T<A - 1, 2 * B + 1>::v; };\n\
                 template <unsigned long B> struct T<0, B> { static const unsigned long v = B; };\nstatic const unsigned long v = T<40, 1>::v;",
                RIGHT,
            ),
            FAILS,
        ),
        ("huge-array", kernel("char muster_huge[9ul << 30] = {1};", RIGHT), FAILS),
        ("include-itself", kernel("#include __FILE__", RIGHT), FAILS),
        (
            "endless-constant",
            kernel(
                "constexpr int f(int n) { int s = 0; for (long i = 0; i < (1l << 60); i++) s += n; return s; }\nconstexpr int k = f(3);",
                RIGHT,
            ),
            FAILS,
        ),
        ("error-flood", kernel(&"unknown_word x;\n".repeat(20_000), RIGHT), FAILS),
    ]
}

fn while_running() -> Vec<Case> {
    const FAILS: &[&str] =
        &["runtime_error", "launch_error", "timeout", "contract_violation", "wrong_result"];
    const OWN_END: &[&str] = &["runtime_error", "launch_error", "compile_error"];
    let spoof = |status: u32| {
        let body = format!(
            "  volatile unsigned* p = page(); if (p && i == 0) {{ p[2] = {status}u; p[1] = p[0]; while (true) {{}} }}\n{RIGHT}"
        );
        kernel(SHARED_PAGE, &body)
    };
    vec![
        ("endless", kernel("", "  volatile int go = 1; while (go) {}"), &["timeout"]),
        ("faulting", kernel("", "  *(volatile int*)64 = i;"), &["runtime_error"]),
        ("constructor-crash", kernel("struct C { C() { *(volatile int*)64 = 1; } } c;", RIGHT), OWN_END),
        (
            "constructor-exit",
            kernel("extern \"C\" void _exit(int);\nstruct C { C() { _exit(0); } } c;", RIGHT),
            OWN_END,
        ),
        ("constructor-throw", kernel("struct C { C() { throw 1; } } c;", RIGHT), OWN_END),
        ("exit", kernel("extern \"C\" void _exit(int);", "  _exit(0);"), OWN_END),
        ("abort", kernel("extern \"C\" void abort();", "  abort();"), OWN_END),
        (
            "killed-by-itself",
            kernel(
                "extern \"C\" { int kill(int, int); int getpid(); }",
                "  kill(getpid(), 9); kill(getpid(), 19);\n  if (i < n) z[i] = 7.0f;",
            ),
            FAILS,
        ),
        (
            "recursion",
            kernel(
                "__device__ int f(volatile int* p, int n) { volatile int q[64]; q[n & 63] = *p; return f(q, n + 1) + q[1]; }",
                "  int k = 0; z[0] = f(&k, i);",
            ),
            &["runtime_error"],
        ),
        (
            "scribble",
            kernel(
                SHARED_PAGE,
                &format!(
                    "  volatile unsigned* p = page(); if (p && i == 0) for (int k = 0; k < 16384; k++) p[k] = 0xffffffffu;\n{RIGHT}"
                ),
            ),
            FAILS,
        ),
        ("spoof-done", spoof(0), &["wrong_result", "timeout", "runtime_error"]),
        ("spoof-setup", spoof(4), FAILS),
        ("spoof-unknown", spoof(77), FAILS),
        ("spoof-fault", spoof(2), FAILS),
        ("spoof-load", spoof(3), FAILS),
    ]
}

fn assert_survived(cases: &[Case], level: &str) {
    let mut fleet = Fleet::new();
    at_level(&mut fleet, level, &[]);
    let limits =
        [("launch_ms = 10_000", "launch_ms = 3_000"), ("compile_ms = 60_000", "compile_ms = 20_000")];
    fleet.add_task(saxpy::task_with(&fleet, "hostile", &limits).to_str().expect("UTF-8"));
    let good = saxpy::good_ones(&fleet, "good", 2);
    let write = |case: &Case| fleet.write(&format!("{}.cu", case.0), case.1.as_bytes());
    let mut candidates: Vec<PathBuf> = vec![good[0].clone()];
    candidates.extend(cases.iter().map(write));
    candidates.push(good[1].clone());
    let receipt = fleet.try_submit("hostile", &candidates, &["--on", CLASS]).expect("acknowledged");
    let cells = fleet.await_over(std::slice::from_ref(&receipt), PATIENCE);
    let mut wrong = Vec::new();
    for cell in &cells {
        let name = cell["name"].as_str().expect("a name");
        let record = fleet.record_of(cell);
        let outcome = &record["statement"]["predicate"]["outcome"];
        let status = outcome["status"].as_str().unwrap_or("none");
        println!("{name}: {status}, {}", outcome["cause"]["message"]);
        let expected = cases.iter().find(|case| case.0 == name).map_or(&["ok"][..], |case| case.2);
        let blamed = status == "ok" || outcome["blame"] == "candidate";
        let told = &record["statement"]["predicate"]["sandbox"];
        if !expected.contains(&status) || !blamed || cell["attempts"] != 1 || told != level {
            wrong.push(format!("{name}: {cell} {outcome:#}"));
        }
        let log = record["log"].as_str().map_or(0, str::len);
        assert!(log <= 1 << 20, "{name} leaves a log of {log} bytes");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    fleet.book().assert_settled(&receipt.cells);
    fleet.verify();
}

#[test]
fn sources_that_overwhelm_a_compiler_harm_nobody_else() {
    levels().iter().for_each(|level| assert_survived(&while_compiled(), level));
}

#[test]
fn kernels_that_attack_their_worker_harm_nobody_else() {
    levels().iter().for_each(|level| assert_survived(&while_running(), level));
}

#[test]
fn a_flood_of_output_is_cut_and_changes_no_verdict() {
    levels().iter().for_each(|level| assert_cut(level));
}

fn assert_cut(level: &str) {
    let mut fleet = Fleet::new();
    at_level(&mut fleet, level, &[]);
    fleet.add_task(saxpy::TASK);
    let before = "extern \"C\" long write(int, const void*, unsigned long);\nstatic char line[1 << 16];";
    let flood = "  if (i == 0) { for (int k = 0; k < 65536; k++) line[k] = 'f'; for (int k = 0; k < 64; k++) write(1 + (k & 1), line, 65536); }";
    let right = fleet.write("flood-right.cu", kernel(before, &format!("{flood}\n{RIGHT}")).as_bytes());
    let crash = fleet
        .write("flood-crash.cu", kernel(before, &format!("{flood}\n  *(volatile int*)64 = 1;")).as_bytes());
    let cells = fleet.submit("saxpy", &[right, crash], &["--on", CLASS]);
    for cell in &cells {
        let expected = if cell["name"] == "flood-right" { "ok" } else { "runtime_error" };
        let record = fleet.record_of(cell);
        let outcome = &record["statement"]["predicate"]["outcome"];
        assert_eq!(outcome["status"], expected, "{outcome:#}");
        assert!(record["log"].as_str().map_or(0, str::len) <= 1 << 20);
    }
    fleet.verify();
}
