//! Which case folders are meant.

use fleet_config::refusal::Refusal;
use std::path::{Path, PathBuf};

/// Most cases of one run.
const CASES_MAX: usize = 10_000;

/// `folder` itself where it is a case, else the folders in it, by name. Hidden ones and those that begin with `_` are
/// no cases; every other one is, and must hold what a case holds. `only` picks by name.
pub(super) fn folders(folder: &Path, only: Option<&str>) -> Result<Vec<PathBuf>, Refusal> {
    let place = folder.display().to_string();
    let refuse = |cause: String| Refusal::new("case/folder", &place, cause, "name a folder of case folders");
    if folder.join("case.json").exists() || folder.join("expected.json").exists() {
        return Ok(vec![folder.to_owned()]);
    }
    let entries = std::fs::read_dir(folder).map_err(|error| refuse(error.to_string()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| refuse(error.to_string()))?.path();
        let name = name(&path);
        let is_case = path.is_dir() && !name.starts_with(['.', '_']);
        if is_case && only.is_none_or(|pattern| matches(pattern, &name)) {
            found.push(path);
        }
    }
    if found.is_empty() {
        return Err(refuse("it holds no case folder of that name".to_owned()));
    }
    if found.len() > CASES_MAX {
        return Err(refuse(format!("more than {CASES_MAX} cases")));
    }
    found.sort();
    Ok(found)
}

/// The folder's own name.
pub(super) fn name(path: &Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether `name` contains `pattern`, or is like it where the pattern has a `*`.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return name.contains(pattern) };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_part_of_the_name_or_has_stars() {
        for (pattern, name, wanted) in [
            ("soft", "03-softmax", true),
            ("0*", "03-softmax", true),
            ("0*", "13-softmax", false),
            ("*max", "03-softmax", true),
            ("0*ft*", "03-softmax", true),
            ("0*x*x", "03-softmax", false),
            ("", "anything", true),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn folders_are_found_by_name_and_a_case_is_itself() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b", "a", ".git", "_old"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("README.md"), "").unwrap();
        let names: Vec<String> =
            folders(folder.path(), None).unwrap().iter().map(|path| name(path)).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(folders(folder.path(), Some("c")).unwrap_err().code, "case/folder");
        std::fs::write(folder.path().join("a/case.json"), "{}").unwrap();
        assert_eq!(folders(&folder.path().join("a"), None).unwrap().len(), 1);
        assert_eq!(folders(&folder.path().join("zz"), None).unwrap_err().code, "case/folder");
    }
}
