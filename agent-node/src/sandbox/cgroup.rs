//! A control group for each child, where somebody has delegated a part of the hierarchy (cgroup v2) to the node.

use super::report::Layer;
use super::request::{Profile, ResourceLimits};
use rustix::fs::{Access, access};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the node itself goes: a group that hands controllers on holds no processes (cgroup-v2.rst, "No Internal Process
/// Constraint").
const NODE_GROUP: &str = "muster-node";
const CHILD_PREFIX: &str = "muster-child-";
/// Without these two a group bounds nothing that matters here.
const NEEDED: [&str; 2] = ["memory", "pids"];
/// Weight of compilers among the node's processes, of 10 000; 100 is usual. What is being timed goes first.
const COMPILER_WEIGHT: u32 = 20;
/// The launcher and the first process of the child's namespace.
const OWN_PROCESSES: u64 = 2;
/// How often a group that was killed is asked whether it is empty; its processes end within microseconds.
const REMOVE_TRIES: u32 = 1000;

static BASE: OnceLock<Option<Base>> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Why there are no groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Absence {
    pub(super) cause: String,
    pub(super) next: String,
}

/// What was delegated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base {
    /// The group below which children get theirs.
    folder: PathBuf,
    /// The node has to leave it first.
    is_own: bool,
    controllers: Vec<String>,
}

/// Takes what was delegated to this process: moves it into a group of its own and turns the controllers on. Called once,
/// when a node starts; without it no child gets a group.
pub fn adopt_cgroup() -> Layer {
    let found = examine().and_then(|base| {
        let failed = |error: io::Error| Absence {
            cause: format!("the delegated group {} cannot be used: {error}", base.folder.display()),
            next: advice(),
        };
        base.take().map_err(failed)?;
        Ok(base)
    });
    let layer = layer(&found);
    // The first call counts; a second one finds the same.
    let _ = BASE.set(found.ok());
    layer
}

/// Whether a node started like this process would have groups; changes nothing.
pub(super) fn probe() -> Layer {
    match BASE.get() {
        Some(Some(base)) => layer(&Ok(base.clone())),
        Some(None) | None => layer(&examine()),
    }
}

/// Controllers that bound children of this process; empty before [`adopt_cgroup`] and where nothing was delegated.
pub(super) fn controllers() -> &'static [String] {
    BASE.get().and_then(Option::as_ref).map_or(&[], |base| base.controllers.as_slice())
}

fn layer(found: &Result<Base, Absence>) -> Layer {
    match found {
        Ok(base) => Layer::Present(format!("{} in {}", base.controllers.join(", "), base.folder.display())),
        Err(absence) => Layer::Absent { cause: absence.cause.clone(), next: absence.next.clone() },
    }
}

fn advice() -> String {
    "start the node through systemd with `Delegate=yes` (docs/OPERATIONS.md); until then limits of each process stand in"
        .to_owned()
}

fn examine() -> Result<Base, Absence> {
    let read = |path: &str| {
        fs::read_to_string(path)
            .map_err(|error| Absence { cause: format!("{path}: {error}"), next: advice() })
    };
    let folder = own_group(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
        .map_err(|cause| Absence { cause: cause.to_owned(), next: advice() })?;
    Base::find(&folder, std::process::id()).map_err(|cause| Absence { cause, next: advice() })
}

/// The folder of the group that a process is in, from its `/proc/self/cgroup` and `/proc/self/mountinfo` (proc(5)).
fn own_group(cgroup: &str, mountinfo: &str) -> Result<PathBuf, &'static str> {
    let path =
        cgroup.lines().find_map(|line| line.strip_prefix("0::")).ok_or("the kernel has no cgroup v2")?;
    let mount = mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        after.starts_with("cgroup2 ").then_some((root, point))
    });
    let (root, point) = mount.ok_or("no cgroup v2 hierarchy is mounted")?;
    let below =
        Path::new(path).strip_prefix(root).map_err(|_| "the node's group is outside of what is mounted")?;
    Ok(Path::new(point).join(below))
}

