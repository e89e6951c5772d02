//! Case folders into task folders, and what is refused on the way.

use super::*;
use crate::config::{Files, LoadedTask, assemble, lint, parse_candidates, parse_task};
use crate::domain::{CaseKind, Fit, Input, NanRule, ParamKind, Role, SpecialValue, Step};
use serde_json::{Value, json};

const REFERENCE: &str = "// __global__ void other(int q);\n__device__ int g;\nextern \"C\" __global__ void __launch_bounds__(256) k(const float* __restrict__ in,\n  float* out, const unsigned n, float a) { }";

fn config(name: &str, n: i64, grid: i64) -> Value {
    let launch = json!({"grid": [grid, 1, 1], "block": [256, 1, 1], "shared_bytes": 0});
    json!({
        "name": name, "visible": true,
        "args": [
            {"name": "x", "kind": "buffer", "dtype": "f32", "shape": [n], "role": "in",
             "init": {"dist": "normal", "mean": 0.0, "std": 1.0, "seed": 1}},
            {"name": "y", "kind": "buffer", "dtype": "f32", "shape": [n], "role": "out", "init": {"dist": "poison"}},
            {"name": "n", "kind": "scalar", "dtype": "u32", "value": n},
            {"name": "a", "kind": "scalar", "dtype": "f32", "value": 1.5},
        ],
        "launch": {"reference": launch, "candidate": launch},
    })
}

fn case(configs: &[Value]) -> Value {
    json!({
        "schema": 1, "name": "77 Small_One", "kind": "correct", "language": "cuda", "entry": "k",
        "reference": "reference.cu", "candidates": ["candidate.cu"], "requires": {"min_sm": 70},
        "limits": {"compile_timeout_s": 30, "launch_timeout_s": 2.5},
        "tolerance": {"atol": 1e-5, "rtol": 0, "nan_equal": true},
        "configs": configs,
    })
}

fn sources() -> Files {
    let of = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec());
    Files::from([
        of("reference.cu", REFERENCE.as_bytes()),
        of("candidate.cu", b"\xef\xbb\xbfint x;\r\n\0\xff"),
    ])
}

fn read(case: &Value) -> CaseFolder {
    parse_case(case.to_string().as_bytes()).unwrap()
}

fn folder(case: &Value, hidden: Hidden) -> TaskFolder {
    translate(&read(case), &sources(), hidden).unwrap()
}

fn text(folder: &TaskFolder, path: &str) -> String {
    String::from_utf8(folder.files[path].clone()).unwrap()
}

/// The task that the folder holds; it must be one without a fault.
fn task(folder: &TaskFolder) -> LoadedTask {
    let text = text(folder, "task.toml");
    let draft = parse_task(&text, "task.toml").unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    let findings = lint(&draft);
    assert!(findings.refusals.is_empty(), "{:#?}\n{text}", findings.refusals);
    assemble(&draft, &folder.files, &[0; 32]).unwrap()
}

/// The case with one buffer `b` of 300 elements read by the kernel.
fn with_buffer(dtype: &str, role: &str, init: &Value) -> Value {
    let mut config = config("only", 300, 2);
    let argument =
        json!({"name": "b", "kind": "buffer", "dtype": dtype, "shape": [3, 100], "role": role, "init": init});
    config["args"].as_array_mut().unwrap().push(argument);
    case(&[config])
}

/// The input of `b`.
fn input(dtype: &str, init: &Value) -> Input {
    let loaded = task(&folder(&with_buffer(dtype, "inout", init), Hidden::Open));
    loaded.task.inputs["b"].clone()
}

#[test]
fn a_case_becomes_a_task_with_its_own_launches_and_untouched_sources() {
    let mut large = config("large", 4096, 16);
    large["launch"]["candidate"] = json!({"grid": [4, 2], "block": [1024], "shared_bytes": 98_304});
    let mut hidden = config("hidden", 777, 4);
    hidden["visible"] = json!(false);
    let case = case(&[large, config("odd", 4095, 16), config("tiny", 5, 1), hidden]);

    let sealed = folder(&case, Hidden::Sealed);
    assert_eq!((sealed.timed.len(), sealed.gating.len(), sealed.sealed.len()), (2, 1, 1));
    let loaded = task(&sealed);
    assert_eq!(loaded.task.holdout.as_ref().unwrap().cases, 1);
    assert!(!text(&sealed, "task.toml").is_empty() && loaded.task.name == "77-small-one");
    assert_eq!(loaded.task.tolerance.nan, NanRule::Equal);
    assert_eq!((loaded.task.limits.compile.0, loaded.task.limits.launch.0), (30_000, 2500));
    assert_eq!(
        loaded.task.signature,
        "extern \"C\" __global__ void k(const float * __restrict__ x, float * y, const unsigned n, float a)"
    );
    assert_eq!(sealed.files["candidates/candidate.cu"], sources()["candidate.cu"]);
    assert_eq!(sealed.files["reference.cu"], REFERENCE.as_bytes());

    let open = folder(&case, Hidden::Open);
    let loaded = task(&open);
    assert!(loaded.task.holdout.is_none());
    let kinds: Vec<CaseKind> = loaded.task.cases.iter().map(|case| case.kind).collect();
    use CaseKind::{Correctness, Performance};
    assert_eq!(kinds, [Performance, Performance, Correctness, Correctness]);
    assert_eq!(loaded.task.reference, loaded.task.baseline);

    let sidecar = parse_candidates(&text(&open, "candidates/candidate.toml"), "candidate.toml", "k").unwrap();
    let plan = sidecar[0].plan.clone().unwrap();
    let Step::Kernel(kernel) = &plan.steps[0] else { panic!("a kernel") };
    for (at, (grid, block, shared)) in
        [([4, 2, 1], 1024, 98_304), ([16, 1, 1], 256, 0), ([1, 1, 1], 256, 0), ([4, 1, 1], 256, 0)]
            .iter()
            .enumerate()
    {
        let scope = &loaded.task.cases[at].dims;
        let found: Vec<i64> = kernel.grid.iter().map(|side| side.evaluate(scope).unwrap()).collect();
        assert_eq!(found, *grid, "{at}");
        assert_eq!(kernel.block[0].evaluate(scope), Ok(*block));
        assert_eq!(kernel.shared_bytes.evaluate(scope), Ok(*shared));
    }
}

