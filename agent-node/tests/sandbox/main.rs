//! The sandbox from outside: real compilers and workers that try what they must not.
#![expect(clippy::unwrap_used, reason = "a test's helper fails the test by panicking")]

mod compiler;
mod escapes;
mod groups;
mod lifetime;
mod watcher;
mod worker;

use agent_node::sandbox::{
    Confinement, Exit, Layer, Level, Profile, Request, ResourceLimits, probe, set_launcher, spawn,
    system_toolchain,
};
use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const SECRET: &str = "planted-secret-7c1f";
/// Far beyond what any of these children needs, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names another copy of the launcher, for a user who may not reach the build folder.
const LAUNCHER_VARIABLE: &str = "MUSTER_TEST_LAUNCHER";

/// Asks for another level than the machine's best: `kernel`.
const LEVEL_VARIABLE: &str = "MUSTER_TEST_LEVEL";

/// Asks for a row of each attack on standard output.
const TABLE_VARIABLE: &str = "MUSTER_TABLE";

/// What these tests ask for.
fn confinement() -> Confinement {
    match std::env::var(LEVEL_VARIABLE).as_deref() {
        Ok("kernel") => Confinement::Kernel,
        Ok(other) => panic!("no level {other}"),
        Err(_) => Confinement::Required,
    }
}

fn level() -> Level {
    confinement().level_of(Profile::CpuWorker)
}

/// A state folder with a secret beside a job's folder.
struct Place {
    state: TempDir,
    job: PathBuf,
}

impl Place {
    fn new() -> Self {
        name_launcher();
        // Not in /tmp, of which a child may have one of its own.
        let state = tempfile::tempdir_in("/var/tmp").unwrap();
        let job = state.path().join("job/1");
        fs::create_dir_all(&job).unwrap();
        fs::write(state.path().join("secret"), format!("\"{SECRET}\"\n")).unwrap();
        Self { state, job }
    }
    /// Launcher and this test's binary where every user can reach them.
    #[expect(clippy::disallowed_methods, reason = "the copies are the test's own and not made for a node")]
    fn copies(&self) -> (PathBuf, PathBuf) {
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        open(self.state.path());
        let copy = |from: &Path, name: &str| {
            let to = self.state.path().join(name);
            // By a program of its own: a descriptor open for writing here would be inherited by children that other tests
            // start meanwhile, and the kernel runs no file that somebody still has open for writing.
            assert!(std::process::Command::new("/bin/cp").arg(from).arg(&to).status().unwrap().success());
            open(&to);
            to
        };
        let launcher = copy(&launcher(), "muster-node");
        (launcher, copy(&std::env::current_exe().unwrap(), "tests"))
    }
    fn secret(&self) -> PathBuf {
        self.state.path().join("secret")
    }
    fn request(&self, program: &str, arguments: &[&str]) -> Request {
        let toolchain = system_toolchain();
        Request {
            program: PathBuf::from(program),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: Vec::new(),
            folder: self.job.clone(),
            readable: toolchain.readable,
            executable: toolchain.executable,
            devices: Vec::new(),
            passed: Vec::new(),
            profile: Profile::Compiler,
            limits: limits(),
        }
    }
    fn compile(&self, source: &str, arguments: &[&str]) -> Exit {
        fs::write(self.job.join("hello.cpp"), source).unwrap();
        let mut all = vec!["hello.cpp", "-o", "hello"];
        all.extend(arguments);
        run(self.request("/usr/bin/g++", &all))
    }
    /// Runs a program that a compiler made: the request allows executing that one file of the job's folder.
    fn run_built(&self, name: &str) -> Exit {
        let path = self.job.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let mut request = self.request(path.to_str().unwrap(), &[]);
        request.executable.push(path);
        run(request)
    }
    /// Runs this test binary as a worker that does `trial` after it has locked itself.
    fn worker(&self, trial: &str, profile: Profile) -> Request {
        let own = std::env::current_exe().unwrap();
        let arguments = ["--exact", "worker::worker_trial", "--ignored", "--nocapture", "--test-threads=1"];
        let mut request = self.request(own.to_str().unwrap(), &arguments);
        request.environment = vec![
            ("TRIAL".into(), trial.into()),
            ("SECRET_PATH".into(), self.secret().into_os_string()),
            ("JOB_PATH".into(), self.job.clone().into_os_string()),
            ("NODE".into(), std::process::id().to_string().into()),
        ];
        if profile == Profile::CudaWorker {
            request.environment.push(("GPU".into(), "1".into()));
        }
        if profile == Profile::Screen {
            request.environment.push(("OWN_PROGRAM".into(), "1".into()));
        }
        // As candidates are read: what else is in the job's folder may be read too.
        request.readable = Vec::new();
        request.executable = Vec::new();
        request.profile = profile;
        request.limits.memory = None;
        request
    }
    fn trial(&self, trial: &str, profile: Profile) -> String {
        let exit = run(self.worker(trial, profile));
        let text = exit.output.text();
        assert!(exit.success(), "{trial}: {:?} {text}", exit.how);
        let answer =
            text.lines().find_map(|line| line.split_once("TRIAL=")).map(|(_, answer)| answer.to_owned());
        answer.unwrap_or_else(|| panic!("{trial} gave no answer: {text}"))
    }
}

