//! Which layers of the sandbox this machine gives, and why not.

use super::cgroup;
use super::namespaces::Isolation;
use super::request::{Confinement, Level, Profile};
use super::spawn::try_isolation;
use std::fs;
use std::io;
use std::sync::OnceLock;

/// One layer on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    /// It works; the text says in which version.
    Present(String),
    /// It does not; why, and what to do.
    Absent { cause: String, next: String },
}

/// What the sandbox can build on here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxReport {
    pub landlock: Layer,
    pub seccomp: Layer,
    /// What level `full` adds, in order.
    pub isolation: Vec<(Isolation, Layer)>,
    /// Bounds of memory and processes for all of a child together; no level depends on it.
    pub cgroup: Layer,
    /// What an older kernel leaves open, one sentence each.
    pub weaknesses: Vec<String>,
}

impl SandboxReport {
    /// The best level that this machine gives.
    pub fn level(&self) -> Level {
        let is_present = |layer: &Layer| matches!(layer, Layer::Present(_));
        if !is_present(&self.landlock) || !is_present(&self.seccomp) {
            Level::None
        } else if self.isolation.iter().all(|(_, layer)| is_present(layer)) {
            Level::Full
        } else {
            Level::Kernel
        }
    }

    /// What keeps it from `level`, in one text.
    pub fn missing(&self, level: Level) -> Option<String> {
        let mut layers = Vec::new();
        if level >= Level::Kernel {
            layers.extend([("Landlock", &self.landlock), ("seccomp", &self.seccomp)]);
        }
        if level >= Level::Full {
            layers.extend(self.isolation.iter().map(|(name, layer)| (name.as_str(), layer)));
        }
        let mut missing = layers.into_iter().filter_map(|(name, layer)| match layer {
            Layer::Present(_) => None,
            Layer::Absent { cause, next } => Some(format!("{name}: {cause}; {next}")),
        });
        // What is built on the first one that is missing is missing because of it.
        missing.next()
    }

    /// The layers under which such a child runs, for its record: stable words, separated by commas.
    pub fn layers(&self, confinement: Confinement, profile: Profile) -> String {
        let mut words = vec!["limits".to_owned()];
        let level = confinement.level_of(profile);
        if level >= Level::Kernel {
            let version = landlock_abi().unwrap_or(0);
            words.extend([format!("landlock {version}"), "seccomp".to_owned()]);
        }
        if level >= Level::Full {
            words.extend(self.isolation.iter().map(|(name, _)| name.to_string()));
        }
        words.extend(cgroup::controllers().iter().map(|name| format!("cgroup {name}")));
        words.join(", ")
    }
}

/// Asks the kernel, once: the answer holds until the process ends. Starts one child, which tries the namespaces on itself.
pub fn probe() -> &'static SandboxReport {
    static REPORT: OnceLock<SandboxReport> = OnceLock::new();
    REPORT.get_or_init(|| {
        let abi = landlock_abi();
        let weaknesses = match &abi {
            Ok(version) => weaknesses(*version),
            Err(_) => Vec::new(),
        };
        let isolation = isolation(&try_isolation(), &switch);
        SandboxReport {
            landlock: landlock(abi),
            seccomp: seccomp(),
            isolation,
            cgroup: cgroup::probe(),
            weaknesses,
        }
    })
}

/// The kernel's Landlock version. 1 is Linux 5.13.
pub(super) fn landlock_abi() -> Result<i64, io::Error> {
    const VERSION: u32 = 1; // LANDLOCK_CREATE_RULESET_VERSION, include/uapi/linux/landlock.h
    // SAFETY: with this flag the kernel takes a null attribute of size 0 and returns a number.
    let answer =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

fn landlock(abi: Result<i64, io::Error>) -> Layer {
    let next = "use Linux 5.13 or newer with `landlock` in the kernel's `lsm=` list".to_owned();
    match abi {
        Ok(version) if version >= 1 => Layer::Present(format!("ABI {version}")),
        Ok(version) => Layer::Absent { cause: format!("the kernel answers version {version}"), next },
        Err(error) => match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => {
                Layer::Absent { cause: "built into the kernel but not enabled".to_owned(), next }
            }
            Some(libc::ENOSYS) => Layer::Absent { cause: "not built into the kernel".to_owned(), next },
            Some(_) | None => Layer::Absent { cause: error.to_string(), next },
        },
    }
}

fn seccomp() -> Layer {
    const ACTION_AVAILABLE: u32 = 2; // SECCOMP_GET_ACTION_AVAIL, include/uapi/linux/seccomp.h
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the pointer is to a live u32, which the kernel only reads.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, ACTION_AVAILABLE, 0u32, &raw const action) };
    if answer == 0 {
        return Layer::Present("filters with error returns".to_owned());
    }
    let cause = io::Error::last_os_error().to_string();
    Layer::Absent {
        cause,
        next: "use a kernel with CONFIG_SECCOMP_FILTER, outside a container that forbids it".to_owned(),
    }
}