#[test]
fn every_distribution_and_element_type_has_its_draw() {
    let cases = [
        ("f16", json!({"dist": "normal", "mean": 0.5, "std": 2.0, "seed": 3})),
        ("f32", json!({"dist": "uniform", "lo": -1.0, "hi": 1.0, "seed": 3})),
        ("f64", json!({"dist": "randint", "lo": -5, "hi": 5, "seed": 3})),
        ("i8", json!({"dist": "randint", "lo": -128, "hi": 128, "seed": 3})),
        ("u8", json!({"dist": "arange"})),
        ("i32", json!({"dist": "zeros"})),
        ("u32", json!({"dist": "constant", "value": 7})),
        ("i64", json!({"dist": "constant", "value": -2.75})),
        ("i32", json!({"dist": "poison"})),
        ("bf16", json!({"dist": "arange"})),
    ];
    let found: Vec<String> = cases.iter().map(|(dtype, init)| format!("{:?}", input(dtype, init))).collect();
    let wanted = [
        "Normal", "Uniform", "Integers", "Integers", "Adapted", "Constant", "Constant", "Adapted", "Poison",
        "Adapted",
    ];
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(found.starts_with(wanted), "{found} is no {wanted}");
    }
    assert!(found[4].contains("Arange") && found[4].contains("Cast"), "{}", found[4]);
    assert!(matches!(input("f32", &json!({"dist": "uniform", "lo": 2, "hi": 2})), Input::Constant { .. }));
    assert!(matches!(
        input("f16", &json!({"dist": "constant", "value": 1e6})),
        Input::Adapted { fit: Fit::Cast, .. }
    ));
    let wide = json!({"dist": "randint", "lo": i64::MIN, "hi": i64::MAX, "seed": 5});
    let folder = folder(&with_buffer("i64", "in", &wide), Hidden::Open);
    assert_eq!(folder.files["inputs/000.bin"].len(), 2400);
    assert!(matches!(task(&folder).task.inputs["b"], Input::File { .. }));
}

#[test]
fn special_values_stand_over_every_draw_of_floats() {
    let specials = json!({"nan": [0, 17], "inf": [5], "-inf": [-1]});
    for init in [
        json!({"dist": "normal", "mean": 0, "std": 1, "specials": specials}),
        json!({"dist": "zeros", "specials": specials}),
        json!({"dist": "arange", "specials": specials}),
        json!({"dist": "randint", "lo": 0, "hi": 9, "specials": specials}),
    ] {
        let (Input::Normal { specials, .. } | Input::Adapted { specials, .. }) = input("f32", &init) else {
            panic!("{init}");
        };
        let found: Vec<(u64, SpecialValue)> =
            specials.iter().map(|special| (special.index, special.value)).collect();
        use SpecialValue::{Inf, Nan, NegInf};
        assert_eq!(found, [(0, Nan), (5, Inf), (17, Nan), (299, NegInf)]);
    }
}

