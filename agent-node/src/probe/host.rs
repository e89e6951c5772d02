//! Where the kernel tells about the machine: small text files below one root, so that tests bring their own.

use fleet_config::domain::Fact;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of one file; `/proc/cpuinfo` of a thousand CPUs stays below it.
const FILE_MAX: u64 = 4 << 20;
/// CPUs that are looked at one by one.
const CPUS_MAX: usize = 4096;

/// The files of one machine.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// The machine that this process runs on.
    pub fn this() -> Self {
        Self::at("/")
    }

    /// The files below another root.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The text of the file at an absolute path, trimmed; else why not.
    pub(super) fn text(&self, path: &str) -> Result<String, String> {
        let failed = |error: std::io::Error| format!("{path}: {error}");
        let file = File::open(self.place(path)).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(FILE_MAX).read_to_end(&mut bytes).map_err(failed)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The number in the file.
    pub(super) fn number(&self, path: &str) -> Result<u64, String> {
        let text = self.text(path)?;
        text.parse().map_err(|_| format!("{path} holds no number: {}", shortened(&text)))
    }

    /// Names in a folder, sorted; none if it cannot be read.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.place(folder)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Folders of the CPUs that are there, such as `/sys/devices/system/cpu/cpu3`.
    pub(super) fn cpus(&self) -> Vec<String> {
        let folder = "/sys/devices/system/cpu";
        let number = |name: &String| {
            name.strip_prefix("cpu")
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
        };
        let names = self.names(folder).into_iter().filter(number).take(CPUS_MAX);
        names.map(|name| format!("{folder}/{name}")).collect()
    }

    /// The value of the first line of `path` that is named `name`, as in `name : value`.
    pub(super) fn line(&self, path: &str, name: &str) -> Result<String, String> {
        let text = self.text(path)?;
        let value = text.lines().find_map(|line| {
            let (left, right) = line.split_once(':')?;
            (left.trim() == name).then(|| right.trim().to_owned())
        });
        value.ok_or_else(|| format!("{path} has no line `{name}`"))
    }

    fn place(&self, path: &str) -> PathBuf {
        self.root.join(Path::new(path.trim_start_matches('/')))
    }
}

/// A text or the reason why there is none.
pub(super) fn text(found: Result<String, String>) -> Fact {
    match found {
        Ok(text) => Fact::Text(text),
        Err(reason) => Fact::Unknown(reason),
    }
}

/// A count or the reason why there is none.
pub(super) fn count(found: Result<u64, String>) -> Fact {
    match found {
        Ok(count) => Fact::Count(count),
        Err(reason) => Fact::Unknown(reason),
    }
}

/// What does not exist on a CPU.
pub(super) fn not_on_cpu(what: &str) -> Fact {
    Fact::Unknown(format!("a CPU has no {what}"))
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}