/// Each part of level `full` from how the trial ended: what comes before its failure works, what comes after was not
/// reached. `switch` reads a kernel setting.
fn isolation(
    trial: &Result<(), (String, String)>,
    switch: &dyn Fn(&str) -> Option<u64>,
) -> Vec<(Isolation, Layer)> {
    let works = || Layer::Present("works".to_owned());
    let Err((stage, cause)) = trial else {
        return Isolation::ALL.map(|part| (part, works())).into();
    };
    let failed = Isolation::ALL.into_iter().find(|part| part.as_str() == stage);
    let layer = |part: Isolation| match failed {
        Some(failed) if part < failed => works(),
        Some(failed) if part > failed => Layer::Absent {
            cause: format!("not reached without the {failed}"),
            next: format!("see the {failed}"),
        },
        Some(_) => Layer::Absent { cause: cause.clone(), next: advice(part, switch) },
        None => Layer::Absent {
            cause: format!("the trial stopped at `{stage}`: {cause}"),
            next: "report this with the output".to_owned(),
        },
    };
    Isolation::ALL.map(|part| (part, layer(part))).into()
}

/// Settings that keep ordinary users from namespaces, with what they mean.
const SWITCHES: [(&str, u64, &str); 3] = [
    (
        "/proc/sys/user/max_user_namespaces",
        0,
        "set `sysctl user.max_user_namespaces=15000`: this kernel is set to allow none",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        0,
        "set `sysctl kernel.unprivileged_userns_clone=1`: ordinary users may make none here",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        1,
        "give muster-node an AppArmor profile with `userns,` or set \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0`: AppArmor takes their powers away",
    ),
];

fn advice(part: Isolation, switch: &dyn Fn(&str) -> Option<u64>) -> String {
    let set = SWITCHES.iter().find(|(path, value, _)| switch(path) == Some(*value));
    match (part, set) {
        (_, Some((_, _, next))) => (*next).to_owned(),
        (Isolation::Proc, None) => {
            "a container that hides parts of /proc keeps others from mounting it: run the node outside, or with \
             --security-opt systempaths=unconfined"
                .to_owned()
        }
        (
            Isolation::User
            | Isolation::Mount
            | Isolation::Process
            | Isolation::Ipc
            | Isolation::Network
            | Isolation::HostName
            | Isolation::View,
            None,
        ) => "inside a container allow unshare and mount (seccomp profile, AppArmor), or run the node outside; \
              level `kernel` works without"
            .to_owned(),
    }
}

fn switch(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn weaknesses(abi: i64) -> Vec<String> {
    let gaps = [
        (
            3,
            "before ABI 3 (Linux 6.2) a child may truncate files that it can read, where file permissions let it",
        ),
        (4, "before ABI 4 (Linux 6.7) Landlock knows no network; seccomp alone denies sockets"),
        (5, "before ABI 5 (Linux 6.10) device control calls are not bounded by Landlock"),
        (
            6,
            "before ABI 6 (Linux 6.12) signals are denied by seccomp alone, also those between a compiler's own parts",
        ),
    ];
    gaps.iter().filter(|(from, _)| abi < *from).map(|(_, text)| (*text).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(trial: &Result<(), (String, String)>) -> SandboxReport {
        let present = || Layer::Present(String::new());
        SandboxReport {
            landlock: present(),
            seccomp: present(),
            isolation: isolation(trial, &|_| None),
            cgroup: present(),
            weaknesses: Vec::new(),
        }
    }

    #[test]
    fn the_level_is_full_only_with_every_layer() {
        let full = report(&Ok(()));
        assert_eq!((full.level(), full.missing(Level::Full)), (Level::Full, None));
        let refused = Err(("network namespace".to_owned(), "Operation not permitted".to_owned()));
        let kernel = report(&refused);
        assert_eq!((kernel.level(), kernel.missing(Level::Kernel)), (Level::Kernel, None));
        let missing = kernel.missing(Level::Full).unwrap();
        assert!(missing.starts_with("network namespace: Operation not permitted; "), "{missing}");
        let absent = Layer::Absent { cause: String::new(), next: String::new() };
        let none = SandboxReport { seccomp: absent, ..full };
        assert_eq!(none.level(), Level::None);
    }

    #[test]
    fn a_refusal_is_explained_by_the_setting_that_causes_it() {
        let refused = Err(("user namespace".to_owned(), "No space left on device".to_owned()));
        let of = |name: &'static str, value: u64| {
            let layers = isolation(&refused, &move |path| path.ends_with(name).then_some(value));
            match &layers[0].1 {
                Layer::Absent { next, .. } => next.clone(),
                Layer::Present(_) => panic!("it failed"),
            }
        };
        assert!(of("max_user_namespaces", 0).contains("user.max_user_namespaces=15000"));
        assert!(of("apparmor_restrict_unprivileged_userns", 1).contains("AppArmor profile"));
        assert!(of("max_user_namespaces", 9).contains("inside a container"));
        let layers = isolation(&refused, &|_| None);
        assert!(matches!(&layers[7].1, Layer::Absent { cause, .. } if cause.contains("not reached")));
        let strange = isolation(&Err(("order".to_owned(), "x".to_owned())), &|_| None);
        assert!(strange.iter().all(|(_, layer)| matches!(layer, Layer::Absent { .. })));
    }
}
