//! Launch expressions, draws and comparison: whatever a task or candidate asks for has a value or an error.

use super::repository::files;
use super::{Cursor, Target};
use fleet_config::compare::{Output, compare, max_errors};
use fleet_config::domain::canonical::from_bytes;
use fleet_config::domain::{
    Decimal, ElementType, Expression, Input, NanRule, Scope, Seed, Tolerance, encoding, shape,
};
use fleet_config::generator::{check, draw};

pub(crate) const EXPRESSION: Target = Target::new("expression", expression, expression_seeds).length(400);
pub(crate) const DRAW: Target = Target::new("draw", drawn, draw_seeds).length(2048).memory(8 << 20);
pub(crate) const COMPARE: Target = Target::new("compare", compared, compare_seeds).length(2048);

/// Largest buffer that the fuzzer draws in bytes; larger ones are only checked.
const DRAWN_MAX: u64 = 1 << 16;

const ELEMENTS: [ElementType; 16] = [
    ElementType::F64,
    ElementType::F32,
    ElementType::F16,
    ElementType::Bf16,
    ElementType::I64,
    ElementType::I32,
    ElementType::I16,
    ElementType::I8,
    ElementType::U64,
    ElementType::U32,
    ElementType::U16,
    ElementType::U8,
    ElementType::Bool,
    ElementType::Fp8E4m3,
    ElementType::Fp8E5m2,
    ElementType::Fp4E2m1,
];

fn expression(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let scope: Scope =
        [("m", cursor.long()), ("n", cursor.long()), ("device.multiprocessors", cursor.byte().into())]
            .map(|(name, value)| (name.to_owned(), value as i64))
            .into();
    let Ok(text) = std::str::from_utf8(cursor.rest()) else { return };
    let Ok(parsed) = text.parse::<Expression>() else { return };
    assert_eq!(parsed.to_string().parse::<Expression>().as_ref(), Ok(&parsed));
    let value = parsed.evaluate(&scope);
    assert_eq!(value, parsed.evaluate(&scope));
    let known = parsed.names().iter().all(|name| scope.contains_key(*name));
    assert!(known || value.is_err(), "`{text}` has a value without one of its names");
    let sides = [parsed.clone(), parsed];
    if let Ok(count) = shape::element_count(&sides, &scope) {
        assert!(
            count > 0 && shape::byte_count(ElementType::F64, count).is_ok_and(|bytes| bytes >= count)
                || count > u64::MAX / 8
        );
    }
}

fn expression_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "ceil_div(m, 16) * device.multiprocessors",
        "round_up(n, 8) - -m % 3",
        "min(m, max(n, 1)) / (m - n)",
        "-9223372036854775808 + 9223372036854775807",
    ];
    texts.iter().map(|text| [&[31; 8][..], &[7; 8], &[132], text.as_bytes()].concat()).collect()
}

fn drawn(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let element = *cursor.pick(&ELEMENTS);
    // Mostly small counts, which are drawn; at times any, which are checked.
    let count = if cursor.byte().is_multiple_of(4) { cursor.long() } else { u64::from(cursor.short()) };
    let seed = Seed(cursor.long());
    let Ok(input) = from_bytes::<Input>(cursor.rest()) else { return };
    let checked = check(&input, element, count);
    let size = element.bytes().and_then(|width| width.checked_mul(count));
    if size.is_none_or(|size| size > DRAWN_MAX) {
        return;
    }
    match (draw(&input, element, count, seed, "case", "x", 0), checked) {
        (Ok(bytes), Ok(())) => {
            assert_eq!(Some(bytes.len() as u64), size);
            assert_eq!(
                draw(&input, element, count, seed, "case", "x", 0),
                Ok(bytes),
                "a draw repeats itself"
            );
        }
        (Err(_), _) => {}
        (Ok(_), Err(error)) => panic!("drawn although {error}"),
    }
}

fn draw_seeds() -> Vec<Vec<u8>> {
    let inputs = [
        r#"{"normal":{"mean":"0","specials":[],"std":"1"}}"#,
        r#"{"uniform":{"high":"1","low":"-1","specials":[{"index":3,"value":"nan"}]}}"#,
        r#"{"integers":{"high":10,"low":-10}}"#,
        r#"{"arange":{"start":0,"step":3}}"#,
        r#"{"constant":{"value":"1"}}"#,
        r#"{"adapted":{"draw":{"integers":{"high":1000,"low":-1000}},"fit":"cast","specials":[]}}"#,
        r#""poison""#,
    ];
    let mut seeds = Vec::new();
    for input in inputs {
        for element in [0, 1, 2, 4, 11, 12] {
            seeds.push([&[element, 1, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8], input.as_bytes()].concat());
        }
    }
    // The inputs of real tasks, in whatever spelling their documents have.
    for task in files("tests/vectors/domain", "task.json") {
        let task: serde_json::Value = serde_json::from_slice(&task).expect("the vector is JSON");
        for input in task["inputs"].as_object().into_iter().flat_map(|inputs| inputs.values()) {
            seeds.push([&[1, 1, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8], input.to_string().as_bytes()].concat());
        }
    }
    seeds
}

fn compared(data: &[u8]) {
    const BOUNDS: [&str; 6] = ["0", "1e-5", "1", "1e300", "5e-324", "0.5"];
    let mut cursor = Cursor::new(data);
    let element = *cursor.pick(&ELEMENTS);
    let decimal = |text: &&str| text.parse::<Decimal>().expect("bounds are decimals");
    let tolerance = Tolerance {
        absolute: decimal(cursor.pick(&BOUNDS)),
        relative: decimal(cursor.pick(&BOUNDS)),
        nan: *cursor.pick(&[NanRule::Equal, NanRule::Never]),
    };
    let mut shape: Vec<u64> = (0..cursor.byte() % 4).map(|_| u64::from(cursor.byte())).collect();
    let bytes = cursor.rest();
    let width = element.bytes().map_or(1, |width| width as usize);
    let elements = bytes.len() / 2 / width;
    if shape.len() < 3 {
        shape = vec![elements as u64];
    }
    let (expected, got) = bytes.split_at(elements * width);
    let got = &got[..elements * width];
    let output = Output { name: "out", element, shape: &shape, tolerance: &tolerance };
    let verdict = compare(&output, expected, got);
    let errors = max_errors(&output, expected, got);
    assert_eq!(verdict.is_ok(), errors.is_ok());
    if let (Ok(Some(mismatch)), Ok(errors)) = (&verdict, &errors) {
        assert!(mismatch.count > 0 && mismatch.count <= errors.total, "{mismatch:?}");
    }
    if tolerance.nan == NanRule::Equal && verdict.is_ok() {
        assert_eq!(compare(&output, expected, expected), Ok(None), "a result equals itself");
    }
    for element in ELEMENTS {
        if let Some(number) = encoding::read(element, bytes) {
            let mut again = Vec::new();
            encoding::push_cast(&mut again, element, number);
            assert_eq!(again.len() as u64, element.bytes().unwrap_or(0));
        }
    }
}

fn compare_seeds() -> Vec<Vec<u8>> {
    let ones = [0, 0, 128, 63].repeat(6);
    vec![
        [&[1, 1, 1, 0, 1], ones.as_slice(), ones.as_slice()].concat(),
        [&[0, 0, 0, 1, 3, 2, 2, 1], [255; 64].as_slice()].concat(),
        [&[5, 0, 0, 0, 0], [1, 0, 0, 0, 2, 0, 0, 0].as_slice()].concat(),
    ]
}
