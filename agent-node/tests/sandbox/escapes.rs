//! Attacks on everything outside, each tried without a sandbox first: by a program that stands for a compiler that was
//! taken over, and by a library that a locked worker loads as it loads candidates.

use super::{PATIENCE, Place, SECRET, confinement, level, run, skipped};
use agent_node::sandbox::{ExitHow, Level, Profile, spawn};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SOURCE: &str = include_str!("attacks.cpp");

/// Where it goes, and what it does when nothing stands in its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    /// Won without a sandbox, by root: the code of the attack works.
    Works,
    /// Depends on the machine's settings, or is not safe to try.
    Untried,
}
use Control::{Untried, Works};

/// Refused at both levels, to compilers and to workers.
const REFUSED: &[(&str, Control)] = &[
    // The first, before others leave descriptors open.
    ("inherited-descriptor", Untried),
    ("read-passwd", Works),
    ("read-secret", Works),
    ("read-relative", Works),
    ("read-through-root", Works),
    ("read-through-cwd", Works),
    ("victim-environ", Works),
    ("victim-memory", Works),
    ("victim-descriptors", Works),
    ("victim-ptrace", Untried),
    ("victim-read", Untried),
    ("victim-write", Untried),
    ("victim-descriptor", Works),
    ("victim-steal-descriptor", Untried),
    ("victim-signal", Works),
    ("victim-stop-group", Works),
    ("victim-queue-signal", Works),
    ("victim-limits", Untried),
    ("victim-schedule", Works),
    ("socket-inet", Works),
    ("socket-inet6", Untried),
    ("socket-netlink", Works),
    ("socket-abstract", Works),
    ("socket-path", Works),
    ("socket-vsock", Untried),
    ("write-outside", Works),
    ("write-tmp-of-all", Works),
    ("append-secret", Works),
    ("link-secret", Works),
    ("plant-symlink", Works),
    ("plant-fifo", Works),
    ("chmod-secret", Works),
    ("chown-secret", Works),
    ("times-of-secret", Works),
    ("xattr-of-secret", Untried),
    ("become-another", Untried),
    ("memory-file-run", Works),
    ("written-file-run", Works),
    ("mount", Untried),
    ("new-mount-api", Works),
    ("unshare-user", Untried),
    ("unshare-mount", Untried),
    ("clone-namespace", Untried),
    ("join-namespace", Works),
    ("chroot", Untried),
    ("io-uring", Untried),
    ("bpf", Untried),
    ("perf", Untried),
    ("userfaultfd", Untried),
    ("keyring", Untried),
    ("handle", Untried),
    ("fanotify", Untried),
    ("shared-memory-file", Works),
    ("shared-memory-key", Works),
    ("semaphore-key", Works),
    ("message-queue", Works),
    ("message-queue-posix", Untried),
    ("environment", Works),
    ("leave-session", Works),
    ("own-score", Works),
    ("host-name", Untried),
    ("kernel-setting", Untried),
    ("kernel-log", Untried),
    ("device-memory", Works),
    ("terminal", Untried),
    ("victim-signal-by-descriptor", Works),
    ("choose-signal", Works),
    ("lease", Untried),
    ("watch-secret", Works),
    ("watch-folder", Untried),
    ("page-cache", Works),
    ("own-memory-file", Works),
    ("output-file-run", Untried),
    ("new-privileges", Works),
    ("powers", Works),
    ("core-dump", Works),
    ("first-signal", Works),
    ("first-environ", Untried),
    ("link-out", Works),
    ("rename-out", Works),
    ("exchange", Untried),
    ("secret-memory", Untried),
    // These come last: without a sandbox they take the others' targets away.
    ("truncate-secret", Works),
    ("rename-secret", Works),
    ("unlink-secret", Untried),
];

/// Refused at level `full`; at level `kernel` names and numbers of files and processes can be seen.
const HIDDEN: &[&str] = &["see-secret", "see-victim", "see-host-name"];

/// Refused to host code of candidates at both levels: it has no second process or thread, no file and bounded memory.
const BOMBS_OF_A_WORKER: &[&str] = &[
    "bomb-processes",
    "bomb-threads",
    "bomb-memory",
    "bomb-memory-protected",
    "bomb-memory-shared",
    "bomb-memory-stack",
    "bomb-file",
    "bomb-files",
];

/// Another process of the same user, with something to read and to stop.
struct Victim(Child);

