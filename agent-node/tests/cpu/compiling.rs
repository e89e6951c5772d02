//! What the compiler refuses, and how it is told.

use crate::bench::{Bench, bench, bench_with};
use fleet_config::domain::{Cause, Status};
use std::collections::BTreeMap;
use std::path::PathBuf;

const HEAD: &str = "extern \"C\" __global__ void f(const float* x, float* y, int n)";
const TASK: &str = "extern \"C\" __global__ void f(const float* x, float* y, int n);";

fn refused(bench: &Bench, source: &str, status: Status) -> Cause {
    let failure = bench.compile(source, "f", Some(TASK)).unwrap_err();
    let cause = failure.outcome.cause.clone().unwrap();
    let log = String::from_utf8_lossy(failure.log.as_deref().unwrap_or(b"")).into_owned();
    assert_eq!(failure.outcome.status, status, "{cause:?}\n{log}");
    cause
}

fn both(check: impl Fn(&Bench)) {
    for compiler in ["/usr/bin/g++", "/usr/bin/clang++"] {
        if let Some(bench) = bench_with(&[PathBuf::from(compiler)]) {
            check(&bench);
        }
    }
}

#[test]
fn a_syntax_error_has_the_line_of_the_submitter() {
    both(|bench| {
        let source =
            format!("\u{feff}// windows\r\n{HEAD} {{\r\n  y[0] = 2.f * x[0]      // no semicolon\r\n}}\r\n");
        let cause = refused(bench, &source, Status::CompileError);
        let place = cause.source.unwrap();
        assert_eq!(place.file, "kernels/cand.cu");
        assert!((3..=4).contains(&place.line), "{}", cause.message);
        let cause = refused(bench, &format!("{HEAD} {{\n  y[0] = 1;\n"), Status::CompileError);
        assert_eq!(cause.source.unwrap().file, "kernels/cand.cu", "{}", cause.message);
    });
}

#[test]
fn another_signature_is_rejected() {
    both(|bench| {
        let source = "extern \"C\" __global__ void f(int n, const float* x, float* y) { y[0] = x[n]; }";
        let cause = refused(bench, source, Status::Rejected);
        assert_eq!(cause.code, "compile/signature");
        assert!(cause.message.contains("signature"));
        let cause = refused(bench, "__global__ void g(float* y) {}", Status::Rejected);
        assert_eq!(cause.code, "compile/entry-missing", "{}", cause.message);
        let ok = "__global__ void __launch_bounds__(64) f(const float* __restrict__ a, float* __restrict__ b, const int c) { b[c] = a[c]; }";
        assert!(bench.compile(ok, "f", Some(TASK)).is_ok());
    });
}

#[test]
fn qualifiers_of_parameters_are_no_difference_and_types_are() {
    both(|bench| {
        for parameters in
            ["float* x, float* y, int n", "const float* const x, volatile float* y, const int n"]
        {
            let source = format!("extern \"C\" __global__ void f({parameters}) {{ y[0] = x[n]; }}");
            assert!(bench.compile(&source, "f", Some(TASK)).is_ok(), "{parameters}");
        }
        for parameters in
            ["double* x, float* y, int n", "float* x, float* y, long n", "float** x, float* y, int n"]
        {
            let source = format!("extern \"C\" __global__ void f({parameters}) {{ y[0] = 1; }}");
            assert_eq!(refused(bench, &source, Status::Rejected).code, "compile/signature", "{parameters}");
        }
    });
}

#[test]
fn macros_of_a_candidate_reach_nothing_that_stands_behind_it() {
    both(|bench| {
        let short: String = ('A'..='Z').chain('a'..='z').map(|c| format!("#define {c} 16\n")).collect();
        let words = ["type", "value", "expected", "arity", "call", "arguments", "kernel"];
        let words: String = words.map(|word| format!("#define {word} 16\n")).concat();
        let source = "extern \"C\" __global__ void add(const float* left, float* right, int size) { right[0] = left[size]; }";
        let task = "extern \"C\" __global__ void add(const float* left, float* right, int size);";
        let found = bench.compile(&format!("{source}\n{short}{words}"), "add", Some(task));
        assert!(found.is_ok(), "{:?}", found.err());
    });
}

#[test]
fn assembly_that_is_not_compiled_does_no_harm() {
    let Some(bench) = bench() else { return };
    let source =
        format!("{HEAD} {{\n#if __CUDA_ARCH__ >= 800\n  asm(\"x\");\n#endif\n  // asm\n  y[0] = n;\n}}");
    assert!(bench.compile(&source, "f", Some(TASK)).is_ok());
}

#[test]
fn files_outside_the_tree_are_neither_included_nor_shown() {
    let Some(bench) = bench() else { return };
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "planted-secret-51d2\n").unwrap();
    let absolute = format!("#include \"{}\"\n{HEAD} {{}}", secret.path().display());
    assert_eq!(refused(&bench, &absolute, Status::Rejected).code, "compile/include");
    for path in
        [format!("../../../../../../../../..{}", secret.path().display()), "../../../etc/passwd".to_owned()]
    {
        let failure = bench.compile(&format!("#include \"{path}\"\n{HEAD} {{}}"), "f", None).unwrap_err();
        let log = String::from_utf8(failure.log.unwrap()).unwrap();
        assert!(!log.contains("planted-secret") && !log.contains("root:x"), "{log}");
        assert_eq!(failure.outcome.status, Status::CompileError);
    }
    assert_eq!(refused(&bench, &format!("{HEAD} {{}}\0x"), Status::Rejected).code, "compile/nul");
}

#[test]
fn an_error_in_an_included_file_names_that_file() {
    let Some(bench) = bench() else { return };
    let files = BTreeMap::from([
        (
            "kernels/cand.cu".to_owned(),
            format!("#include \"part.cuh\"\n{HEAD} {{ y[0] = part(x[0]); }}").into_bytes(),
        ),
        ("kernels/part.cuh".to_owned(), b"__device__ float part(float v) {\n  return v +;\n}\n".to_vec()),
    ]);
    let failure = bench.compile_tree(files, "f", Some(TASK)).unwrap_err();
    let place = failure.outcome.cause.unwrap().source.unwrap();
    assert_eq!((place.file.as_str(), place.line), ("kernels/part.cuh", 2));
}

#[test]
fn the_same_source_has_the_same_artefact_and_the_second_time_is_answered_from_the_cache() {
    let Some(bench) = bench() else { return };
    let source = format!("{HEAD} {{ y[0] = x[0] + 41; }}");
    let first = bench.compile(&source, "f", Some(TASK)).unwrap();
    let second = bench.compile(&source, "f", Some(TASK)).unwrap();
    assert_eq!((first.key, first.blob), (second.key, second.blob));
    std::fs::remove_file(&first.path).unwrap();
    let third = bench.compile(&source, "f", Some(TASK)).unwrap();
    assert_eq!(first.blob, third.blob, "the compiler is not deterministic");
    let other = bench.compile(&format!("{HEAD} {{ y[0] = x[0] + 42; }}"), "f", Some(TASK)).unwrap();
    assert_ne!(first.key, other.key);
}
