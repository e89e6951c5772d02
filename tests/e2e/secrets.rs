//! What a candidate must not read, tried by candidates at compile time and at run time.
//!
//! Each candidate is right only if its attack succeeds: an `ok` is a breach, and every other verdict is its own fault.

use crate::CLASS;
use crate::levels::{at_level, levels};
use fleet_tests::fleet::Fleet;
use fleet_tests::saxpy::{self, RIGHT, kernel};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The planted text; a declaration, so that a file with it compiles wherever it can be included.
const SECRET: &str = "muster_secret_5b1e0c7d";
const VARIABLE: &str = "MUSTER_TEST_SECRET";

/// Declared by hand, since a candidate need not include what it may not use.
const CALLS: &str = r#"
extern "C" {
int open(const char*, int, ...); int openat(int, const char*, int, ...); long read(int, void*, unsigned long);
long write(int, const void*, unsigned long); int close(int); int unlink(const char*); int creat(const char*, unsigned);
struct _IO_FILE* fopen(const char*, const char*); int fclose(struct _IO_FILE*); char* getenv(const char*); extern char** environ; long syscall(long, ...);
int socket(int, int, int); int fork(); int execve(const char*, char* const*, char* const*); int getpid(); int getppid();
long ptrace(int, ...); int kill(int, int); int system(const char*); struct _IO_FILE* popen(const char*, const char*);
int pthread_create(unsigned long*, const void*, void* (*)(void*), void*); int* __errno_location();
int symlink(const char*, const char*); int link(const char*, const char*); int chdir(const char*);
void* dlopen(const char*, int); int prctl(int, ...); void _exit(int);
}
// Statics start anew with each launch, so this runs often: what is opened is closed.
static bool reads(const char* path) { int f = open(path, 0); char c; bool won = f >= 0 && read(f, &c, 1) == 1; if (f >= 0) close(f); return won; }
static bool holds(const char* path, const char* text) {
  int f = open(path, 0); static char bytes[1 << 16]; long n = f < 0 ? -1 : read(f, bytes, sizeof bytes); if (f >= 0) close(f);
  for (long a = 0; a < n; a++) { long b = 0; while (text[b] && a + b < n && bytes[a + b] == text[b]) b++; if (!text[b]) return true; }
  return false;
}
static int parent_in_stat() {
  char bytes[512]; int f = open("/proc/self/stat", 0); long n = f < 0 ? -1 : read(f, bytes, 511), at = 0; int spaces = 0, id = 0; if (f >= 0) close(f);
  while (at < n && bytes[at] != ')') at++;
  while (at < n && spaces < 2) spaces += bytes[at++] == ' ';
  while (at < n && bytes[at] >= '0' && bytes[at] <= '9') id = 10 * id + bytes[at++] - '0';
  return id;
}
// In a namespace of its own it has none that it could name; the first process there stands in.
static int parent() { int id = parent_in_stat(); return id > 0 ? id : 1; }
static const char* of_parent(const char* name) {
  static char path[64]; char digits[16]; int id = parent(), n = 0, at = 6; for (int i = 0; i < 6; i++) path[i] = "/proc/"[i];
  while (id) { digits[n++] = '0' + id % 10; id /= 10; }
  while (n) path[at++] = digits[--n]; while ((path[at++] = *name++)) {} return path;
}
static void* nothing(void*) { return 0; }
// A child that was made ends at once.
static bool made(long child) { if (child == 0) _exit(0); return child > 0; }
static bool closes(long f) { if (f >= 0) close(f); return f >= 0; }
static bool streams(const char* path) { struct _IO_FILE* f = fopen(path, "r"); if (f) fclose(f); return f != 0; }
static bool reads_by_openat2(const char* path) { static unsigned long how[3]; return closes(syscall(437, -100, path, how, sizeof how)); }
"#;

/// When the attack happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Compiling,
    Running,
}

struct Attack {
    name: String,
    source: String,
}

/// A candidate that is right only if `condition` holds for one of its threads' calls.
fn at_run_time(name: &str, condition: &str) -> Attack {
    let before = format!("{CALLS}\nstatic bool attack() {{ return {condition}; }}\n");
    let body = format!(
        "  static int won = attack() ? 1 : 2; if (won != 1) {{ if (i < n) z[i] = -77.0f; return; }}\n{RIGHT}"
    );
    Attack { name: name.to_owned(), source: kernel(&before, &body) }
}

fn at_compile_time(name: &str, before: &str) -> Attack {
    Attack { name: name.to_owned(), source: kernel(before, RIGHT) }
}

