//! Control groups of a real kernel, delegated to root and to an ordinary user as systemd does it. Where the machine has
//! no hierarchy to take a group from, the reason is said.

use super::{CHANGER, LAUNCHER_VARIABLE, NOBODY, PATIENCE, Place, as_user, name_launcher, skipped};
use agent_node::sandbox::{Confinement, Exit, ExitHow, Layer, Level, Profile, adopt_cgroup, probe, spawn};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// Names the delegated group to the inner process.
const GROUP_VARIABLE: &str = "MUSTER_TEST_GROUP";
/// Controllers that a delegated group must have.
const NEEDED: [&str; 2] = ["memory", "pids"];

/// A group below the root of the hierarchy, for this test alone; removed when dropped.
struct Delegated {
    group: PathBuf,
    /// Controllers that the root did not hand on before.
    turned_on: Vec<&'static str>,
}

impl Delegated {
    fn make(user: u32) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount = mounts.lines().filter_map(|line| line.split_once(" - "));
        let mut mount = mount.filter(|(_, after)| after.starts_with("cgroup2 "));
        let (before, _) = mount.next().ok_or("no cgroup v2 hierarchy is mounted")?;
        let root = PathBuf::from(before.split(' ').nth(4).unwrap());
        let words = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
        let has = |text: &str, name: &str| text.split_whitespace().any(|word| word == name);
        let (offered, on) = (words("cgroup.controllers"), words("cgroup.subtree_control"));
        if let Some(name) = NEEDED.iter().find(|name| !has(&offered, name)) {
            return Err(format!("the hierarchy at {} has no controller `{name}`", root.display()));
        }
        let turned_on: Vec<&str> = NEEDED.into_iter().filter(|name| !has(&on, name)).collect();
        let group = root.join(format!("muster-test-{}-{user}", std::process::id()));
        let made = Self { group, turned_on };
        let failed = |what: &str, error: std::io::Error| format!("{what} in {}: {error}", root.display());
        for name in &made.turned_on {
            fs::write(root.join("cgroup.subtree_control"), format!("+{name}"))
                .map_err(|error| failed("controllers cannot be handed on", error))?;
        }
        fs::create_dir(&made.group).map_err(|error| failed("no group can be made", error))?;
        for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
            chown(made.group.join(file), Some(user), Some(user)).unwrap();
        }
        Ok(made)
    }

    /// Runs a program as `user` whose process is the only one in the group.
    #[expect(
        clippy::disallowed_methods,
        reason = "the outer process is the test's own and not the node's child"
    )]
    fn run(&self, user: u32, launcher: &Path, program: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$ > \"$1/cgroup.procs\" && shift && exec \"$@\"", "sh"]).arg(&self.group);
        if user != 0 {
            command.arg(CHANGER).args(as_user(user));
        }
        command.arg(program).args(arguments).env_clear().env(LAUNCHER_VARIABLE, launcher);
        command.env(GROUP_VARIABLE, &self.group).current_dir("/").output().unwrap()
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        // What the node left when it ended: its own group, empty by now.
        for entry in fs::read_dir(&self.group).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(&self.group);
        for name in &self.turned_on {
            let _ = fs::write(self.group.with_file_name("cgroup.subtree_control"), format!("-{name}"));
        }
    }
}

