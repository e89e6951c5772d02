//! Which layers of the sandbox this kernel gives, and why not.

use super::request::Level;
use std::io;

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
    /// What an older kernel leaves open, one sentence each.
    pub weaknesses: Vec<String>,
}

impl SandboxReport {
    /// The best level that this kernel gives.
    pub fn level(&self) -> Level {
        match (&self.landlock, &self.seccomp) {
            (Layer::Present(_), Layer::Present(_)) => Level::Kernel,
            (Layer::Absent { .. }, _) | (_, Layer::Absent { .. }) => Level::None,
        }
    }

    /// What keeps it from level `kernel`, in one text.
    pub fn missing(&self) -> Option<String> {
        let layers = [("Landlock", &self.landlock), ("seccomp", &self.seccomp)];
        let missing: Vec<String> = layers
            .iter()
            .filter_map(|(name, layer)| match layer {
                Layer::Present(_) => None,
                Layer::Absent { cause, next } => Some(format!("{name}: {cause}; {next}")),
            })
            .collect();
        if missing.is_empty() { None } else { Some(missing.join("; ")) }
    }
}

/// Asks the kernel; changes nothing.
pub fn probe() -> SandboxReport {
    let abi = landlock_abi();
    let weaknesses = match &abi {
        Ok(version) => weaknesses(*version),
        Err(_) => Vec::new(),
    };
    SandboxReport { landlock: landlock(abi), seccomp: seccomp(), weaknesses }
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