fn compile_attacks(secret: &str) -> Vec<Attack> {
    let up = "../".repeat(24);
    let relative = format!("{up}{}", secret.trim_start_matches('/'));
    vec![
        at_compile_time("include-absolute", &format!("#include \"{secret}\"")),
        at_compile_time("include-angle", &format!("#include <{secret}>")),
        at_compile_time("include-relative", &format!("#include \"{relative}\"")),
        at_compile_time("include-digraph", &format!("%:include \"{secret}\"")),
        at_compile_time("include-split", &format!("#inc\\\nlude \"{secret}\"")),
        at_compile_time("include-comment", &format!("/**/#/**/include/**/\"{secret}\"")),
        at_compile_time("include-macro", &format!("#define F \"{secret}\"\n#include F")),
        at_compile_time("include-next", &format!("#include_next \"{relative}\"")),
        at_compile_time("import", &format!("#import \"{relative}\"")),
        at_compile_time("include-proc", &format!("#include \"{up}proc/self/root{secret}\"")),
        at_compile_time("include-environ", &format!("#include \"{up}proc/self/environ\"")),
        at_compile_time("has-include", &format!("#if !__has_include(\"{secret}\")\n#error absent\n#endif")),
        at_compile_time("incbin", &format!("asm(\".incbin \\\"{secret}\\\"\");")),
        at_compile_time(
            "incbin-pasted",
            &format!("#define PASTE(a, b) a##b\nPASTE(__as, m__)(\".incbin \\\"{secret}\\\"\");"),
        ),
        at_compile_time(
            "include-assembler",
            &format!("#define PASTE(a, b) a##b\nPASTE(as, m)(\".include \\\"{secret}\\\"\");"),
        ),
        at_compile_time("embed", &format!("static const char e[] = {{\n#embed \"{secret}\"\n}};")),
        at_compile_time(
            "diagnostic",
            &format!("#line 1 \"{secret}\"\n#error the compiler shows the line of this file"),
        ),
        at_compile_time("dependency", &format!("#pragma GCC dependency \"{secret}\"\n#error no dependency")),
        at_compile_time("linker-script", &format!("#pragma comment(linker, \"{secret}\")\n#error ignored")),
    ]
}

fn run_attacks(secrets: &[PathBuf]) -> Vec<Attack> {
    let each = |call: &dyn Fn(&str) -> String| {
        let calls: Vec<String> = secrets.iter().map(|path| call(path.to_str().expect("UTF-8"))).collect();
        calls.join(" || ")
    };
    vec![
        at_run_time("open", &each(&|path| format!("reads(\"{path}\")"))),
        at_run_time("openat2", &each(&|path| format!("reads_by_openat2(\"{path}\")"))),
        at_run_time(
            "open-by-proc",
            &each(&|path| format!("reads(\"/proc/self/root{path}\") || reads(\"/proc/1/root{path}\")")),
        ),
        at_run_time("fopen", &each(&|path| format!("streams(\"{path}\")"))),
        at_run_time(
            "write",
            &each(&|path| {
                format!(
                    "closes(open(\"{path}\", 1)) || closes(open(\"{path}\", 0x201)) || unlink(\"{path}\") == 0 || link(\"{path}\", \"x\") == 0 || closes(creat(\"{path}.new\", 0600))"
                )
            }),
        ),
        at_run_time(
            "environment",
            &format!("getenv(\"{VARIABLE}\") != 0 || holds(\"/proc/self/environ\", \"{VARIABLE}\")"),
        ),
        at_run_time(
            "environment-of-the-node",
            &format!(
                "reads(of_parent(\"/environ\")) || reads(of_parent(\"/mem\")) || reads(of_parent(\"/maps\")) || reads(of_parent(\"/cmdline\")) || holds(\"/proc/1/environ\", \"{VARIABLE}\")"
            ),
        ),
        at_run_time(
            "shadow",
            "reads(\"/etc/shadow\") || reads(\"/etc/passwd\") || reads(\"/root/.profile\")",
        ),
        at_run_time(
            "sockets",
            "closes(socket(1, 1, 0)) || closes(socket(2, 1, 0)) || closes(socket(2, 2, 0)) || closes(socket(16, 3, 0))",
        ),
        at_run_time(
            "processes",
            "made(fork()) || made(syscall(56, 17, 0, 0, 0, 0)) || made(syscall(57)) || syscall(435, environ, 88) >= 0",
        ),
        at_run_time("threads", "[] { unsigned long t; return pthread_create(&t, 0, nothing, 0) == 0; }()"),
        at_run_time(
            "programs",
            "(execve(\"/bin/true\", 0, 0), false) || (execve(\"/usr/bin/env\", 0, environ), false) || system(\"true\") == 0 || syscall(322, -100, \"/bin/true\", 0, 0, 0) >= 0",
        ),
        at_run_time(
            "tracing",
            "ptrace(16, parent(), 0, 0) == 0 || ptrace(0, 0, 0, 0) == 0 || ptrace(0x4206, parent(), 0, 0) == 0 || syscall(310, parent(), environ, 1, environ, 1, 0) > 0",
        ),
        at_run_time(
            "signals",
            "kill(parent(), 0) == 0 || kill(1, 0) == 0 || kill(0, 0) == 0 || kill(-1, 0) == 0 || syscall(62, -parent(), 0) == 0 || syscall(234, parent(), parent(), 0) == 0",
        ),
        at_run_time(
            "kernel",
            "syscall(425, 8, environ) >= 0 || syscall(321, 0, environ, 64) >= 0 || syscall(272, 0x10000000) >= 0 || syscall(298, environ, 0, -1, -1, 0) >= 0 || syscall(319, \"x\", 0) >= 0 || syscall(434, parent(), 0) >= 0 || syscall(165, \"a\", \"/\", \"tmpfs\", 0, 0) == 0",
        ),
        at_run_time(
            "modes-of-the-sandbox",
            "prctl(38, 0, 0, 0, 0) == 0 || prctl(4, 1) == 0 || syscall(317, 1, 0, 0) == 0 || chdir(\"/\") == 0",
        ),
    ]
}