impl Victim {
    #[expect(clippy::disallowed_methods, reason = "the victim is the test's own and not the node's child")]
    fn new() -> Self {
        let mut command = Command::new("/usr/bin/sleep");
        command.arg("600").env_clear().env("MUSTER_PLANTED", SECRET).process_group(0);
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }
    fn id(&self) -> String {
        self.0.id().to_string()
    }
    fn is_stopped(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        status.rsplit(") ").next().unwrap().starts_with('T')
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Both may fail only where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sockets that listen beside the job's folder and by an abstract name.
struct Listening {
    name: String,
    _sockets: [UnixListener; 2],
}

impl Listening {
    fn new(place: &Place) -> Self {
        let unique = place.state.path().file_name().unwrap().to_str().unwrap().replace('.', "");
        let name = format!("muster-{unique}");
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixListener::bind_addr(&address).unwrap();
        let by_path = UnixListener::bind(place.state.path().join("socket")).unwrap();
        Self { name, _sockets: [by_name, by_path] }
    }
}

/// Compiles the attacks inside the sandbox, as a program and as a library.
fn armed() -> Place {
    let place = Place::new();
    let built = place.compile(SOURCE, &["-O1", "-w", "-pthread", "-lrt"]);
    assert!(built.success(), "{}", built.output.text());
    let built =
        place.compile(SOURCE, &["-O1", "-w", "-shared", "-fPIC", "-pthread", "-lrt", "-o", "attacks.so"]);
    assert!(built.success(), "{}", built.output.text());
    let (from, to) = (place.job.join("hello"), place.job.join("attack"));
    fs::rename(from, &to).unwrap_or_else(|_| panic!("the program was not made"));
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
    place
}

/// Answers by name, from the lines `NAME won|refused|unknown`.
fn answers(text: &str) -> BTreeMap<String, bool> {
    let line = |line: &str| match line.split_once(' ')? {
        (name, "won") => Some((name.to_owned(), true)),
        (name, "refused") => Some((name.to_owned(), false)),
        (name, "unknown") => panic!("there is no attack {name}"),
        // What the test's own frame prints.
        (_, _) => None,
    };
    text.lines().filter_map(line).collect()
}

fn wins(answers: &BTreeMap<String, bool>) -> Vec<&str> {
    answers.iter().filter(|(_, won)| **won).map(|(name, _)| name.as_str()).collect()
}

/// With `MUSTER_TABLE` set, prints a row for each attack: user, level, whom it took over, name, what came of it.
fn tell(of: &str, answers: &BTreeMap<String, bool>) {
    if std::env::var_os(super::TABLE_VARIABLE).is_none() {
        return;
    }
    // SAFETY: asks for this process's user.
    let user = if unsafe { libc::getuid() } == 0 { "root" } else { "ordinary" };
    for (name, won) in answers {
        println!("\nescape\t{user}\t{}\t{of}\t{name}\t{}", level(), if *won { "WON" } else { "refused" });
    }
}

fn as_a_compiler(
    place: &Place,
    names: &[&str],
    victim: &str,
    socket: &str,
) -> (BTreeMap<String, bool>, ExitHow) {
    let secret = place.secret();
    let mut arguments = vec![secret.to_str().unwrap(), place.job.to_str().unwrap(), socket, victim];
    arguments.extend(names);
    let path = place.job.join("attack");
    let mut request = place.request(path.to_str().unwrap(), &arguments);
    request.executable.push(path);
    request.limits.memory = Some(192 << 20);
    let exit = run(request);
    (answers(&exit.output.text()), exit.how)
}

fn as_a_worker(place: &Place, names: &[&str], victim: &str, socket: &str) -> BTreeMap<String, bool> {
    let mut request = place.worker("attacks", Profile::CpuWorker);
    for (name, value) in
        [("ATTACKS", names.join(" ")), ("VICTIM", victim.to_owned()), ("SOCKET", socket.to_owned())]
    {
        request.environment.push((name.into(), value.into()));
    }
    request.limits.memory = Some(192 << 20);
    let exit = run(request);
    let text = exit.output.text();
    assert!(exit.success(), "{:?} {text}", exit.how);
    answers(&text.replace("TRIAL=", ""))
}

/// What the worker does once it is locked: loads the library as it would load a candidate, and calls it.
pub(crate) fn attack_as_a_candidate(job: &Path) -> String {
    // The frame has begun a line of its own.
    println!();
    let text = |name: &str| std::env::var(name).unwrap();
    let c = |text: &str| CString::new(text).unwrap();
    let library = c(job.join("attacks.so").to_str().unwrap());
    // SAFETY: the library was compiled from the attacks' own source; its function has this type and keeps no pointer.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null(), "{}", CStr::from_ptr(libc::dlerror()).to_string_lossy());
        let found = libc::dlsym(handle, c"muster_attack".as_ptr());
        assert!(!found.is_null());
        type Attack = unsafe extern "C" fn(*const i8, *const i8, *const i8, *const i8, i32) -> i32;
        let attack = std::mem::transmute::<*mut libc::c_void, Attack>(found);
        let (secret, socket) = (c(&text("SECRET_PATH")), c(&text("SOCKET")));
        let folder = CString::new(OsStr::as_bytes(job.as_os_str())).unwrap();
        for name in text("ATTACKS").split(' ') {
            let asked = c(name);
            let victim = text("VICTIM").parse().unwrap();
            let answer = attack(
                asked.as_ptr().cast(),
                secret.as_ptr().cast(),
                folder.as_ptr().cast(),
                socket.as_ptr().cast(),
                victim,
            );
            println!("{name} {}", ["unknown", "refused", "won"][usize::try_from(answer + 1).unwrap()]);
        }
    }
    "done".to_owned()
}

fn names(of: &[(&'static str, Control)]) -> Vec<&'static str> {
    of.iter().map(|(name, _)| *name).collect()
}

#[test]
fn no_attack_of_a_compiler_reaches_outside() {
    let (place, victim) = (armed(), Victim::new());
    let listening = Listening::new(&place);
    let (answers, how) = as_a_compiler(&place, &names(REFUSED), &victim.id(), &listening.name);
    tell("compiler", &answers);
    assert_eq!(how, ExitHow::Code(0));
    assert_eq!(answers.len(), REFUSED.len());
    assert_eq!(wins(&answers), Vec::<&str>::new());
    assert!(!victim.is_stopped());
    assert_eq!(fs::read_to_string(place.secret()).unwrap(), format!("\"{SECRET}\"\n"));
    let left = fs::read_dir(place.state.path()).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(left.count(), 3, "the secret, the job's folder, the socket");
    assert!(!Path::new("/tmp").join(&listening.name).exists());
}

#[test]
fn no_attack_of_a_candidate_reaches_outside() {
    let (place, victim) = (armed(), Victim::new());
    let listening = Listening::new(&place);
    let answers = as_a_worker(&place, &names(REFUSED), &victim.id(), &listening.name);
    tell("candidate", &answers);
    assert_eq!(answers.len(), REFUSED.len());
    assert_eq!(wins(&answers), Vec::<&str>::new());
    assert!(!victim.is_stopped());
    assert_eq!(fs::read_to_string(place.secret()).unwrap(), format!("\"{SECRET}\"\n"));
}

#[test]
fn names_of_files_and_processes_are_hidden_at_level_full_alone() {
    let (place, victim) = (armed(), Victim::new());
    let expected = if level() == Level::Full { Vec::new() } else { HIDDEN.to_vec() };
    let (of_a_compiler, _) = as_a_compiler(&place, HIDDEN, &victim.id(), "x");
    let of_a_worker = as_a_worker(&place, HIDDEN, &victim.id(), "x");
    for answers in [of_a_compiler, of_a_worker] {
        assert_eq!(answers.len(), HIDDEN.len());
        let mut found = wins(&answers);
        found.sort_by_key(|name| HIDDEN.iter().position(|hidden| hidden == name));
        assert_eq!(found, expected);
    }
}

#[test]
fn bombs_of_a_candidate_are_refused_by_the_kernel() {
    let place = armed();
    for bomb in BOMBS_OF_A_WORKER {
        let answers = as_a_worker(&place, &[bomb], "0", "x");
        tell("candidate", &answers);
        assert_eq!(answers.get(*bomb), Some(&false), "{bomb}: {answers:?}");
    }
    assert!(!place.job.join("many0").exists() && !place.job.join("big").exists());
}

#[test]
fn bombs_of_a_compiler_end_at_their_bounds_and_leave_nothing() {
    let place = armed();
    let (answers, _) = as_a_compiler(&place, &["bomb-file", "bomb-memory"], "0", "x");
    tell("compiler", &answers);
    assert_eq!(wins(&answers), Vec::<&str>::new());
    assert_eq!(fs::metadata(place.job.join("big")).unwrap().len(), 64 << 20);
    if level() == Level::Full {
        let (answers, _) = as_a_compiler(&place, &["bomb-tmp"], "0", "x");
        assert_eq!(answers.get("bomb-tmp"), Some(&true), "the folder in memory holds twice the largest file");
    }
    // SAFETY: asks for this process's user.
    let is_root = unsafe { libc::getuid() } == 0;
    // The kernel counts no processes of root at level `kernel`; they end with their group all the same.
    if level() == Level::Full || !is_root {
        match room_for_processes() {
            room if room > 1500 => {
                let (answers, _) = as_a_compiler(&place, &["bomb-processes"], "0", "x");
                tell("compiler", &answers);
                assert_eq!(answers.get("bomb-processes"), Some(&false));
            }
            room => skipped(format!("a bomb of processes: this machine lets {room} of them run")),
        }
    }
    let (answers, _) = as_a_compiler(&place, &["few-processes"], "0", "x");
    assert!(answers.contains_key("few-processes"));
    let path = place.job.join("attack");
    let left = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.starts_with(path.as_os_str().as_bytes()))
    });
    let still = |entry: &fs::DirEntry| !super::gone(entry.file_name().to_str().unwrap());
    assert_eq!(left.filter(still).count(), 0);
}

/// How many more processes the control group of this machine or container takes; a bomb that fills it would hit the
/// tests beside it.
fn room_for_processes() -> u64 {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    ["/sys/fs/cgroup", "/sys/fs/cgroup/pids"]
        .iter()
        .filter_map(|folder| {
            number(&format!("{folder}/pids.max")).zip(number(&format!("{folder}/pids.current")))
        })
        .map(|(most, now)| most.saturating_sub(now))
        .min()
        .unwrap_or(u64::MAX)
}

/// What confines this process already, such as a container: there some controls are lost that have nothing to do with
/// the attack's code.
fn confined_from_outside() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim().to_owned();
    // CAP_DAC_OVERRIDE, CAP_KILL, CAP_SYS_PTRACE and CAP_SYS_ADMIN, include/uapi/linux/capability.h.
    const POWERS: u64 = 1 << 1 | 1 << 5 | 1 << 19 | 1 << 21;
    let powers = u64::from_str_radix(&field("CapEff:"), 16).unwrap();
    let named = |what: &str, holds: bool| holds.then(|| what.to_owned());
    named("it lacks powers of root", powers & POWERS != POWERS)
        .or_else(|| named("it has a filter of system calls", field("Seccomp:") != "0"))
        .or_else(|| named("it may gain no privileges", field("NoNewPrivs:") != "0"))
}

