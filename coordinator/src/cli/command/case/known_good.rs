//! The job that must still work after every case.

use super::list;
use fleet_config::config::case_folder::{ArgumentKind, CaseFolder, Hidden, Language, TaskFolder, translate};
use fleet_config::config::{Files, load};
use fleet_config::refusal::Refusal;
use std::path::PathBuf;

/// How many cases of the folder are tried before the built-in one.
pub(super) const TRIES: usize = 3;

/// Cases of the folder that are expected to be right, by name, those with the fewest elements first: the job runs after
/// every case.
pub(super) fn choices(folders: &[PathBuf]) -> Vec<(String, TaskFolder)> {
    let mut found = Vec::new();
    for folder in folders {
        let (Ok((case, sources)), Ok(expected)) = (load::case_folder(folder), load::case_expected(folder))
        else {
            continue;
        };
        let is_good = case.kind == "correct" && expected.status == "ok" && case.language == Language::Cuda;
        if let (true, true, Ok(task)) =
            (is_good, case.setup.is_empty(), translate(&case, &sources, Hidden::Open))
        {
            found.push((elements(&case), list::name(folder), task));
        }
    }
    found.sort_by(|left, right| (left.0, &left.1).cmp(&(right.0, &right.1)));
    found.into_iter().take(TRIES).map(|(_, name, task)| (name, task)).collect()
}

/// The built-in one, for folders without any.
pub(super) fn built_in() -> Result<TaskFolder, Refusal> {
    let sources = Files::from([
        ("reference.cu".to_owned(), include_bytes!("known_good/reference.cu").to_vec()),
        ("candidate.cu".to_owned(), include_bytes!("known_good/candidate.cu").to_vec()),
    ]);
    let case = fleet_config::config::case_folder::parse_case(include_bytes!("known_good/case.json"))?;
    translate(&case, &sources, Hidden::Open)
}

fn elements(case: &CaseFolder) -> i64 {
    let arguments = case.configs.iter().flat_map(|config| &config.arguments);
    let size = |kind: &ArgumentKind| match kind {
        ArgumentKind::Buffer { shape, role: _, start: _ } => {
            shape.iter().fold(1_i64, |count, side| count.saturating_mul(*side))
        }
        ArgumentKind::Integer(_) | ArgumentKind::Float(_) => 0,
    };
    arguments.map(|argument| size(&argument.kind)).fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_job_is_a_task() {
        let task = built_in().unwrap();
        let text = String::from_utf8(task.files["task.toml"].clone()).unwrap();
        let draft = fleet_config::config::parse_task(&text, "task.toml").unwrap();
        assert!(fleet_config::config::lint(&draft).refusals.is_empty());
        assert_eq!(task.candidates, ["candidates/candidate.cu"]);
    }
}
