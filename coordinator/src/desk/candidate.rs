//! Checks of candidates before anything is journalled.

use super::Desk;
use fleet_config::config::{check_path, check_source, lint_candidate};
use fleet_config::domain::{Bytes, Candidate, SourceTree, Task};
use fleet_config::refusal::Refusal;

impl Desk {
    /// Refuses a candidate that no node may see: wrong format, hostile paths, missing or illegal sources, plans
    /// over their limits.
    pub(super) fn check_candidate(&self, candidate: &Candidate, task: &Task) -> Result<(), Refusal> {
        if let Some(refusal) = lint_candidate(task, candidate).refusals.into_iter().next() {
            return Err(refusal);
        }
        let place: String = candidate.name.chars().take(80).collect();
        self.check_tree(&candidate.source, task.limits.source.0, &place)
    }

    fn check_tree(&self, tree: &SourceTree, limit: u64, place: &str) -> Result<(), Refusal> {
        let shape = |cause: &str| {
            Refusal::new(
                "candidate/source-tree",
                place,
                cause,
                "list each file once, and the main file among them",
            )
        };
        if tree.files.is_empty() || tree.files.len() > SourceTree::FILES_MAX {
            return Err(shape("a source tree has 1 to 256 files"));
        }
        if !tree.files.windows(2).all(|pair| pair[0].path < pair[1].path) {
            return Err(shape("the files of a source tree are sorted by path, each path once"));
        }
        if !tree.files.iter().any(|file| file.path == tree.main) {
            return Err(shape("the main file is not in the source tree"));
        }
        let total = tree.files.iter().fold(0u64, |sum, file| sum.saturating_add(file.blob.size));
        if total > limit {
            return Err(Refusal::new(
                "candidate/too-large",
                place,
                format!("the source tree has {total} bytes, the task allows {limit}"),
                "send less source",
            ));
        }
        for file in &tree.files {
            check_path(&file.path)?;
            let bytes = self.blobs.read(&file.blob, limit).map_err(|error| {
                Refusal::new(
                    "candidate/missing-blob",
                    format!("{place}: {}", file.path),
                    error.to_string(),
                    "put every source file with PUT /v1/blobs first",
                )
            })?;
            check_source(&bytes, &file.path, Bytes(limit))?;
        }
        Ok(())
    }
}