impl Base {
    /// What of `own`, the group that process `id` is in, or of the group above it, can be used.
    fn find(own: &Path, id: u32) -> Result<Self, String> {
        if !own.join("cgroup.type").exists() {
            let listed = words(&own.join("cgroup.controllers"));
            return Err(match lacking(&listed) {
                Some(missing) => format!("the controller `{missing}` belongs to cgroup v1 on this machine"),
                None => "the node runs in the root group, which is the system's".to_owned(),
            });
        }
        // systemd's `DelegateSubgroup=`, or a node that moved before: the group above is the delegated one, and empty.
        let above = own.parent().filter(|above| above.join("cgroup.type").exists() && is_empty(above));
        let (folder, is_own) = match above {
            Some(above) if is_delegated(above) => (above, false),
            Some(_) | None => (own, true),
        };
        if !is_delegated(folder) {
            return Err(format!("{} is not delegated to this user", folder.display()));
        }
        let listed = words(&folder.join("cgroup.controllers"));
        if let Some(missing) = lacking(&listed) {
            return Err(format!("the controller `{missing}` is not delegated in {}", folder.display()));
        }
        if is_own && words(&folder.join("cgroup.procs")) != [id.to_string()] {
            return Err(format!("{} holds other processes beside the node", folder.display()));
        }
        let controllers = listed.into_iter().filter(|name| name == "cpu" || NEEDED.contains(&name.as_str()));
        Ok(Self { folder: folder.to_owned(), is_own, controllers: controllers.collect() })
    }

    fn take(&self) -> io::Result<()> {
        if self.is_own {
            let node = self.folder.join(NODE_GROUP);
            make(&node)?;
            fs::write(node.join("cgroup.procs"), "0")?;
        }
        let turned_on: Vec<String> = self.controllers.iter().map(|name| format!("+{name}")).collect();
        fs::write(self.folder.join("cgroup.subtree_control"), turned_on.join(" "))?;
        // Those of a node that was killed are empty by now.
        for entry in fs::read_dir(&self.folder)?.flatten() {
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(CHILD_PREFIX)) {
                let _ = fs::remove_dir(entry.path());
            }
        }
        Ok(())
    }
}

/// The first controller that is needed and not listed.
fn lacking(listed: &[String]) -> Option<&'static str> {
    NEEDED.into_iter().find(|name| !listed.iter().any(|have| have == name))
}

/// Controllers can be handed on and processes moved by this user.
fn is_delegated(group: &Path) -> bool {
    ["cgroup.subtree_control", "cgroup.procs"]
        .iter()
        .all(|file| access(group.join(file), Access::WRITE_OK).is_ok())
}

fn is_empty(group: &Path) -> bool {
    words(&group.join("cgroup.procs")).is_empty()
}

fn words(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The group of one child; removed when dropped, with all of its processes.
#[derive(Debug)]
pub(super) struct Group(PathBuf);

impl Group {
    /// A group under the limits of a child, where groups are there. `shared` bytes of memory are passed to the child.
    pub(super) fn of(profile: Profile, limits: &ResourceLimits, shared: u64) -> io::Result<Option<Self>> {
        let Some(base) = BASE.get().and_then(Option::as_ref) else { return Ok(None) };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let group = Self(base.folder.join(format!("{CHILD_PREFIX}{}-{number}", std::process::id())));
        make(&group.0)?;
        for (file, value) in bounds(profile, limits, shared) {
            match fs::write(group.0.join(file), value) {
                // Kernels without swap accounting or before 4.19 lack a file; a bound of memory is always there.
                Err(error) if error.kind() == io::ErrorKind::NotFound && file != "memory.max" => {}
                written => written?,
            }
        }
        Ok(Some(group))
    }

    /// Puts a process into the group; what it starts is in it too.
    pub(super) fn admit(&self, id: u32) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), id.to_string())
    }

    /// Kills all of its processes at once, where the kernel can (5.14).
    pub(super) fn kill(&self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
    }

    /// Whether the kernel killed in it because of its bound of memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        let text = fs::read_to_string(self.0.join("memory.events")).unwrap_or_default();
        kills_for_memory(&text) > 0
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        for _ in 0..REMOVE_TRIES {
            match fs::remove_dir(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                // Where it fails otherwise, the next start of the node tries again.
                Ok(()) | Err(_) => return,
            }
        }
    }
}

/// Files of a group and what is written to them. Drivers of GPUs make threads and memory as they like.
fn bounds(profile: Profile, limits: &ResourceLimits, shared: u64) -> Vec<(&'static str, String)> {
    let mut bounds = vec![("memory.oom.group", "1".to_owned())];
    let processes = limits.processes.saturating_add(OWN_PROCESSES).to_string();
    match profile {
        Profile::Compiler => {
            bounds.push(("pids.max", processes));
            bounds.push(("cpu.weight", COMPILER_WEIGHT.to_string()));
        }
        Profile::Harness | Profile::CpuWorker | Profile::Screen => bounds.push(("pids.max", processes)),
        Profile::Worker | Profile::CudaWorker | Profile::CudaScreen => return bounds,
    }
    if let Some(memory) = limits.memory {
        bounds.push(("memory.max", memory.saturating_add(shared).to_string()));
        bounds.push(("memory.swap.max", "0".to_owned()));
    }
    bounds
}

