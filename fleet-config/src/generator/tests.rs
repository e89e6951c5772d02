//! The generator against its golden vectors, its ranges and its refusals.

use super::*;
use crate::domain::{Decimal, Digest};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// One line of `tests/vectors/generator.json`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    input: Input,
    element: ElementType,
    count: u64,
    seed: Seed,
    case: String,
    parameter: String,
    draw: u32,
    /// blake3 of all the bytes.
    blake3: Option<Digest>,
    /// The first elements, little-endian, in hexadecimal.
    first: Option<Vec<String>>,
}

impl Vector {
    fn computed(&self) -> Self {
        let bytes =
            draw(&self.input, self.element, self.count, self.seed, &self.case, &self.parameter, self.draw)
                .unwrap();
        let width = usize::try_from(self.element.bytes().unwrap()).unwrap();
        let first = bytes.chunks(width).take(4).map(|e| data_encoding::HEXLOWER.encode(e)).collect();
        Self {
            input: self.input.clone(),
            case: self.case.clone(),
            parameter: self.parameter.clone(),
            blake3: Some(Digest::of(&bytes)),
            first: Some(first),
            ..*self
        }
    }
}

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

fn normal() -> Input {
    Input::Normal { mean: decimal("0"), std: decimal("1"), specials: Vec::new() }
}

fn uniform(low: &str, high: &str) -> Input {
    Input::Uniform { low: decimal(low), high: decimal(high), specials: Vec::new() }
}

/// The requests of the golden vectors. `MUSTER_BLESS=1` writes the file anew; the Python computation in
/// `tests/python/check_generator.py` must then agree before it is committed.
fn requests() -> Vec<Vector> {
    let specials = vec![
        Special { index: 0, value: SpecialValue::Nan },
        Special { index: 3, value: SpecialValue::NegInf },
    ];
    let mut list: Vec<(Input, ElementType, u64)> = Vec::new();
    for element in [ElementType::F64, ElementType::F32, ElementType::F16, ElementType::Bf16] {
        list.push((normal(), element, 3000));
        list.push((
            Input::Normal { mean: decimal("-1.5"), std: decimal("20000"), specials: vec![] },
            element,
            300,
        ));
        list.push((uniform("-1", "1"), element, 2000));
        list.push((uniform("0.1", "0.10001"), element, 300));
        list.push((Input::Integers { low: -256, high: 257 }, element, 300));
        list.push((
            Input::Normal { mean: decimal("0"), std: decimal("1"), specials: specials.clone() },
            element,
            9,
        ));
        list.push((Input::Constant { value: decimal("0.1") }, element, 5));
    }
    for element in ElementType::USABLE.into_iter().filter(|element| element.is_exact()) {
        let high = if element == ElementType::Bool { 2 } else { 100 };
        list.push((Input::Integers { low: 0, high }, element, 500));
        list.push((uniform("-3", "300.5"), element, 500));
        list.push((
            Input::Normal { mean: decimal("1"), std: decimal("100"), specials: vec![] },
            element,
            500,
        ));
        list.push((Input::Constant { value: decimal("1") }, element, 3));
    }
    list.push((Input::Integers { low: i64::MIN, high: i64::MAX }, ElementType::I64, 500));
    list.push((Input::Arange { start: -4, step: 3 }, ElementType::I16, 700));
    list.push((Input::Arange { start: 0, step: 1 }, ElementType::F32, 700));
    list.push((normal(), ElementType::F32, 31 * 29));
    adapted_requests(&specials, &mut list);
    let seeds = [0, 1, 42, Seed::MAX];
    let named = list.into_iter().enumerate().map(|(position, (input, element, count))| Vector {
        input,
        element,
        count,
        seed: Seed(seeds[position % 4]),
        case: ["odd", "p256", "größe"][position % 3].to_owned(),
        parameter: ["a", "b"][position % 2].to_owned(),
        draw: u32::try_from(position % 5).unwrap(),
        blake3: None,
        first: None,
    });
    named.collect()
}

fn adapted(draw: Input, fit: Fit, specials: &[Special]) -> Input {
    Input::Adapted { draw: Box::new(draw), fit, specials: specials.to_vec() }
}

/// Casts into every type, specials over every exact draw, and poison.
fn adapted_requests(specials: &[Special], list: &mut Vec<(Input, ElementType, u64)>) {
    for element in ElementType::USABLE {
        let arange = Input::Arange { start: -3, step: 300 };
        list.push((adapted(arange.clone(), Fit::Cast, &[]), element, 700));
        let integers = Input::Integers { low: -1_000_000, high: 5_000_000_000 };
        list.push((adapted(integers, Fit::Cast, &[]), element, 300));
        let constant = Input::Constant { value: decimal("-70000.75") };
        list.push((adapted(constant, Fit::Cast, &[]), element, 3));
        list.push((Input::Poison, element, 5));
        if !element.is_exact() {
            list.push((adapted(arange, Fit::Cast, specials), element, 9));
            list.push((adapted(Input::Arange { start: 0, step: 1 }, Fit::Exact, specials), element, 9));
            list.push((adapted(Input::Constant { value: decimal("0") }, Fit::Exact, specials), element, 9));
            list.push((adapted(Input::Integers { low: -3, high: 4 }, Fit::Exact, specials), element, 9));
        }
    }
}