#[test]
fn an_output_that_starts_as_something_is_restored_to_it() {
    let role = |init: &Value| {
        let loaded = task(&folder(&with_buffer("f32", "out", init), Hidden::Open));
        match &loaded.task.params[4].kind {
            ParamKind::Buffer { role, .. } => *role,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(role(&json!({"dist": "poison"})), Role::Out);
    assert_eq!(role(&json!({"dist": "zeros"})), Role::Inout);
}

#[test]
fn scalars_and_shapes_may_differ_between_configs() {
    let (mut one, mut two) = (config("one", 64, 1), config("two", 64, 1));
    two["args"][3]["value"] = json!(-0.25);
    two["args"][2]["value"] = json!(0);
    one["args"][0]["shape"] = json!([8, 8]);
    let folder = folder(&case(&[one, two]), Hidden::Open);
    let loaded = task(&folder);
    assert_eq!(loaded.task.cases[1].scalar("a").unwrap().as_str(), "-0.25");
    let ParamKind::Integer { value } = &loaded.task.params[2].kind else { panic!("an integer") };
    let values: Vec<i64> = loaded.task.cases.iter().map(|case| value.evaluate(&case.dims).unwrap()).collect();
    assert_eq!(values, [64, 0]);
}

#[test]
fn what_is_no_case_is_refused_with_its_place() {
    let good = || case(&[config("one", 64, 1)]);
    let check = |edit: &dyn Fn(&mut Value), code: &str, place: &str| {
        let mut value = good();
        edit(&mut value);
        let found = parse_case(value.to_string().as_bytes())
            .and_then(|case| translate(&case, &sources(), Hidden::Sealed));
        let refusal = found.expect_err(place);
        assert_eq!(refusal.code, code, "{refusal}");
        assert!(refusal.place.contains(place), "{} has no {place}", refusal.place);
    };
    check(&|v| v["schema"] = json!(2), "case/schema", "schema");
    check(&|v| v["language"] = json!("fortran"), "case/language", "language");
    check(&|v| v["language"] = json!("python"), "case/language", "language");
    check(&|v| drop(v.as_object_mut().unwrap().remove("entry")), "case/field", "case.json");
    check(&|v| v["configs"] = json!([]), "case/field", "configs");
    check(&|v| v["configs"][0]["visible"] = json!(false), "case/no-visible", "configs");
    check(&|v| v["configs"][0]["args"][0]["dtype"] = json!("f8"), "case/field", "args[0].dtype");
    check(&|v| v["configs"][0]["args"][1]["name"] = json!("x"), "case/field", "args[1].name");
    check(&|v| v["configs"] = json!([v["configs"][0], v["configs"][0]]), "case/field", "configs[1].name");
    check(&|v| v["configs"][0]["args"][0]["role"] = json!("both"), "case/field", "role");
    check(&|v| v["configs"][0]["args"][0]["init"]["dist"] = json!("cauchy"), "case/field", "init.dist");
    check(&|v| v["configs"][0]["args"][0]["init"]["std"] = json!("wide"), "case/field", "init.std");
    check(&|v| v["configs"][0]["args"][0]["init"]["specials"] = json!({"nan": [64]}), "case/field", "nan[0]");
    check(&|v| v["configs"][0]["launch"]["candidate"]["grid"] = json!([1.5]), "case/field", "grid[0]");
    check(&|v| v["limits"]["launch_timeout_s"] = json!(0), "case/field", "launch_timeout_s");
    check(&|v| v["reference"] = json!("other.cu"), "case/missing-file", "case.json");
    check(&|v| v["candidates"] = json!(["../x.cu"]), "case/file-name", "candidates");
    let mut two = good();
    two["configs"].as_array_mut().unwrap().push(config("two", 64, 1));
    two["configs"][1]["args"][1]["role"] = json!("inout");
    assert_eq!(translate(&read(&two), &sources(), Hidden::Open).unwrap_err().code, "case/config-differs");
    let refusal = parse_case(b"{\n \"atol\": NaN\n}").unwrap_err();
    assert!(refusal.code == "case/json" && refusal.cause.contains("NaN"), "{refusal}");
    assert_eq!(parse_case(&vec![b' '; field::TEXT_MAX + 1]).unwrap_err().code, "case/size");
    let mut odd = good();
    odd["colour"] = json!("red");
    assert_eq!(folder(&odd, Hidden::Sealed).warnings[0].code, "case/unknown-key");
}

#[test]
fn illegal_numbers_reach_the_checks_of_tasks() {
    let refused = |edit: &dyn Fn(&mut Value)| {
        let mut value = case(&[config("one", 64, 1)]);
        edit(&mut value);
        let folder = folder(&value, Hidden::Open);
        let draft = parse_task(&text(&folder, "task.toml"), "task.toml");
        draft.map_or_else(|refusal| refusal.code, |draft| lint(&draft).refusals.remove(0).code)
    };
    assert_eq!(refused(&|v| v["tolerance"]["atol"] = json!(-1.0)), "task/tolerance");
    assert_eq!(
        refused(&|v| v["configs"][0]["launch"]["reference"]["grid"] = json!([0, 1, 1])),
        "task/launch"
    );
    assert_eq!(refused(&|v| v["configs"][0]["args"][0]["shape"] = json!([0])), "task/shape");
    assert_eq!(refused(&|v| v["entry"] = json!("k; int q")), "task/signature");
}

#[test]
fn an_answer_is_read_with_its_defaults() {
    let expected =
        parse_expected(br#"{"status": "ok", "ranked": null, "speedup_max": 0.5, "speedup": "words"}"#)
            .unwrap();
    assert_eq!(expected.accept, ["ok"]);
    assert_eq!((expected.ranked, expected.speedup_max), (None, Some(0.5)));
    assert!(expected.worker_survives && expected.next_job_ok && !expected.quoted_output_ok);
    assert_eq!(parse_expected(b"{}").unwrap_err().code, "case/field");
    assert_eq!(parse_expected(br#"{"status": "ok", "ranked": "yes"}"#).unwrap_err().code, "case/field");
}
