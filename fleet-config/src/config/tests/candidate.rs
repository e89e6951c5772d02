//! Candidate files and sidecars, and candidates beside their task.

use super::*;

#[test]
fn the_sample_candidates_load_and_fit_the_task() {
    let task = load::task(&sample().join("task.toml"), &[0; 32]).unwrap().task;
    let mut names = Vec::new();
    let mut entries: Vec<PathBuf> =
        fs::read_dir(sample().join("candidates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries.iter().filter(|path| path.extension().is_some_and(|ending| ending == "cu")) {
        let loaded = load::candidates(path, &task.entry, task.limits.source).unwrap();
        let [loaded] = loaded.as_slice() else { panic!("{path:?}") };
        assert_eq!(lint_candidate(&task, &loaded.candidate).refusals, [], "{path:?}");
        assert_eq!(loaded.candidate.plan.is_some(), path.with_extension("toml").exists());
        assert_eq!(loaded.candidate.source.blobs().collect::<Vec<_>>(), [loaded.blobs[0].0]);
        names.push(loaded.candidate.name.clone());
    }
    assert_eq!(names, ["odd-size-bug", "overrun", "slower", "syntax-error", "tiled", "vectorised"]);
}

#[test]
fn candidate_files_say_who_made_what() {
    let folder = tempfile::tempdir().unwrap();
    let limit = Bytes(1000);
    fs::write(folder.path().join("fast.cu"), "void f();").unwrap();
    let bare = load::candidates(&folder.path().join("fast.cu"), "f", limit).unwrap();
    assert_eq!((bare[0].candidate.name.as_str(), bare[0].candidate.plan.is_none()), ("fast", true));
    let parent = bare[0].candidate.id().unwrap();
    let sidecar = format!(
        "author = \"A\"\nmodel = \"M\"\nlicence = \"MIT\"\nfamily = \"fast\"\nparent = \"{parent}\"\n\
         cost = {{ calls = 2, tokens_in = 10, currency = \"EUR\" }}\nlaunch = {{ grid = [1], block = [32] }}\n"
    );
    fs::write(folder.path().join("fast.toml"), &sidecar).unwrap();
    let loaded = load::candidates(&folder.path().join("fast.cu"), "f", limit).unwrap();
    let candidate = &loaded[0].candidate;
    assert_eq!((candidate.provenance.parent, candidate.licence.as_str()), (Some(parent), "MIT"));
    assert!(
        matches!(&candidate.plan.as_ref().unwrap().steps[0], Step::Kernel(kernel) if kernel.entry == "f")
    );
    assert!(candidate.family.is_some());
    let list = "[[candidate]]\nfile = \"fast.cu\"\n\n[[candidate]]\nname = \"two\"\nfile = \"fast.cu\"\nauthor = \"B\"\n";
    let path = folder.path().join("list.toml");
    fs::write(&path, list).unwrap();
    let names: Vec<String> = load::candidates(&path, "f", limit)
        .unwrap()
        .into_iter()
        .map(|loaded| loaded.candidate.name)
        .collect();
    assert_eq!(names, ["fast", "two"]);
    for (text, code) in [
        ("[[candidate]]\nauthor = \"A\"\n", "candidate/missing-key"),
        ("[[candidate]]\nfile = \"none.cu\"\n", "candidate/missing-file"),
        ("[[candidate]]\nfile = \"../fast.cu\"\n", "source/path"),
        ("[[candidate]]\nfile = \"fast.cu\"\nautor = \"A\"\n", "candidate/unknown-key"),
        ("[[candidate]]\nfile = \"fast.cu\"\nparent = \"12\"\n", "candidate/parent"),
        ("[[candidate]]\nfile = \"fast.cu\"\nlaunch = { grid = [1] }\n", "candidate/launch"),
        ("candidate = 3\n", "candidate/value"),
        ("[[candidate]\n", "candidate/syntax"),
    ] {
        fs::write(&path, text).unwrap();
        let refusals = load::candidates(&path, "f", limit).unwrap_err();
        assert_eq!(refusals[0].code, code, "{text}");
    }
    let refusals = load::candidates(&folder.path().join("fast.cu"), "f", Bytes(3)).unwrap_err();
    assert_eq!(refusals[0].code, "source/size");
}

#[test]
fn a_candidate_is_judged_against_its_task() {
    let task = load::task(&sample().join("task.toml"), &[0; 32]).unwrap().task;
    let path = sample().join("candidates/tiled.cu");
    let mut candidate = load::candidates(&path, "matmul", task.limits.source).unwrap().remove(0).candidate;
    if let Some(Step::Kernel(kernel)) = candidate.plan.as_mut().map(|plan| &mut plan.steps[0]) {
        kernel.block[0] = "m * 8".parse().unwrap();
        kernel.arguments = vec!["a".to_owned(), "x".to_owned()];
    }
    candidate.source.main = "other.cu".to_owned();
    let mut task = task;
    task.limits.source = Bytes(10);
    task.reference.author = "A".to_owned();
    candidate.provenance.author = "A".to_owned();
    candidate.licence = String::new();
    let findings = lint_candidate(&task, &candidate);
    let codes: Vec<&str> = findings.refusals.iter().map(|refusal| refusal.code.as_ref()).collect();
    assert_eq!(
        codes.iter().filter(|code| **code == "candidate/launch").count(),
        2,
        "{:?}",
        findings.refusals
    );
    assert!(codes.contains(&"source/path") && codes.contains(&"source/size"));
    assert_eq!(findings.warnings.len(), 2);
}