/// The attacks are real: without a sandbox they are won.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the program runs without a sandbox to show what it then can do"
)]
fn without_a_sandbox_the_same_code_wins() {
    // SAFETY: asks for this process's user.
    if unsafe { libc::getuid() } != 0 {
        return skipped(
            "control of the attacks: settings of each machine decide what an ordinary user may do",
        );
    }
    let (place, victim) = (armed(), Victim::new());
    let listening = Listening::new(&place);
    let works: Vec<&str> = REFUSED
        .iter()
        .filter(|(_, control)| *control == Works)
        .map(|(name, _)| *name)
        .chain(HIDDEN.iter().copied())
        .collect();
    // Each on its own: leaving the session needs a process that leads none.
    let mut lost = Vec::new();
    for name in &works {
        if *name == "rename-secret" {
            fs::write(place.secret(), "x").unwrap();
        }
        let output = Command::new("/bin/sh")
            .args(["-c", "\"$@\"; exit 0", "sh"])
            .arg(place.job.join("attack"))
            .arg(place.secret())
            .arg(&place.job)
            .args([&listening.name, &victim.id(), *name])
            .env("MUSTER_PLANTED", SECRET)
            .env("MUSTER_CONTROL", "1")
            .current_dir(&place.job)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !answers(&text).get(*name).copied().unwrap_or(false) {
            lost.push(format!("{name}: {text}"));
        }
    }
    let _ = fs::remove_file(Path::new("/tmp").join(&listening.name));
    assert!(works.len() >= 54, "{}", works.len());
    match confined_from_outside() {
        None => assert!(lost.is_empty(), "{lost:?}"),
        // Most of them do without powers.
        Some(why) => {
            skipped(format!(
                "control of attacks that are lost without our sandbox too, since {why}: {lost:?}"
            ));
            assert!(lost.len() <= works.len() / 3, "{lost:?}");
        }
    }
}

#[test]
fn a_child_that_was_attacked_with_leaves_a_node_that_starts_the_next() {
    let place = armed();
    let path = place.job.join("attack");
    let secret = place.secret();
    let arguments = [secret.to_str().unwrap(), place.job.to_str().unwrap(), "x", "0", "bomb-threads"];
    let mut request = place.request(path.to_str().unwrap(), &arguments);
    request.executable.push(path);
    let mut child = spawn(request, confinement()).unwrap();
    let _ = child.wait(PATIENCE).unwrap();
    assert_eq!(run(place.request("/bin/sh", &["-c", "exit 3"])).how, ExitHow::Code(3));
}
