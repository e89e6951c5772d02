//! How children end, and the limits that they live under.

use super::{PATIENCE, Place, confinement, gone, gone_now, level, limits, run};
use agent_node::sandbox::{Confinement, ExitHow, Level, SpawnError, spawn};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn a_flood_of_output_is_cut_and_does_not_stop_the_child() {
    let place = Place::new();
    let script = "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done 2>/dev/null; exit 4";
    let exit = run(place.request("/bin/sh", &["-c", script]));
    assert_eq!(exit.how, ExitHow::Code(4));
    assert_eq!(exit.output.bytes.len(), limits().output_max);
    assert!(exit.output.truncated);
    assert!(exit.output.text().starts_with("0123456789\n0123456789\n"));
}

#[test]
fn the_deadline_kills_grandchildren_too() {
    let place = Place::new();
    let mark = mark();
    let script = format!("sleep {mark} & echo $!; (sleep {mark} & echo $!) ; wait");
    let mut child = spawn(place.request("/bin/sh", &["-c", &script]), confinement()).unwrap();
    // However slow the machine: the deadline begins when both are there.
    while with_argument(&mark).len() < 2 && !child.has_exited().unwrap() {}
    let exit = child.wait(Duration::from_millis(1)).unwrap();
    assert_eq!(exit.how, ExitHow::Deadline);
    assert!(none_left(&mark));
    // Asked again, it tells the same.
    assert_eq!(child.try_exit().unwrap(), Some(exit));
}

#[test]
fn what_a_child_leaves_behind_ends_with_it() {
    let place = Place::new();
    let mark = mark();
    let exit = run(place.request("/bin/sh", &["-c", &format!("sleep {mark} & echo $!; exit 0")]));
    assert!(exit.success());
    assert!(!exit.output.text().is_empty());
    assert!(none_left(&mark));
}

/// A duration that no other process sleeps for.
fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("1000.{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Ids of processes, as this process sees them, whose arguments hold `mark`. Inside a namespace they have others.
fn with_argument(mark: &str) -> Vec<String> {
    let names = fs::read_dir("/proc").unwrap().flatten();
    let ids = names.filter_map(|entry| entry.file_name().into_string().ok());
    let holds = |id: &String| {
        let arguments = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument == mark.as_bytes())
    };
    ids.filter(|id| id.parse::<u32>().is_ok()).filter(holds).collect()
}

/// Whether processes that were killed are gone soon.
fn none_left(mark: &str) -> bool {
    with_argument(mark).iter().all(|id| gone(id))
}

/// Runs one of the ignored tests in a process of its own and gives its output; `announced` is called when the
/// test has announced a child.
#[expect(clippy::disallowed_methods, reason = "plays another node")]
fn in_another_process(test: &str, announced: impl Fn(&mut std::process::Child)) -> String {
    let mut node = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    for line in BufReader::new(node.stdout.take().unwrap()).lines() {
        text.push_str(&line.unwrap());
        text.push('\n');
        if text.contains("CHILD=") {
            announced(&mut node);
        }
    }
    node.wait().unwrap();
    text
}

#[test]
fn children_die_with_the_node() {
    let text = in_another_process("lifetime::node_that_is_killed", |node| node.kill().unwrap());
    let id = text.lines().find_map(|line| line.split_once("CHILD=")).unwrap().1;
    assert!(gone(id));
    // A grandchild that left its parent too: at level `kernel` nothing ties it to the node.
    let mark = text.lines().find_map(|line| line.split_once("MARK=")).unwrap().1;
    if level() == Level::Full {
        assert!((0..1000).any(|_| with_argument(mark).iter().all(|id| gone_now(id))), "{mark}");
    } else {
        for id in with_argument(mark) {
            // SAFETY: kills the test's own grandchild, found by its mark.
            unsafe { libc::kill(id.parse().unwrap(), libc::SIGKILL) };
        }
    }
}

#[test]
fn a_launcher_that_is_another_program_starts_nothing() {
    let output = in_another_process("lifetime::node_with_a_wrong_launcher", |_| ());
    assert!(output.contains("the launcher did not answer"), "{output}");
}

/// Not a test of its own: the launcher is named once for each process.
#[test]
#[ignore = "started by `a_launcher_that_is_another_program_starts_nothing`"]
fn node_with_a_wrong_launcher() {
    agent_node::sandbox::set_launcher(PathBuf::from("/usr/bin/true"));
    let refused = spawn(Place::new().request("/usr/bin/true", &[]), confinement());
    println!("{}", refused.unwrap_err());
}

/// Not a test of its own: starts a child from a thread that ends, then waits to be killed.
#[test]
#[ignore = "started by `children_die_with_the_node`"]
fn node_that_is_killed() {
    let place = Place::new();
    let mark = mark();
    let request = place.request("/bin/sh", &["-c", &format!("(sleep {mark} &); exec sleep 1000")]);
    let child = std::thread::spawn(|| spawn(request, confinement()).unwrap()).join().unwrap();
    while with_argument(&mark).is_empty() {}
    println!("\nMARK={mark}\nCHILD={}", child.id());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn limits_hold_for_files_memory_cpu_and_descriptors() {
    let place = Place::new();
    let mut request = place.request("/usr/bin/dd", &["if=/usr/bin/g++", "of=big", "bs=4k", "count=100"]);
    request.limits.output_max = 4096;
    request.limits.file_size = 65536;
    let exit = run(request);
    assert!(!exit.success());
    assert_eq!(fs::metadata(place.job.join("big")).unwrap().len(), 65536);
    let mut request = place.request("/bin/sh", &["-c", "while :; do :; done"]);
    request.limits.cpu_seconds = 1;
    assert_eq!(run(request).how, ExitHow::Signal(libc::SIGXCPU));
    let mut request = place.request("/bin/sh", &["-c", "ulimit -n; ulimit -v; ulimit -c"]);
    request.limits.open_files = 17;
    request.limits.memory = Some(1 << 30);
    assert_eq!(run(request).output.text(), "17\n1048576\n0\n");
}

#[test]
fn impossible_requests_are_refused_before_anything_starts() {
    let place = Place::new();
    let mut relative = place.request("g++", &[]);
    relative.folder = PathBuf::from("job");
    assert!(matches!(spawn(relative, confinement()), Err(SpawnError::Request(_))));
    let mut number = place.request("/usr/bin/true", &[]);
    number.passed = vec![(fs::File::open("/dev/null").unwrap().into(), 2)];
    assert!(matches!(spawn(number, confinement()), Err(SpawnError::Request(_))));
    let mut missing = place.request("/usr/bin/true", &[]);
    missing.folder = place.state.path().join("absent");
    let refused = spawn(missing, confinement());
    assert!(matches!(&refused, Err(SpawnError::Setup { stage, .. }) if stage == "folder"), "{refused:?}");
    let absent = spawn(place.request("/usr/bin/no-such-compiler", &[]), confinement());
    assert!(matches!(&absent, Err(SpawnError::Setup { stage, .. }) if stage == "exec"), "{absent:?}");
}

#[test]
fn without_a_sandbox_the_level_says_so_and_limits_still_hold() {
    let place = Place::new();
    let script = "ulimit -n; read line < /etc/passwd && echo read";
    let mut child = spawn(place.request("/bin/sh", &["-c", script]), Confinement::UnsafeNone).unwrap();
    assert_eq!(child.level(), Level::None);
    assert_eq!(child.wait(PATIENCE).unwrap().output.text(), "64\nread\n");
}
