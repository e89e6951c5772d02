//! The forms that values and launches may take, the scaffold, and the canonical bytes of it all.

use super::*;

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
    let unnamed = "extern \"C\" __global__ void f(double* p1, float*, int n, int N)";
    let draft = parse_task(&scaffold(unnamed, "r.cu", "k.cu").unwrap(), "task.toml").unwrap();
    assert_eq!(lint(&draft).refusals, []);
    let names: Vec<&str> = draft.params.iter().map(|param| param.value.name.as_str()).collect();
    assert_eq!(names, ["p1", "p1_", "n", "N"]);
    let long = format!("extern \"C\" __global__ void f(double* y, int {})", "n".repeat(65));
    let shared = "extern \"C\" __global__ void f(double* y, const int* y)";
    for (bad, cause) in
        [(long.as_str(), "more than 64 characters"), (shared, "two parameters are called `y`")]
    {
        let refusal = scaffold(bad, "r.cu", "k.cu").unwrap_err();
        assert!(refusal.code == "task/signature" && refusal.cause.contains(cause), "{refusal}");
    }
    for bad in ["void f(int n)", "extern \"C\" __global__ void f(const float* x)", ""] {
        assert_eq!(scaffold(bad, "r.cu", "k.cu").unwrap_err().code, "task/signature", "{bad}");
    }
    assert_eq!(scaffold(plain, "/r.cu", "k.cu").unwrap_err().code, "source/path");
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
    let section = "validation = { determinism = \"bitwise\", stress = [\"near-max\", \"zeros\", \"zeros\"], \
                   allow = [\"copied-input\"], sweep = { n = { low = 8, high = 900, multiple_of = 2 } } }\n";
    // The sweep of a task with a file input is refused: a file has one size.
    let swept = parse_task(&format!("{section}{WHOLE}"), "golden.toml").unwrap();
    assert_eq!(
        lint(&swept).refusals.iter().map(|refusal| refusal.code.clone()).collect::<Vec<_>>(),
        ["task/sweep"]
    );
    let whole = WHOLE.replace(", inputs = { y = { file = \"y.bin\" } }", "");
    let swept = parse_task(&format!("{section}{whole}"), "golden.toml").unwrap();
    assert_eq!(lint(&swept).refusals, []);
    let swept = assemble(&swept, &files, &[3; 32]).unwrap().task;
    assert_eq!((swept.format.as_str(), loaded.task.format.as_str()), ("muster.task/2", "muster.task/1"));
    assert_eq!(check_task(&swept).refusals, []);
    let unsaid = crate::domain::Task { format: "muster.task/1".to_owned(), ..swept.clone() };
    assert_eq!(check_task(&unsaid).refusals[0].code, "task/format");
    for (name, bytes) in [
        ("task.json", loaded.task.document().unwrap().bytes),
        ("task-2.json", swept.document().unwrap().bytes),
        ("holdout.json", loaded.holdout.unwrap().document().unwrap().bytes),
        ("candidate.json", candidate.document().unwrap().bytes),
        (
            "policy-cpu-paired-1.json",
            crate::domain::MeasurementPolicy::cpu_paired().document().unwrap().bytes,
        ),
        (
            "policy-gpu-paired-1.json",
            crate::domain::MeasurementPolicy::gpu_paired().document().unwrap().bytes,
        ),
        (
            "policy-gpu-paired-2.json",
            crate::domain::MeasurementPolicy::gpu_paired_traded().document().unwrap().bytes,
        ),
        (
            "policy-gpu-paired-hot-1.json",
            crate::domain::MeasurementPolicy::gpu_paired_hot().document().unwrap().bytes,
        ),
        ("policy-gpu-probe-1.json", crate::domain::MeasurementPolicy::gpu_probe().document().unwrap().bytes),
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
    let task: crate::domain::Task =
        crate::domain::canonical::from_bytes(&fs::read(folder.join("task-2.json")).unwrap()).unwrap();
    assert_eq!(task, swept);
    assert_eq!(check_task(&task).refusals, []);
}
