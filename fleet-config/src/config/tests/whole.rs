//! Whole tasks: the sample as it is, and a task that arrives as a document.

use super::*;

#[test]
fn the_sample_loads_without_a_warning() {
    let loaded = load::task(&sample().join("task.toml"), &[9; 32]).unwrap();
    assert_eq!(loaded.warnings, []);
    let task = &loaded.task;
    assert_eq!(task.dims, ["m", "n", "k"]);
    let kinds: Vec<CaseKind> = task.cases.iter().map(|case| case.kind).collect();
    assert_eq!(kinds, [CaseKind::Correctness, CaseKind::Performance, CaseKind::Performance]);
    assert_eq!(task.tolerance.absolute.as_str(), "0.0001");
    assert_eq!(task.tolerance.nan, NanRule::Never);
    // Every blob is there, and nothing else.
    let mut wanted = task.blobs();
    wanted.sort();
    assert_eq!(loaded.blobs.iter().map(|(blob, _)| *blob).collect::<Vec<_>>(), wanted);
    // The commitment opens with its salt, and the sealed sizes are nowhere in the task.
    let section = loaded.holdout.unwrap();
    let bytes = section.document().unwrap().bytes;
    let holdout = task.holdout.as_ref().unwrap();
    assert_eq!(HoldoutSection::open(&bytes, &[9; 32], holdout).unwrap(), section);
    let canonical = String::from_utf8(task.document().unwrap().bytes).unwrap();
    assert!(!canonical.contains("sealed") && !canonical.contains("\"m\":288"), "{canonical}");
    // Another salt is another commitment, so another task.
    let other = load::task(&sample().join("task.toml"), &[8; 32]).unwrap();
    assert_ne!(other.task.id().unwrap(), task.id().unwrap());
}

#[test]
fn a_task_that_arrives_as_a_document_is_judged_again() {
    let good = load::task(&sample().join("task.toml"), &[0; 32]).unwrap().task;
    assert_eq!(check_task(&good), Findings::default());
    let codes = |spoil: &dyn Fn(&mut crate::domain::Task)| -> Vec<String> {
        let mut task = good.clone();
        spoil(&mut task);
        check_task(&task).refusals.iter().map(|refusal| refusal.code.to_string()).collect()
    };
    assert_eq!(codes(&|task| task.format = "muster.task/9".to_owned()), ["task/format"]);
    assert_eq!(codes(&|task| task.tolerance.absolute = "-1".parse().unwrap()), ["task/tolerance"]);
    assert_eq!(codes(&|task| task.limits.memory = Bytes(0)), ["task/limits"]);
    assert_eq!(codes(&|task| task.baseline.source.main = "x.cu".to_owned()), ["source/path"]);
    assert_eq!(codes(&|task| task.baseline.source.files[0].path = "../x".to_owned()).len(), 2);
    let steps = |task: &mut crate::domain::Task| {
        task.reference.plan.steps = vec![task.reference.plan.steps[0].clone(); 65];
    };
    assert_eq!(codes(&steps), ["task/launch"]);
    let file = |task: &mut crate::domain::Task| {
        let blob = crate::domain::BlobRef::of(b"1234");
        task.cases[0].inputs.insert("a".to_owned(), Input::File { blob });
    };
    assert_eq!(codes(&file), ["task/input-size"]);
    assert_eq!(codes(&|task| task.cases.truncate(1)), ["task/no-performance-case"]);
}