/// Says that a part did not run, past the capture of a passing test's output, so that `scripts/check.sh` counts it.
fn skipped(why: impl Display) {
    let _said = writeln!(std::io::stderr().lock(), "\nSKIPPED: {why}");
}

fn launcher() -> PathBuf {
    let named = std::env::var_os(LAUNCHER_VARIABLE).map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_muster-node")))
}

fn name_launcher() {
    set_launcher(launcher());
}

fn limits() -> ResourceLimits {
    ResourceLimits {
        cpu_seconds: 30,
        memory: Some(4 << 30),
        file_size: 64 << 20,
        open_files: 64,
        processes: 32,
        output_max: 64 << 10,
    }
}

fn run(request: Request) -> Exit {
    let confinement = confinement();
    let expected = confinement.level_of(request.profile);
    let mut child = spawn(request, confinement).unwrap();
    assert_eq!(child.level(), expected);
    child.wait(PATIENCE).unwrap()
}

/// Whether a process has ended; one that nobody has reaped yet is a zombie.
fn gone_now(id: &str) -> bool {
    assert!(id.parse::<u32>().is_ok(), "{id:?}");
    let Ok(status) = fs::read_to_string(format!("/proc/{id}/stat")) else { return true };
    status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z') || rest.starts_with('X'))
}

/// Whether a process that was killed ends soon.
fn gone(id: &str) -> bool {
    (0..1_000_000).any(|_| gone_now(id))
}

#[test]
fn this_kernel_gives_landlock_and_seccomp_and_the_level_follows_from_the_layers() {
    name_launcher();
    let report = probe();
    assert_eq!(report.missing(Level::Kernel), None);
    let has_all = report.isolation.iter().all(|(_, layer)| matches!(layer, Layer::Present(_)));
    assert_eq!(report.level(), if has_all { Level::Full } else { Level::Kernel });
    if let Some(missing) = report.missing(Level::Full) {
        skipped(format!("level `full`: {missing}"));
    }
    let layers = report.layers(confinement(), Profile::CpuWorker);
    assert_eq!(layers.contains("network namespace"), level() == Level::Full, "{layers}");
}

/// Runs all of it once more in a process of its own, as user `user` and at level `level`.
#[expect(clippy::disallowed_methods, reason = "the outer process is the test's own and not the node's child")]
fn all_again(user: Option<u32>, level: Option<&str>) {
    let is_again = [LAUNCHER_VARIABLE, LEVEL_VARIABLE].iter().any(|name| std::env::var_os(name).is_some());
    // SAFETY: asks for this process's user.
    let is_root = unsafe { libc::getuid() } == 0;
    if is_again {
        return;
    }
    if user.is_some() && !(is_root && Path::new(CHANGER).exists()) {
        return skipped("the part of an ordinary user: that needs root and setpriv");
    }
    let place = Place::new();
    let (launcher, tests) = place.copies();
    let mut command = match user {
        Some(user) => {
            let mut command = std::process::Command::new(CHANGER);
            command.args(as_user(user)).arg(tests);
            command
        }
        None => std::process::Command::new(tests),
    };
    command.env_clear().env(LAUNCHER_VARIABLE, launcher).current_dir("/");
    if let Some(level) = level {
        command.env(LEVEL_VARIABLE, level);
    }
    if let Some(value) = std::env::var_os(TABLE_VARIABLE) {
        command.env(TABLE_VARIABLE, value).arg("--nocapture");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let passed = text.split_once("test result: ok. ").and_then(|(_, rest)| rest.split(' ').next());
    assert!(passed.is_some_and(|passed| passed.parse::<u32>().unwrap() >= 24), "{text}");
    text.lines().filter(|line| line.starts_with("escape\t")).for_each(|line| println!("\n{line}"));
    let who = user.map_or("root".to_owned(), |user| format!("user {user}"));
    for why in
        String::from_utf8_lossy(&output.stderr).lines().filter_map(|line| line.strip_prefix("SKIPPED: "))
    {
        skipped(format!("as {who} at level {}: {why}", level.unwrap_or("best")));
    }
}

/// Changes the user before it starts a program; part of util-linux.
const CHANGER: &str = "/usr/bin/setpriv";

/// Its arguments for user `user` without groups.
fn as_user(user: u32) -> [String; 3] {
    [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()]
}

/// `nobody` on every Linux: a user without powers and without files.
const NOBODY: u32 = 65534;

#[test]
fn all_of_it_holds_at_level_kernel() {
    all_again(None, Some("kernel"));
}

#[test]
fn all_of_it_holds_for_an_ordinary_user() {
    all_again(Some(NOBODY), None);
}

#[test]
fn all_of_it_holds_for_an_ordinary_user_at_level_kernel() {
    all_again(Some(NOBODY), Some("kernel"));
}
