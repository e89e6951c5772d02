//! Files beside the task file: sources, inputs and what is wrong with them.

use super::*;

#[test]
fn files_that_are_missing_or_no_text_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("task.toml");
    fs::write(&path, spoilt("licence = \"Apache-2.0 OR MIT\"\n", "")).unwrap();
    fs::write(folder.path().join("reference.cu"), b"a\0b").unwrap();
    let codes = |findings: &Findings| {
        findings.refusals.iter().map(|refusal| refusal.code.to_string()).collect::<Vec<_>>()
    };
    let findings = load::lint_task(&path);
    assert_eq!(codes(&findings), ["task/missing-file"]);
    assert_eq!(findings.warnings.len(), 1);
    fs::write(folder.path().join("baseline.cu"), b"\xff").unwrap();
    assert_eq!(codes(&load::lint_task(&path)), ["source/nul", "source/utf8"]);
    for name in ["reference.cu", "baseline.cu"] {
        fs::write(folder.path().join(name), "\u{feff}void f();\r\n").unwrap();
    }
    assert_eq!(codes(&load::lint_task(&path)), Vec::<String>::new());
    assert_eq!(codes(&load::lint_task(&folder.path().join("none.toml"))), ["task/unreadable-file"]);
    assert_eq!(codes(&load::lint_task(folder.path())), ["task/unreadable-file"]);
    fs::write(&path, b"name = \"\xff\"").unwrap();
    assert_eq!(codes(&load::lint_task(&path)), ["task/utf8"]);
}

#[test]
fn input_files_become_blobs_of_the_right_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("task.toml");
    let text = spoilt(
        "dims = { m = 31, n = 37, k = 29 }",
        "dims = { m = 2, n = 3, k = 1 }\ninputs.a.file = \"a.bin\"",
    );
    fs::write(&path, text).unwrap();
    for name in ["reference.cu", "baseline.cu"] {
        fs::copy(sample().join(name), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("a.bin"), [1; 8]).unwrap();
    let loaded = load::task(&path, &[0; 32]).unwrap();
    assert!(matches!(loaded.task.cases[0].inputs["a"], Input::File { .. }));
    assert_eq!(loaded.blobs.len(), 3);
    fs::write(folder.path().join("a.bin"), [1; 9]).unwrap();
    assert_eq!(load::task(&path, &[0; 32]).unwrap_err().refusals[0].code, "task/input-size");
    // A sealed case has no file: a blob could be read by every node.
    let sealed = spoilt("dims = { m = 288,", "inputs.a.file = \"a.bin\"\ndims = { m = 288,");
    assert!(refused(&sealed).iter().any(|one| one.starts_with("task/holdout-file")));
}