/// The number behind `oom_kill` in a group's `memory.events`.
fn kills_for_memory(events: &str) -> u64 {
    events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "24 1 0:21 / /proc rw - proc proc rw\n\
        35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_group_of_a_process_is_found_below_the_mount() {
        let found = own_group("1:cpu:/x\n0::/user.slice/a.scope\n", MOUNTS);
        assert_eq!(found, Ok(PathBuf::from("/sys/fs/cgroup/user.slice/a.scope")));
        let inner = MOUNTS.replace("0:30 / ", "0:30 /docker/1 ");
        assert_eq!(own_group("0::/docker/1/x", &inner), Ok(PathBuf::from("/sys/fs/cgroup/x")));
        assert!(own_group("0::/elsewhere", &inner).is_err());
        assert!(own_group("1:cpu:/x\n", MOUNTS).is_err());
        assert!(own_group("0::/", "").is_err());
    }

    /// A folder that looks like a group; the rules that the kernel keeps are not in it.
    fn group(folder: &Path, controllers: &str, processes: &str) {
        fs::create_dir_all(folder).unwrap();
        for (file, text) in [
            ("cgroup.type", "domain\n"),
            ("cgroup.controllers", controllers),
            ("cgroup.procs", processes),
            ("cgroup.subtree_control", ""),
        ] {
            fs::write(folder.join(file), text).unwrap();
        }
    }

    #[test]
    fn a_group_of_its_own_is_taken_and_one_that_others_share_is_not() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("a.service");
        group(&own, "cpu io memory pids\n", "41\n");
        let base = Base::find(&own, 41).unwrap();
        assert_eq!((base.is_own, base.controllers.join(" ")), (true, "cpu memory pids".to_owned()));
        fs::create_dir(own.join("muster-child-9-0")).unwrap();
        base.take().unwrap();
        assert_eq!(fs::read_to_string(own.join("cgroup.subtree_control")).unwrap(), "+cpu +memory +pids");
        assert_eq!(fs::read_to_string(own.join("muster-node/cgroup.procs")).unwrap(), "0");
        assert!(!own.join("muster-child-9-0").exists());
        group(&own, "memory pids\n", "41\n42\n");
        assert!(Base::find(&own, 41).unwrap_err().contains("other processes"));
        group(&own, "cpu memory\n", "41\n");
        assert!(Base::find(&own, 41).unwrap_err().contains("`pids`"));
        fs::remove_file(own.join("cgroup.type")).unwrap();
        assert!(Base::find(&own, 41).unwrap_err().contains("`pids` belongs to cgroup v1"));
        fs::write(own.join("cgroup.controllers"), "memory pids\n").unwrap();
        assert!(Base::find(&own, 41).unwrap_err().contains("root group"));
    }

    #[test]
    fn an_empty_delegated_group_above_is_used_and_the_node_stays_where_it_is() {
        let root = tempfile::tempdir().unwrap();
        let (above, own) = (root.path().join("a.service"), root.path().join("a.service/main"));
        group(&above, "memory pids\n", "");
        group(&own, "\n", "41\n77\n");
        let base = Base::find(&own, 41).unwrap();
        assert_eq!((base.folder, base.is_own), (above, false));
    }

    #[test]
    fn bounds_follow_the_kind_of_child() {
        let limits = ResourceLimits {
            cpu_seconds: 1,
            memory: Some(1000),
            file_size: 1,
            open_files: 1,
            processes: 5,
            output_max: 1,
        };
        let of = |profile| bounds(profile, &limits, 24);
        let text = |file: &str, profile| {
            of(profile).into_iter().find(|(name, _)| *name == file).map(|(_, value)| value)
        };
        assert_eq!(text("memory.max", Profile::CpuWorker).as_deref(), Some("1024"));
        assert_eq!(text("pids.max", Profile::CpuWorker).as_deref(), Some("7"));
        assert_eq!(text("cpu.weight", Profile::Compiler).as_deref(), Some("20"));
        assert_eq!(of(Profile::CudaWorker).len(), 1);
        assert_eq!(kills_for_memory("low 0\noom 3\noom_kill 2\n"), 2);
        assert_eq!(kills_for_memory("oom_kill x\n"), 0);
    }
}
