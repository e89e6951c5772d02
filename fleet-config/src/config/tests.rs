//! Task and candidate files end to end: the sample, what lint says of spoilt copies of it, and the scaffold.

use super::load;
use super::*;
use crate::domain::{Bytes, CaseKind, HoldoutSection, Input, NanRule, ParamKind, Step};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/sample")
}

fn text() -> String {
    fs::read_to_string(sample().join("task.toml")).unwrap()
}

/// The sample with one passage replaced.
fn spoilt(from: &str, to: &str) -> String {
    let text = text();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

/// Codes of everything that is refused in `text`, each with its line.
fn refused(text: &str) -> Vec<String> {
    let list = match parse_task(text, "task.toml") {
        Err(refusal) => vec![refusal],
        Ok(draft) => lint(&draft).refusals,
    };
    let line = |place: &str| {
        let rest = place.strip_prefix("task.toml").unwrap_or_default().trim_start_matches(':');
        rest.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    list.iter().map(|refusal| format!("{} {}", refusal.code, line(&refusal.place))).collect()
}

fn line_of(text: &str, passage: &str) -> usize {
    text[..text.find(passage).unwrap()].matches('\n').count() + 1
}

fn warned(text: &str) -> Vec<String> {
    let draft = parse_task(text, "task.toml").unwrap();
    lint(&draft).warnings.iter().map(|warning| warning.code.to_string()).collect()
}

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
fn faults_of_the_text_are_named_with_their_line() {
    let at = |passage: &str, text: &str| line_of(text, passage);
    for (from, to, code, mark) in [
        ("licence = ", "lisence = ", "task/unknown-key", "lisence"),
        ("memory_bytes", "memory_byte", "task/unknown-key", "memory_byte ="),
        ("role = \"in\", shape = [\"m\"", "rule = \"in\", shape = [\"m\"", "task/unknown-key", "rule"),
        ("normal = { mean = 0,", "normal = { maen = 0,", "task/unknown-key", "maen"),
        ("kind = \"correctness\"", "kind = \"correct\"", "task/value", "\"correct\""),
        ("m = 31", "m = \"31\"", "task/value", "m = \"31\""),
        ("\"ceil_div(n, 16)\"", "\"ceil_div(n 16)\"", "task/value", "ceil_div(n 16)"),
        ("block = [16, 16] }", "block = [16, 16, 1, 1] }", "task/launch", "[reference]"),
        ("[tolerance]\n", "[tolerance\n", "task/syntax", "[tolerance"),
        ("absolute = 1e-4", "absolute = nan", "task/tolerance", "absolute ="),
        ("absolute = 1e-4", "absolute = -1e-4", "task/tolerance", "absolute ="),
        ("relative = 1e-4", "relative = inf", "task/tolerance", "relative = inf"),
        ("absolute = 1e-4\n", "", "task/tolerance", "[tolerance]"),
        ("launch_ms = 10_000", "launch_ms = 0", "task/limits", "launch_ms"),
        ("value = \"m\" }", "role = \"in\" }", "task/param", "name = \"m\""),
        ("normal = { mean = 0, std = 1 }", "specials = []", "task/input", "[inputs.a]"),
        (
            "normal = { mean = 0, std = 1 }",
            "constant = 1\narange = { start = 0, step = 1 }",
            "task/input",
            "[inputs.a]",
        ),
    ] {
        let text = spoilt(from, to);
        assert_eq!(refused(&text), [format!("{code} {}", at(mark, &text))], "{to}");
    }
    let text = spoilt("[tolerance]\nabsolute = 1e-4\nrelative = 1e-4\n", "");
    assert_eq!(refused(&text), ["task/tolerance "]);
    let refusal = parse_task(&spoilt("licence = ", "lisence = "), "task.toml").unwrap_err();
    assert!(refusal.cause.starts_with("unknown key `lisence`"), "{refusal}");
}

#[test]
fn parts_that_disagree_are_refused() {
    for (from, to, code, mark) in [
        ("const float* a", "float* a", "task/signature", "name = \"a\""),
        ("float* c", "const float* c", "task/signature", "name = \"c\""),
        ("const float* a", "const double* a", "task/signature", "name = \"a\""),
        ("const float* a", "float a", "task/signature", "name = \"a\""),
        ("int m", "int* m", "task/signature", "name = \"m\""),
        ("int m, ", "", "task/signature", "signature ="),
        ("int m", "int q", "task/signature", "name = \"m\""),
        ("void matmul(", "void gemm(", "task/signature", "entry ="),
        ("extern \"C\" ", "", "task/signature", "signature ="),
        ("name = \"matmul-f32\"", "name = \"Matmul\"", "task/name", "name = \"Matmul\""),
        ("name = \"oblong\"", "name = \"square\"", "task/duplicate", "n = 256, k = 320"),
        ("m = 31, n = 37, k = 29", "m = 31, n = 37", "task/case", "[[case]]"),
        ("m = 31, n = 37, k = 29", "m = 31, n = 37, k = 29, q = 1", "task/case", "[[case]]"),
        ("m = 31, n = 37, k = 29", "m = 31, n = 37, k = 0", "task/case", "[[case]]"),
        ("shape = [\"k\", \"n\"]", "shape = [\"k - 100\", \"n\"]", "task/shape", "name = \"b\""),
        ("shape = [\"k\", \"n\"]", "shape = [\"q\", \"n\"]", "task/shape", "name = \"b\""),
        ("memory_bytes = 67_108_864", "memory_bytes = 100_000", "task/memory", "name = \"square\""),
        ("[inputs.b]", "[inputs.c]", "task/input", "[inputs.c]"),
        ("std = 1", "std = -1", "task/input", "[inputs.a]"),
        ("block = [16, 16] }", "block = [64, 64] }", "task/launch", "[reference]"),
        ("\"ceil_div(m, 16)\"", "\"ceil_div(q, 16)\"", "task/launch", "[reference]"),
        ("\"ceil_div(m, 16)\"", "\"m - 31\"", "task/launch", "[reference]"),
        ("file = \"baseline.cu\"", "file = \"../baseline.cu\"", "source/path", ""),
    ] {
        let text = spoilt(from, to);
        let found = refused(&text);
        let first = found.first().unwrap_or_else(|| panic!("{to} was accepted"));
        let wanted = if mark.is_empty() { String::new() } else { line_of(&text, mark).to_string() };
        let places: Vec<&str> = vec![first.split_once(' ').unwrap().1];
        assert!(found.iter().any(|one| one.starts_with(code)), "{to}: {found:?}");
        // A table's own line may be that of its header, so lines next to it are fine for cases.
        let near = |place: &&str| {
            wanted.is_empty()
                || place
                    .parse::<usize>()
                    .is_ok_and(|line| wanted.parse::<usize>().is_ok_and(|wanted| line.abs_diff(wanted) <= 3))
        };
        assert!(places.iter().any(near), "{to}: {found:?} instead of line {wanted}");
    }
    let without = text().replace("kind = \"performance\"", "kind = \"correctness\"");
    assert_eq!(refused(&without), ["task/no-performance-case "]);
    let without = text().replace("role = \"out\"", "role = \"in\"").replace("float* c", "const float* c");
    assert!(refused(&without).iter().any(|one| one.starts_with("task/no-output")));
}

#[test]
fn sealed_sizes_are_in_no_refusal() {
    let text = spoilt("m = 288, n = 208, k = 304", "m = 7777, n = 8888, k = 9999");
    let draft = parse_task(&text, "task.toml").unwrap();
    let findings = lint(&draft);
    assert!(!findings.refusals.is_empty());
    for refusal in findings.refusals {
        let text = refusal.to_string();
        assert!(!text.contains("7777") && !text.contains("8888") && !text.contains("9999"), "{text}");
    }
}

#[test]
fn weak_tasks_are_warned_of() {
    assert_eq!(warned(&text()), Vec::<String>::new());
    let constant = spoilt("normal = { mean = 0, std = 1 }", "constant = 1");
    assert_eq!(warned(&constant), ["task/constant-input"]);
    let licence = spoilt("licence = \"Apache-2.0 OR MIT\"\n", "");
    assert_eq!(warned(&licence), ["task/no-licence"]);
    assert_eq!(warned(&spoilt("m = 31, n = 37, k = 29", "m = 32, n = 38, k = 28")), ["task/no-odd-case"]);
    let author = spoilt("file = \"reference.cu\"", "file = \"reference.cu\"\nauthor = \"A\"")
        .replace("file = \"baseline.cu\"", "file = \"baseline.cu\"\nauthor = \"A\"");
    assert_eq!(warned(&author), ["task/one-author"]);
    let open = text();
    let (start, end) = (open.find("[[holdout.case]]").unwrap(), open.find("# With inputs").unwrap());
    assert_eq!(warned(&format!("{}{}", &open[..start], &open[end..])), ["task/no-holdout"]);
}

#[test]
fn decimals_keep_their_shortest_spelling_however_they_are_written() {
    for (written, spelt) in
        [("1e-4", "0.0001"), ("\"0.00010\"", "0.0001"), ("0", "0"), ("-0.0", "0"), ("1", "1")]
    {
        let draft = parse_task(&spoilt("absolute = 1e-4", &format!("absolute = {written}")), "t").unwrap();
        assert_eq!(draft.tolerance.absolute.as_str(), spelt, "{written}");
    }
}

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

#[test]
fn launches_have_steps_scratch_and_memsets() {
    let steps = r#"
        [baseline.launch]
        scratch = [{ name = "partial", type = "f32", count = "m * n * 4" }]
        [[baseline.launch.step]]
        memset = "partial"
        [[baseline.launch.step]]
        entry = "split"
        grid = ["device.multiprocessors"]
        block = [128]
        shared_bytes = "4 * k"
        arguments = ["a", "b", "partial", "m"]
        [[baseline.launch.step]]
        grid = [1]
        block = [1]
        cooperative = true
        "#;
    let (start, end) = (text().find("launch = { grid").unwrap(), text().find("[provenance]").unwrap());
    let whole = text();
    let baseline = whole.find("[baseline]").unwrap();
    let reference = &whole[start..baseline];
    let text = format!(
        "{}{reference}[baseline]\nfile = \"baseline.cu\"\n{steps}\n{}",
        &whole[..start],
        &whole[end..]
    );
    let draft = parse_task(&text, "task.toml").unwrap();
    assert_eq!(lint(&draft).refusals, []);
    let plan = &draft.baseline.plan;
    assert!(matches!(&plan.steps[0], Step::Memset(memset) if memset.byte == 0));
    let Step::Kernel(split) = &plan.steps[1] else { panic!("{plan:?}") };
    assert_eq!((split.entry.as_str(), split.grid[2].as_str()), ("split", "1"));
    let Step::Kernel(last) = &plan.steps[2] else { panic!("{plan:?}") };
    assert!(last.entry == "matmul" && last.attributes.cooperative);
    for (from, to) in [
        ("\"partial\", \"m\"]", "\"partials\", \"m\"]"),
        ("memset = \"partial\"", "memset = \"a\""),
        ("memset = \"partial\"", "memset = \"partial\"\ngrid = [1]"),
        ("count = \"m * n * 4\"", "count = \"m * n * 400000\""),
        ("name = \"partial\"", "name = \"a\""),
        ("[[baseline.launch.step]]\nmemset", "grid = [1]\n[[baseline.launch.step]]\nmemset"),
    ] {
        let spoilt = text.replace("        ", "").replacen(from, to, 1);
        assert!(refused(&spoilt).iter().any(|one| one.starts_with("task/launch")), "{to}");
    }
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

#[test]
fn the_scaffold_parses_and_lints() {
    let signature = "extern \"C\" __global__ void row_softmax(const float* x, const bool* mask, __half* y, float scale, int Rows, int columns)";
    let text = scaffold(signature, "reference.cu", "kernels/first.cu").unwrap();
    let draft = parse_task(&text, "task.toml").unwrap();
    assert_eq!(lint(&draft).refusals, []);
    assert_eq!(draft.dims.value, ["rows", "columns"]);
    assert!(matches!(&draft.params[3].value.kind, ParamKind::Float { .. }));
    let warnings: Vec<String> =
        lint(&draft).warnings.iter().map(|warning| warning.code.to_string()).collect();
    assert_eq!(warnings, ["task/no-licence"]);
    assert!(text.contains("# edit:"));
    let plain = "extern \"C\" __global__ void f(double*)";
    let draft = parse_task(&scaffold(plain, "r.cu", "k.cu").unwrap(), "task.toml").unwrap();
    assert_eq!(lint(&draft).refusals, []);
    for bad in ["void f(int n)", "extern \"C\" __global__ void f(const float* x)", ""] {
        assert_eq!(scaffold(bad, "r.cu", "k.cu").unwrap_err().code, "task/signature", "{bad}");
    }
    assert_eq!(scaffold(plain, "/r.cu", "k.cu").unwrap_err().code, "source/path");
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

proptest! {
    #[test]
    fn no_change_of_the_sample_panics(
        cuts in proptest::collection::vec((0.0..1.0_f64, 0_usize..12, "[a-z0-9 =\"\\[\\]{},.\n-]{0,6}"), 1..4)
    ) {
        let mut text: Vec<char> = text().chars().collect();
        for (place, length, insert) in cuts {
            let start = ((text.len() as f64) * place) as usize;
            let end = (start + length).min(text.len());
            text.splice(start..end, insert.chars());
        }
        let text: String = text.into_iter().collect();
        if let Ok(draft) = parse_task(&text, "task.toml") {
            lint(&draft);
        }
        let _ = parse_candidates(&text, "candidates.toml", "matmul");
    }
}

/// A task that uses every part of the format once.
const WHOLE: &str = r#"
name = "golden"
summary = "every part of the format"
entry = "f"
signature = 'extern "C" __global__ void f(const float* x, const int* y, float* z, int n, float s)'
dims = ["n"]
licence = "MIT"
headers = ["shared.cuh"]
param = [
  { name = "x", type = "f32", role = "in", shape = ["n", 2] },
  { name = "y", type = "i32", role = "in", shape = ["n"] },
  { name = "z", type = "f32", role = "inout", shape = ["round_up(n, 4)"] },
  { name = "n", type = "i32", value = "n" },
  { name = "s", type = "f32", value = 0.5 },
]
inputs.x = { normal = { mean = 0, std = 1 }, specials = [{ index = 0, value = "nan" }, { index = 1, value = "-inf" }] }
inputs.y.integers = { low = -4, high = 5 }
inputs.z.uniform = { low = -1, high = 1 }
case = [
  { name = "odd", kind = "correctness", dims = { n = 7 }, inputs = { y = { file = "y.bin" } } },
  { name = "large", kind = "performance", dims = { n = 64 }, inputs = { z = { constant = 1e-9 }, y = { arange = { start = 0, step = 1 } } } },
]
holdout.case = [{ name = "sealed", kind = "performance", dims = { n = 96 } }]
tolerance = { absolute = 0, relative = 1e-5, nan = "equal" }
reference = { file = "r.cu", author = "R", launch = { grid = ["n"], block = [32] } }
provenance = { author = "A", origin = "https://example.invalid" }
[baseline]
file = "b.cu"
files = ["b/inner.cuh"]
[baseline.launch]
scratch = [{ name = "t", type = "bf16", count = "n" }]
step = [
  { memset = "t", byte = 255 },
  { grid = ["device.multiprocessors"], block = [8, 4, 2], shared_bytes = "n * 4", arguments = ["x", "t"], cooperative = true, cluster = [2, 1, 1] },
]
"#;

/// Canonical bytes are names: a change of any is a new format. `MUSTER_BLESS=1` writes them anew.
#[test]
fn canonical_bytes_are_those_of_the_vectors() {
    let draft = parse_task(WHOLE, "golden.toml").unwrap();
    assert_eq!(lint(&draft).refusals, []);
    let mut files: Files =
        ["r.cu", "b.cu", "b/inner.cuh", "shared.cuh"].map(|path| (path.to_owned(), path.into())).into();
    files.insert("y.bin".to_owned(), vec![0; 28]);
    let loaded = assemble(&draft, &files, &[3; 32]).unwrap();
    let text = "file = \"b.cu\"\nauthor = \"A\"\nagent = \"G\"\nmodel = \"M\"\nlicence = \"MIT\"\nfamily = \"wide\"\n\
                parent = \"0000000000000000000000000000000000000000000000000000000000000001\"\n\
                cost = { calls = 1, tokens_in = 2, tokens_out = 3, micros = 4, currency = \"EUR\" }\n\
                launch = { grid = [1], block = [32] }\n";
    let draft = parse_candidates(text, "golden.toml", "f").unwrap().remove(0);
    let candidate = assemble_candidate(&draft, &files, Bytes(1000)).unwrap().candidate;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/domain");
    for (name, bytes) in [
        ("task.json", loaded.task.document().unwrap().bytes),
        ("holdout.json", loaded.holdout.unwrap().document().unwrap().bytes),
        ("candidate.json", candidate.document().unwrap().bytes),
        (
            "policy-cpu-paired-1.json",
            crate::domain::MeasurementPolicy::cpu_paired().document().unwrap().bytes,
        ),
    ] {
        let path = folder.join(name);
        if std::env::var_os("MUSTER_BLESS").is_some() {
            fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(String::from_utf8(bytes).unwrap(), fs::read_to_string(&path).unwrap(), "{name}");
    }
    let task: crate::domain::Task =
        crate::domain::canonical::from_bytes(&fs::read(folder.join("task.json")).unwrap()).unwrap();
    assert_eq!(task, loaded.task);
    assert_eq!(check_task(&task).refusals, []);
}
