//! Files that a case wants to lie there while it runs; removed again whatever happens.

use fleet_config::refusal::Refusal;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

/// Where a case may put files by absolute path: folders made for what nobody keeps.
const ROOTS: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run/shm"];

/// The files of one case; dropping it removes what it made.
#[derive(Debug, Default)]
pub(super) struct Setup {
    made: Vec<PathBuf>,
}

impl Setup {
    /// Writes `files`; relative paths lie below `base`. Nothing that exists is touched. Errors: `case/setup`.
    pub(super) fn write(files: &BTreeMap<String, String>, base: &Path) -> Result<Self, Refusal> {
        let mut setup = Self::default();
        for (path, text) in files {
            let refuse = |cause: String| Refusal::new("case/setup", path, cause, "choose another path");
            let full = place(path, base).map_err(&refuse)?;
            let parents: Vec<&Path> =
                full.ancestors().skip(1).take_while(|parent| !parent.exists()).collect();
            for parent in parents.into_iter().rev() {
                std::fs::create_dir(parent).map_err(|error| refuse(error.to_string()))?;
                setup.made.push(parent.to_owned());
            }
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&full)
                .map_err(|error| refuse(format!("cannot be made: {error}")))?;
            setup.made.push(full.clone());
            file.write_all(text.as_bytes()).map_err(|error| refuse(error.to_string()))?;
        }
        Ok(setup)
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            // What is gone already is what we want; a folder that others use by now stays.
            let _gone = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        }
    }
}

fn place(path: &str, base: &Path) -> Result<PathBuf, String> {
    let given = Path::new(path);
    let climbs = given.components().any(|part| matches!(part, Component::ParentDir));
    if path.is_empty() || climbs || path.contains('\0') {
        return Err("the path is empty or climbs".to_owned());
    }
    if given.is_absolute() && !ROOTS.iter().any(|root| given.starts_with(root) && given != Path::new(root)) {
        return Err(format!("a file may lie below {} alone", ROOTS.join(", ")));
    }
    Ok(base.join(given))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_made_where_they_may_be_and_removed_again() {
        let base = tempfile::tempdir().unwrap();
        let files = |path: &str| BTreeMap::from([(path.to_owned(), "text".to_owned())]);
        let setup = Setup::write(&files("a/b.h"), base.path()).unwrap();
        assert_eq!(std::fs::read_to_string(base.path().join("a/b.h")).unwrap(), "text");
        assert!(Setup::write(&files("a/b.h"), base.path()).is_err(), "nothing is overwritten");
        assert!(base.path().join("a/b.h").exists());
        drop(setup);
        assert!(!base.path().join("a").exists());
        for bad in ["", "../x", "/etc/x", "/tmp", "/tmp/../etc/x"] {
            assert_eq!(Setup::write(&files(bad), base.path()).unwrap_err().code, "case/setup", "{bad}");
        }
    }
}