#[test]
fn groups_that_are_delegated_bound_all_of_a_child_together() {
    // SAFETY: asks for this process's user.
    if unsafe { libc::getuid() } != 0 {
        return skipped("control groups: only root can delegate one");
    }
    for user in [0, NOBODY] {
        if user != 0 && !Path::new(CHANGER).exists() {
            return skipped("control groups of an ordinary user: setpriv is absent");
        }
        let delegated = match Delegated::make(user) {
            Ok(delegated) => delegated,
            Err(why) => return skipped(format!("control groups: {why}")),
        };
        let place = Place::new();
        let (launcher, tests) = place.copies();
        let arguments =
            ["--exact", "groups::node_in_a_group", "--ignored", "--nocapture", "--test-threads=1"];
        let output = delegated.run(user, &launcher, &tests, &arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "user {user}: {text}{errors}");
        let left: Vec<_> = fs::read_dir(&delegated.group)
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_str().unwrap().starts_with("muster-child-"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn the_doctor_tells_of_groups_what_is_true() {
    let place = Place::new();
    let (launcher, _) = place.copies();
    let said = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.contains("control group: ")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{text}"))
    };
    let alone = doctor(&launcher);
    // SAFETY: asks for this process's user.
    if unsafe { libc::getuid() } != 0 {
        assert!(said(&alone).starts_with("weak "), "{alone:?}");
        return;
    }
    match Delegated::make(0) {
        Ok(delegated) => {
            let line = said(&delegated.run(0, &launcher, &launcher, &["doctor"]));
            assert!(line.starts_with("ok ") && line.contains("memory") && line.contains("pids"), "{line}");
            assert!(line.contains(delegated.group.to_str().unwrap()), "{line}");
        }
        Err(why) => skipped(format!("the doctor inside of a delegated group: {why}")),
    }
}

#[expect(clippy::disallowed_methods, reason = "asks the binary as an operator does")]
fn doctor(launcher: &Path) -> Output {
    Command::new(launcher).arg("doctor").env_clear().current_dir("/").output().unwrap()
}

/// Six processes of 42 MiB, each far below the limit of one: only a bound on all of them ends this.
const TOGETHER: &str = "grow() { x=0123456789; i=0; while [ $i -lt 22 ]; do x=$x$x; i=$((i+1)); done; sleep 1000; }; \
                        grow & grow & grow & grow & grow & grow & wait";
const MEMORY: u64 = 192 << 20;
const MANY: &str = "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done; wait";

fn run(place: &Place, script: &str, confinement: Confinement, deadline: Duration) -> Exit {
    let mut request = place.request("/bin/sh", &["-c", script]);
    request.limits.memory = Some(MEMORY);
    request.limits.processes = 20;
    spawn(request, confinement).unwrap().wait(deadline).unwrap()
}

/// Not a test of its own: plays a node that was started in a delegated group.
#[test]
#[ignore = "started by `groups_that_are_delegated_bound_all_of_a_child_together`"]
fn node_in_a_group() {
    name_launcher();
    let place = Place::new();
    let group = PathBuf::from(std::env::var_os(GROUP_VARIABLE).unwrap());
    // The control: without a group of its own nothing bounds them together, and they last until their time is over.
    let free = run(&place, TOGETHER, Confinement::Kernel, Duration::from_secs(4));
    assert_eq!(free.how, ExitHow::Deadline, "{}", free.output.text());

    let Layer::Present(said) = adopt_cgroup() else { panic!("{:?}", adopt_cgroup()) };
    assert!(said.contains("memory") && said.contains("pids"), "{said}");
    let mut levels = vec![Confinement::Kernel];
    levels.extend((probe().level() == Level::Full).then_some(Confinement::Full));
    for confinement in levels {
        let layers = probe().layers(confinement, Profile::Compiler);
        assert!(layers.contains("cgroup memory") && layers.contains("cgroup pids"), "{layers}");
        let full = run(&place, TOGETHER, confinement, PATIENCE);
        assert_eq!(full.how, ExitHow::MemoryLimit, "{confinement:?}: {}", full.output.text());
        let many = run(&place, MANY, confinement, PATIENCE);
        assert!(matches!(many.how, ExitHow::Code(code) if code != 0), "{confinement:?}: {many:?}");
        assert!(
            many.output.text().to_lowercase().contains("fork"),
            "{confinement:?}: {}",
            many.output.text()
        );
        let next = run(&place, "exit 3", confinement, PATIENCE);
        assert_eq!(next.how, ExitHow::Code(3));
        // Nothing of any of them is left, nor are their groups.
        let names = fs::read_dir(&group).unwrap().flatten().filter(|entry| entry.path().is_dir());
        let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["muster-node"], "{confinement:?}");
        let own = fs::read_to_string(group.join("muster-node/cgroup.procs")).unwrap();
        // The launcher's trial and the children have ended; a starting thread is no process.
        assert_eq!(
            own.split_whitespace().collect::<Vec<_>>(),
            [std::process::id().to_string()],
            "{confinement:?}"
        );
    }
}
