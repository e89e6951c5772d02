//! What a compiler can do, and what a source cannot make it do.

use super::{Place, SECRET, confinement, run, skipped};
use agent_node::sandbox::{ExitHow, SpawnError, spawn};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

const HELLO: &str = "#include <cstdio>\n#include <cmath>\nint main() { std::puts(\"hello\"); return 3; }\n";

#[test]
fn a_compiler_compiles_links_and_its_program_runs() {
    let place = Place::new();
    let exit = place.compile(HELLO, &["-O2"]);
    assert!(exit.success(), "{:?} {}", exit.how, exit.output.text());
    assert_eq!(exit.output.text(), "");
    assert!(exit.cpu > Duration::ZERO && exit.peak_memory > 1 << 20);
    let exit = place.run_built("hello");
    assert_eq!(exit.how, ExitHow::Code(3));
    assert_eq!(exit.output.text(), "hello\n");
}

#[test]
fn diagnostics_of_a_compiler_are_captured() {
    let place = Place::new();
    let exit = place.compile("int main() { return nothing; }\n", &[]);
    assert_eq!(exit.how, ExitHow::Code(1));
    assert!(exit.output.text().contains("hello.cpp:1:"), "{}", exit.output.text());
    assert!(!exit.output.truncated);
}

#[test]
fn clang_works_too_where_it_is_installed() {
    if !Path::new("/usr/bin/clang++").exists() {
        return skipped("clang++ as a compiler in the sandbox: it is absent");
    }
    let place = Place::new();
    fs::write(place.job.join("hello.cpp"), HELLO).unwrap();
    let exit = run(place.request("/usr/bin/clang++", &["-O2", "hello.cpp", "-o", "hello"]));
    assert!(exit.success(), "{:?} {}", exit.how, exit.output.text());
    assert_eq!(place.run_built("hello").how, ExitHow::Code(3));
}

#[test]
fn a_source_cannot_include_a_planted_secret() {
    let place = Place::new();
    let secret = place.secret();
    let secret = secret.to_str().unwrap();
    let attempts = [
        format!("#include \"{secret}\"\n"),
        format!("%:include \"{secret}\"\n"),
        format!("??=include \"{secret}\"\n"),
        "#include \"../../secret\"\n".to_owned(),
        format!("#define PATH <{secret}>\n#include PATH\n"),
        "#include \"/etc/passwd\"\n".to_owned(),
        "#include \"/proc/self/environ\"\n".to_owned(),
        format!("asm(\".section .rodata\\n.incbin \\\"{secret}\\\"\\n\");\nint main() {{}}\n"),
        "asm(\".incbin \\\"/etc/passwd\\\"\\n\");\nint main() {}\n".to_owned(),
        format!("asm(\".include \\\"{secret}\\\"\\n\");\nint main() {{}}\n"),
    ];
    for source in attempts {
        let exit = place.compile(&source, &["-std=c++14", "-trigraphs"]);
        let text = exit.output.text();
        assert_eq!(exit.how, ExitHow::Code(1), "{source}: {text}");
        // What a private root does not show is not there at all.
        let reasons = ["Permission denied", "can't open", "file not found", "No such file"];
        assert!(reasons.iter().any(|reason| text.contains(reason)), "{source}: {text}");
        assert!(!text.contains(SECRET) && !text.contains("root:"), "{source}: {text}");
        assert!(!place.job.join("hello").exists(), "{source}");
    }
}

#[test]
fn a_compiler_writes_nowhere_else_and_knows_no_environment() {
    let place = Place::new();
    let outside = place.state.path().join("outside.o");
    fs::write(place.job.join("other.cpp"), HELLO).unwrap();
    let exit = run(place.request("/usr/bin/g++", &["-c", "other.cpp", "-o", outside.to_str().unwrap()]));
    assert!(!exit.success());
    assert!(!outside.exists());
    let exit = run(place.request("/usr/bin/env", &[]));
    let text = exit.output.text();
    let mut names: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["LC_ALL", "PATH", "TMPDIR"]);
}

#[test]
fn a_compiler_cannot_execute_what_it_wrote() {
    let place = Place::new();
    assert!(place.compile(HELLO, &[]).success());
    let path = place.job.join("hello");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = spawn(place.request(path.to_str().unwrap(), &[]), confinement());
    let Err(SpawnError::Setup { stage, cause }) = refused else { panic!("{refused:?}") };
    assert_eq!(stage, "exec");
    assert!(cause.contains("ermission denied"), "{cause}");
}

/// Each line of its output is one thing that was tried.
const TRIES: &str = r#"
#include <cstdio>
#include <string>
#include <unistd.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/ptrace.h>
static void say(const char* what, long got) { std::printf("%s %s\n", what, got < 0 ? "refused" : "allowed"); }
int main() {
  say("inet", socket(AF_INET, SOCK_STREAM, 0));
  say("unix", socket(AF_UNIX, SOCK_STREAM, 0));
  say("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
  say("x32 socket", syscall(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0));
  say("secret", open(STATE "/secret", O_RDONLY));
  say("passwd", open("/etc/passwd", O_RDONLY));
  std::string parent = "/proc/" + std::to_string(NODE);
  say("parent's environment", open((parent + "/environ").c_str(), O_RDONLY));
  say("parent's memory", open((parent + "/mem").c_str(), O_RDWR));
  say("own environment", open("/proc/self/environ", O_RDONLY));
  say("ptrace", ptrace(PTRACE_TRACEME, 0, 0, 0));
  say("signal", kill(NODE, 0));
  say("session", setsid());
  say("mode", chmod(STATE "/secret", 0777));
  say("unlink", unlink(STATE "/secret"));
  say("rename", rename(STATE "/secret", "stolen"));
  say("link", link(STATE "/secret", "stolen"));
  say("symlink", symlink(STATE "/secret", "stolen"));
  say("new file", open(STATE "/new", O_WRONLY | O_CREAT, 0600));
  say("memory file", syscall(SYS_memfd_create, "x", 0));
  say("user namespace", syscall(SYS_unshare, 0x10000000));
}
"#;

#[test]
fn a_program_under_the_compilers_fence_reaches_nothing_outside() {
    let place = Place::new();
    let state = format!("-DSTATE=\"{}\"", place.state.path().display());
    let node = format!("-DNODE={}", std::process::id());
    let exit = place.compile(TRIES, &[&state, &node]);
    assert!(exit.success(), "{}", exit.output.text());
    let exit = place.run_built("hello");
    let text = exit.output.text();
    assert_eq!(exit.how, ExitHow::Code(0), "{text}");
    assert_eq!(text.lines().filter(|line| line.ends_with(" refused")).count(), 20, "{text}");
    assert_eq!(text.lines().count(), 20, "{text}");
    assert!(place.secret().exists());
}
