//! The tasks and kernels that are kept here: a coordinator takes every one of them, the wrong ones too.

use fleet_config::config::{lint_candidate, load};
use fleet_tests::fleet::checkout;
use std::path::{Path, PathBuf};

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[test]
fn every_kernel_that_a_node_runs_here_is_one_that_can_be_submitted() {
    let (mut tasks, mut candidates, mut refused) = (0, 0, String::new());
    for folder in sorted(&checkout().join("tests/kernels")) {
        let file = folder.join("task.toml");
        if !file.exists() {
            continue;
        }
        tasks += 1;
        let task = match load::task(&file, &[0; 32]) {
            Ok(loaded) => loaded.task,
            Err(findings) => {
                refused.push_str(&format!("{}: {:?}\n", file.display(), findings.refusals));
                continue;
            }
        };
        let sources = [folder.join("candidate.cu")].into_iter().chain(sorted(&folder.join("wrong")));
        for source in sources.filter(|path| path.extension().is_some_and(|end| end == "cu")) {
            candidates += 1;
            match load::candidates(&source, &task.entry, task.limits.source) {
                Ok(read) => {
                    for refusal in read.iter().flat_map(|one| lint_candidate(&task, &one.candidate).refusals)
                    {
                        refused.push_str(&format!("{}: {refusal}\n", source.display()));
                    }
                }
                Err(refusals) => refused.push_str(&format!("{}: {refusals:?}\n", source.display())),
            }
        }
    }
    assert!(refused.is_empty(), "{refused}");
    assert!(tasks >= 79 && candidates >= 79 + 34, "{tasks} tasks and {candidates} candidates");
}