#[test]
fn poison_is_one_of_two_bytes_and_both_come_up() {
    let of = |seed| draw(&Input::Poison, ElementType::F32, 3, Seed(seed), "c", "p", 0).unwrap();
    let drawn: std::collections::BTreeSet<Vec<u8>> = (0..32).map(of).collect();
    assert_eq!(drawn, [vec![0x7B; 12], vec![0xFF; 12]].into());
}

#[test]
fn the_golden_vectors_are_met() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/generator.json");
    if std::env::var_os("MUSTER_BLESS").is_some() {
        let lines: Vec<String> =
            requests().iter().map(|v| serde_json::to_string(&v.computed()).unwrap()).collect();
        std::fs::write(path, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    }
    let text = std::fs::read_to_string(path).unwrap();
    let vectors: Vec<Vector> = serde_json::from_str(&text).unwrap();
    assert!(vectors.len() > 50);
    for vector in vectors {
        assert_eq!(vector.computed(), vector);
    }
}

#[test]
fn every_name_and_number_changes_the_draw() {
    let get = |seed, case, parameter, n| {
        draw(&normal(), ElementType::F32, 8, Seed(seed), case, parameter, n).unwrap()
    };
    let first = get(1, "odd", "a", 0);
    assert_eq!(first, get(1, "odd", "a", 0));
    for other in [get(2, "odd", "a", 0), get(1, "od", "da", 0), get(1, "odd", "b", 0), get(1, "odd", "a", 1)]
    {
        assert_ne!(first, other);
    }
}

#[test]
fn a_longer_draw_begins_with_the_shorter_one() {
    let get = |count| draw(&normal(), ElementType::F64, count, Seed(7), "c", "p", 0).unwrap();
    assert_eq!(get(100)[..80], get(10)[..]);
    assert!(get(0).is_empty());
}

#[test]
fn the_normal_draw_has_mean_zero_and_variance_one() {
    let bytes = draw(&normal(), ElementType::F64, 100_000, Seed(3), "c", "p", 0).unwrap();
    let values: Vec<f64> =
        bytes.chunks(8).map(|chunk| f64::from_le_bytes(chunk.try_into().unwrap())).collect();
    let mean = values.iter().sum::<f64>() / 1e5;
    let variance = values.iter().map(|value| value * value).sum::<f64>() / 1e5;
    assert!(mean.abs() < 0.015 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
}

#[test]
fn inputs_that_cannot_be_drawn_are_refused() {
    let blob = crate::domain::BlobRef::of(b"x");
    let special = |index| Input::Normal {
        mean: decimal("0"),
        std: decimal("1"),
        specials: vec![Special { index, value: SpecialValue::Inf }],
    };
    for (input, element) in [
        (normal(), ElementType::Fp8E4m3),
        (uniform("1", "1"), ElementType::F32),
        (uniform("-1e308", "1e308"), ElementType::F64),
        (Input::Normal { mean: decimal("0"), std: decimal("-1"), specials: vec![] }, ElementType::F32),
        (Input::Integers { low: 5, high: 5 }, ElementType::I32),
        (Input::Integers { low: -1, high: 5 }, ElementType::U32),
        (Input::Integers { low: 0, high: 300 }, ElementType::U8),
        (Input::Integers { low: 0, high: 2050 }, ElementType::F16),
        (Input::Integers { low: 0, high: 3 }, ElementType::Bool),
        (Input::Arange { start: 0, step: 100 }, ElementType::I8),
        (Input::Constant { value: decimal("0.5") }, ElementType::I32),
        (Input::Constant { value: decimal("-1") }, ElementType::U8),
        (special(9), ElementType::F32),
        (special(0), ElementType::I32),
        (Input::File { blob }, ElementType::F32),
        (adapted(Input::Constant { value: decimal("1") }, Fit::Exact, &[]), ElementType::F32),
        (adapted(normal(), Fit::Cast, &[]), ElementType::F32),
        (adapted(Input::Poison, Fit::Cast, &[]), ElementType::F32),
        (adapted(Input::File { blob }, Fit::Cast, &[]), ElementType::F32),
        (adapted(Input::Integers { low: 5, high: 5 }, Fit::Cast, &[]), ElementType::I32),
        (
            adapted(adapted(Input::Arange { start: 0, step: 1 }, Fit::Cast, &[]), Fit::Cast, &[]),
            ElementType::I32,
        ),
        (
            adapted(
                Input::Arange { start: 0, step: 1 },
                Fit::Cast,
                &[Special { index: 0, value: SpecialValue::Nan }],
            ),
            ElementType::I32,
        ),
    ] {
        assert!(draw(&input, element, 9, Seed(1), "c", "p", 0).is_err(), "{input:?} {element}");
    }
    assert!(check(&normal(), ElementType::F64, u64::MAX).is_err());
}

proptest! {
    #[test]
    fn uniform_elements_stay_below_high(low in -100.0..100.0_f64, width in 1e-6..1.0_f64, seed in 0..1000_u64) {
        let input = Input::Uniform {
            low: Decimal::from_f64(low).unwrap(),
            high: Decimal::from_f64(low + width).unwrap(),
            specials: vec![],
        };
        for element in [ElementType::F64, ElementType::F32, ElementType::F16, ElementType::Bf16] {
            let bytes = draw(&input, element, 50, Seed(seed), "c", "p", 0).unwrap();
            for chunk in bytes.chunks(usize::try_from(element.bytes().unwrap()).unwrap()) {
                match read(element, chunk) {
                    Some(Number::Real(value)) => prop_assert!(value < low + width),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}