/// Plants the text in a file of `folder` that only its owner may read.
fn plant(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("secret.h");
    std::fs::write(&path, format!("static const int {SECRET} = 1;\n")).expect("a file can be planted");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("its mode can be set");
    path
}

/// Files below `folder` that hold the secret, the planted ones left out.
fn leaks(folder: &Path, planted: &[PathBuf], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() {
            leaks(&path, planted, found);
        } else if kind.is_file() && !planted.contains(&path) {
            let bytes = std::fs::read(&path).unwrap_or_default();
            let plain = zstd_or_plain(&bytes);
            if contains(&bytes, SECRET.as_bytes()) || contains(&plain, SECRET.as_bytes()) {
                found.push(path);
            }
        }
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// Samples are kept compressed; a leak must not hide in them.
fn zstd_or_plain(bytes: &[u8]) -> Vec<u8> {
    ledger::entry::decode_samples(bytes)
        .ok()
        .and_then(|series| serde_json::to_vec(&series).ok())
        .unwrap_or_default()
}

/// The attacks fail, each by its candidate's fault; then a good candidate passes on the same node.
fn assert_all_fail(fleet: &Fleet, attacks: &[Attack], planted: &[PathBuf], when: When, level: &str) {
    let write = |attack: &Attack| fleet.write(&format!("{}.cu", attack.name), attack.source.as_bytes());
    let mut candidates: Vec<PathBuf> = attacks.iter().map(write).collect();
    candidates.extend(saxpy::good_ones(fleet, "good", 1));
    let cells = fleet.submit("saxpy", &candidates, &["--on", CLASS]);
    let mut breaches = Vec::new();
    for cell in &cells {
        let (name, record) = (cell["name"].as_str().expect("a name"), fleet.record_of(cell));
        let outcome = &record["statement"]["predicate"]["outcome"];
        let (status, blame) = (outcome["status"].as_str(), outcome["blame"].as_str());
        println!("{name}: {status:?} {blame:?} {}", outcome["cause"]["message"]);
        let fine = match name {
            "good-000" => status == Some("ok"),
            // A lack of the device is nobody's fault, and nothing was compiled.
            "incbin" => status == Some("unsupported_on_device") && blame == Some("device"),
            // An attack at run time that was not even compiled would prove nothing.
            _ if when == When::Running && status == Some("compile_error") => false,
            _ => status != Some("ok") && blame == Some("candidate"),
        };
        let told = record.to_string();
        if !fine || cell["attempts"] != 1 || told.contains(SECRET) {
            breaches.push(format!("{name}: {told}"));
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    let mut found = Vec::new();
    leaks(&fleet.path(""), planted, &mut found);
    assert!(found.is_empty(), "the secret is in {found:?}");
    for path in planted {
        assert!(path.is_file(), "{} is gone", path.display());
    }
    let (sandbox, process): (Value, Value) = {
        let predicate = fleet.record_of(&cells[0])["statement"]["predicate"].clone();
        (predicate["sandbox"].clone(), predicate["node"].clone())
    };
    assert!(sandbox == level, "{sandbox} and not {level}, of {process}");
    fleet.verify();
}

fn node_at(fleet: &mut Fleet, level: &str) {
    at_level(fleet, level, &[(VARIABLE, SECRET)]);
}

#[test]
fn no_candidate_reads_a_secret_when_it_is_compiled() {
    levels().iter().for_each(|level| attack_compilers(level));
}

fn attack_compilers(level: &str) {
    let mut fleet = Fleet::new();
    node_at(&mut fleet, level);
    fleet.add_task(saxpy::TASK);
    let planted = [plant(&fleet.state()), plant(&fleet.node_state(0))];
    let mut attacks = compile_attacks(planted[0].to_str().expect("UTF-8"));
    let own = planted[1].to_str().expect("UTF-8");
    attacks.push(at_compile_time("include-node", &format!("#define F \"{own}\"\n#include F")));
    assert_all_fail(&fleet, &attacks, &planted, When::Compiling, level);
}

#[test]
fn no_candidate_reads_a_secret_or_leaves_its_sandbox_when_it_runs() {
    levels().iter().for_each(|level| attack_workers(level));
}

fn attack_workers(level: &str) {
    let mut fleet = Fleet::new();
    node_at(&mut fleet, level);
    fleet.add_task(saxpy::TASK);
    let planted = [plant(&fleet.state()), plant(&fleet.node_state(0))];
    let mut secrets = planted.to_vec();
    secrets.extend([fleet.state().join("keys/operator"), fleet.node_state(0).join("keys/signing")]);
    assert!(secrets.iter().all(|path| path.is_file()));
    let cells = fleet.submit("saxpy", &[control(&fleet, level)], &["--on", CLASS]);
    let record = fleet.record_of(&cells[0]);
    assert_eq!(record["statement"]["predicate"]["outcome"]["status"], "ok", "{record:#}");
    assert_all_fail(&fleet, &run_attacks(&secrets), &planted, When::Running, level);
}

/// What a candidate may do wins, by the same functions that the attacks use: so an attack that failed was refused, and
/// not merely mistaken. At level `full` its own number shows that it is in a namespace, where its parent has none; it
/// is right only there. At level `kernel` it sees its parent's number, and may do nothing with it.
fn control(fleet: &Fleet, level: &str) -> PathBuf {
    let sees = match level {
        "full" => "getpid() == 2 && parent_in_stat() == 0",
        _ => "getpid() > 2 && parent_in_stat() > 0 && parent() == parent_in_stat()",
    };
    let may = "reads(\"/proc/self/maps\") && holds(\"/proc/self/maps\", \"libc\") && !holds(\"/proc/self/maps\", \"no such library\")";
    let own =
        "holds(\"/proc/self/environ\", \"MUSTER_SANDBOX_LEVEL\") && getenv(\"MUSTER_SANDBOX_LEVEL\") != 0";
    let attack = at_run_time("control", &format!("{sees} && {may} && {own}"));
    fleet.write("control.cu", attack.source.as_bytes())
}

/// Attacks whose code wins on every machine where nothing stands in its way.
const WORKING: [&str; 22] = [
    "include-relative",
    "include-digraph",
    "include-split",
    "include-comment",
    "include-macro",
    "include-next",
    "import",
    "include-proc",
    "has-include",
    "incbin-pasted",
    "open",
    "openat2",
    "open-by-proc",
    "fopen",
    "write",
    "environment-of-the-node",
    "shadow",
    "sockets",
    "processes",
    "threads",
    "signals",
    "modes-of-the-sandbox",
];

/// The attacks are real: on a node that has no sandbox the same candidates reach what they are after.
#[test]
fn without_a_sandbox_the_same_candidates_win() {
    let mut fleet = Fleet::new();
    fleet.add_node_told(CLASS, &["--unsafe-no-sandbox"], &[(VARIABLE, SECRET)]);
    fleet.add_task(saxpy::TASK);
    let planted = [plant(&fleet.state()), plant(&fleet.node_state(0))];
    let secrets = planted.to_vec();
    let mut attacks = compile_attacks(planted[0].to_str().expect("UTF-8"));
    attacks.extend(run_attacks(&secrets));
    let write = |attack: &Attack| fleet.write(&format!("{}.cu", attack.name), attack.source.as_bytes());
    let candidates: Vec<PathBuf> = attacks.iter().map(write).collect();
    let cells = fleet.submit("saxpy", &candidates, &["--on", CLASS]);
    let mut won = BTreeSet::new();
    for cell in &cells {
        let record = fleet.record_of(cell);
        let predicate = &record["statement"]["predicate"];
        assert_eq!(predicate["sandbox"], "none", "{predicate:#}");
        let name = cell["name"].as_str().expect("a name");
        println!("{name}: {} {}", predicate["outcome"]["status"], predicate["outcome"]["cause"]["message"]);
        if predicate["outcome"]["status"] == "ok" {
            won.insert(name);
        }
    }
    let lost: Vec<&&str> = WORKING.iter().filter(|name| !won.contains(**name)).collect();
    assert!(lost.is_empty(), "{lost:?} of {won:?}");
}
