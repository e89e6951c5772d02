//! What lint says of spoilt copies of the sample.

use super::*;

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
fn a_sweep_that_no_size_satisfies_is_refused() {
    for (range, passage) in [
        ("{ low = 0, high = 9 }", "no range"),
        ("{ low = 9, high = 8 }", "no range"),
        ("{ low = 5, high = 7, multiple_of = 4 }", "no multiple of 4"),
        ("{ low = 5, high = 7, multiple_of = 0 }", "no multiple of 0"),
        ("{ low = 1, high = 9_000_000_000_000_000_000 }", "no range"),
    ] {
        let text = format!("{}\n[validation]\nsweep = {{ m = {range} }}\n", text());
        let refusals = lint(&parse_task(&text, "task.toml").unwrap()).refusals;
        assert_eq!(refusals.len(), 1, "{range}: {refusals:?}");
        assert!(refusals[0].code == "task/sweep" && refusals[0].cause.contains(passage), "{refusals:?}");
    }
    let text = format!("{}\n[validation]\nsweep = {{ q = {{ low = 1, high = 2 }} }}\n", text());
    assert!(lint(&parse_task(&text, "task.toml").unwrap()).refusals[0].cause.contains("no dimension"));
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
