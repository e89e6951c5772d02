//! The comparison rule, type by type, and its hints.

use super::*;
use crate::domain::half::{bf16_from_f64, f16_from_f64};
use proptest::prelude::*;

fn tolerance(absolute: &str, relative: &str, nan: NanRule) -> Tolerance {
    Tolerance { absolute: absolute.parse().unwrap(), relative: relative.parse().unwrap(), nan }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(
    shape: &[u64],
    tolerance: &Tolerance,
    expected: &[f32],
    got: &[f32],
) -> Result<Option<Mismatch>, CompareError> {
    let output = Output { name: "c", element: ElementType::F32, shape, tolerance };
    compare(&output, &bytes(expected), &bytes(got))
}

#[test]
fn elements_within_tolerance_match_and_beyond_do_not() {
    let rule = tolerance("0.001", "0.01", NanRule::Never);
    assert_eq!(floats(&[3], &rule, &[1.0, 0.0, -0.0], &[1.01, 0.0009, 0.0]), Ok(None));
    let miss = floats(&[3], &rule, &[1.0, 2.0, 100.0], &[1.0, 2.0, 102.0]).unwrap().unwrap();
    assert_eq!((miss.index, miss.count, miss.total), (2, 1, 3));
    assert_eq!((miss.expected.as_str(), miss.got.as_str()), ("100", "102"));
    assert_eq!(miss.absolute_error.unwrap().as_str(), "2");
    assert_eq!(miss.relative_error.unwrap().as_str(), "0.02");
}

#[test]
fn zero_tolerance_means_equality() {
    let rule = tolerance("0", "0", NanRule::Never);
    assert_eq!(floats(&[2], &rule, &[1.5, 0.1], &[1.5, 0.1]), Ok(None));
    assert!(floats(&[1], &rule, &[0.1], &[0.100_000_01]).unwrap().is_some());
}

#[test]
fn nan_is_never_a_wildcard() {
    let wide = "1e300";
    for (nan, expected, got, fits) in [
        (NanRule::Equal, f32::NAN, f32::NAN, true),
        (NanRule::Equal, f32::NAN, 0.0, false),
        (NanRule::Equal, 0.0, f32::NAN, false),
        (NanRule::Never, f32::NAN, f32::NAN, false),
        (NanRule::Never, 1.0, f32::NAN, false),
        (NanRule::Never, f32::INFINITY, f32::INFINITY, true),
        (NanRule::Never, f32::INFINITY, f32::NEG_INFINITY, false),
        (NanRule::Never, f32::INFINITY, 0.0, false),
        (NanRule::Never, 0.0, f32::INFINITY, false),
    ] {
        let found = floats(&[1], &tolerance(wide, wide, nan), &[expected], &[got]).unwrap();
        assert_eq!(found.is_none(), fits, "{nan:?} {expected} {got}");
    }
    let rule = tolerance("0", "0", NanRule::Never);
    let miss = floats(&[1], &rule, &[1.0], &[f32::NEG_INFINITY]).unwrap().unwrap();
    assert_eq!((miss.got.as_str(), miss.absolute_error), ("-inf", None));
    assert_eq!(miss.pattern, "every element, non-finite");
}

#[test]
fn every_usable_type_is_compared() {
    let rule = tolerance("1000000000", "1000000000", NanRule::Never);
    for element in ElementType::USABLE {
        let width = usize::try_from(element.bytes().unwrap()).unwrap();
        let (zero, mut one) = (vec![0; width], vec![0; width]);
        one[0] = 1;
        let output = Output { name: "c", element, shape: &[1], tolerance: &rule };
        assert_eq!(compare(&output, &zero, &zero), Ok(None), "{element}");
        // The tolerance is huge, but integers and bool know none.
        assert_eq!(compare(&output, &zero, &one).unwrap().is_some(), element.is_exact(), "{element}");
        assert!(compare(&output, &zero, &one[1..]).is_err());
    }
    let reserved = Output { name: "c", element: ElementType::Fp8E4m3, shape: &[1], tolerance: &rule };
    assert!(compare(&reserved, &[0], &[0]).is_err());
}

#[test]
fn narrow_floats_are_written_shortly() {
    let rule = tolerance("0", "0", NanRule::Never);
    for (element, encode) in
        [(ElementType::F16, f16_from_f64 as fn(f64) -> u16), (ElementType::Bf16, bf16_from_f64)]
    {
        let output = Output { name: "c", element, shape: &[1], tolerance: &rule };
        let miss =
            compare(&output, &encode(0.5).to_le_bytes(), &encode(0.25).to_le_bytes()).unwrap().unwrap();
        assert_eq!((miss.expected.as_str(), miss.got.as_str()), ("0.5", "0.25"));
    }
    let output = Output { name: "c", element: ElementType::I64, shape: &[1], tolerance: &rule };
    let miss = compare(&output, &i64::MIN.to_le_bytes(), &i64::MAX.to_le_bytes()).unwrap().unwrap();
    assert_eq!(miss.expected, "-9223372036854775808");
}

#[test]
fn hints_name_what_the_wrong_elements_share() {
    let rule = tolerance("0", "0", NanRule::Never);
    let hint = |shape: &[u64], wrong: &dyn Fn(usize) -> Option<f32>| {
        let total = usize::try_from(shape.iter().product::<u64>()).unwrap();
        let got: Vec<f32> = (0..total).map(|index| wrong(index).unwrap_or(1.0)).collect();
        floats(shape, &rule, &vec![1.0; total], &got).unwrap().unwrap().pattern
    };
    let poison = f32::from_le_bytes([0xFF; 4]);
    let other = f32::from_le_bytes([0x7B; 4]);
    assert_eq!(hint(&[4, 5], &|_| Some(2.0)), "every element, constant offset of about 1.0000e0");
    assert_eq!(
        hint(&[4, 5], &|_| Some(poison)),
        "untouched, or fed from uninitialised memory (the poison 0xFF), every element"
    );
    assert_eq!(
        hint(&[4, 5], &|i| (i % 5 == 4).then_some(other)),
        "untouched, or fed from uninitialised memory (the poison 0x7B), last column"
    );
    assert_eq!(hint(&[4, 5], &|i| (i >= 15).then_some(2.0)), "last row");
    assert_eq!(hint(&[4, 5], &|i| (i >= 15 || i % 5 == 4).then_some(2.0)), "last row and last column");
    assert_eq!(hint(&[100], &|i| (i >= 96).then_some(2.0)), "tail: only from index 96 on");
    assert_eq!(hint(&[100], &|i| (i >= 40).then_some(f32::NAN)), "only from index 40 on, non-finite");
    assert_eq!(hint(&[100], &|i| (i == 3 || i == 50).then_some(2.0)), "");
    let miss = floats(&[2, 3], &rule, &[0.0; 6], &[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).unwrap().unwrap();
    assert_eq!(miss.coordinates, [1, 2]);
}

#[test]
fn errors_of_good_outputs_are_measured() {
    let rule = tolerance("1", "0", NanRule::Equal);
    let output = Output { name: "c", element: ElementType::F32, shape: &[4], tolerance: &rule };
    let (left, right) = (bytes(&[1.0, 2.0, f32::INFINITY, 4.0]), bytes(&[1.5, 2.25, f32::INFINITY, 4.0]));
    let errors = max_errors(&output, &left, &right).unwrap();
    assert_eq!((errors.absolute.as_str(), errors.differing, errors.total), ("0.5", 2, 4));
}

proptest! {
    #[test]
    fn an_output_always_matches_itself_unless_a_nan_is_refused(bits in proptest::collection::vec(any::<u32>(), 1..40)) {
        let values: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
        let shape = [values.len() as u64];
        prop_assert_eq!(floats(&shape, &tolerance("0", "0", NanRule::Equal), &values, &values).unwrap(), None);
        let strict = floats(&shape, &tolerance("0", "0", NanRule::Never), &values, &values).unwrap();
        prop_assert_eq!(strict.is_some(), values.iter().any(|value| value.is_nan()));
    }
}

fn said(count: usize, wrong: impl Fn(usize) -> Option<f32>) -> Mismatch {
    let tolerance =
        Tolerance { absolute: "0".parse().unwrap(), relative: "0".parse().unwrap(), nan: NanRule::Never };
    let output =
        Output { name: "y", element: ElementType::F32, shape: &[count as u64], tolerance: &tolerance };
    let bytes = |value: &dyn Fn(usize) -> f32| -> Vec<u8> {
        (0..count).flat_map(|index| value(index).to_le_bytes()).collect()
    };
    let expected = bytes(&|index| index as f32);
    let got = bytes(&|index| wrong(index).unwrap_or(index as f32));
    compare(&output, &expected, &got).unwrap().unwrap()
}

#[test]
fn places_and_sizes_of_errors_are_put_into_words() {
    let check = |pattern: &str, wrong: &dyn Fn(usize) -> Option<f32>| {
        assert_eq!(said(128, wrong).pattern, pattern);
    };
    let square = |index: usize| Some(-((index * index) as f32) - 1.0);
    check("every 32nd from index 31 on", &|index| (index % 32 == 31).then(|| square(index).unwrap()));
    check("every 2nd from index 0 on", &|index| (index % 2 == 0).then(|| square(index).unwrap()));
    check("one block: indices 32 to 63", &|index| (index / 32 == 1).then(|| square(index).unwrap()));
    check("only the first element is right", &|index| (index > 0).then(|| square(index).unwrap()));
    check("tail: only from index 120 on", &|index| (index >= 120).then(|| square(index).unwrap()));
    check("every element, constant offset of about 5.0000e-1", &|index| Some(index as f32 + 0.5));
    check("", &|index| [3, 4, 9].contains(&index).then(|| square(index).unwrap()));
}

#[test]
fn the_worst_element_is_told_where_it_is_not_the_first_and_old_bytes_stay() {
    let worst = said(64, |index| (index > 9).then(|| if index == 40 { 1000.0 } else { -1.0 })).worst.unwrap();
    assert_eq!((worst.index, worst.coordinates.as_slice()), (40, [40].as_slice()));
    assert_eq!(
        (worst.expected.as_str(), worst.got.as_str(), worst.absolute_error.value()),
        ("40", "1000", 960.0)
    );
    let plain = said(4, |index| (index == 1).then_some(9.0));
    assert!(plain.worst.is_none());
    let bytes = crate::domain::canonical::to_bytes(&plain).unwrap();
    assert!(!String::from_utf8(bytes.clone()).unwrap().contains("worst"), "the form of earlier records");
    assert_eq!(crate::domain::canonical::from_bytes::<Mismatch>(&bytes).unwrap(), plain);
}

#[test]
fn a_transposed_output_is_told_and_one_wrong_element_more_is_not() {
    let rule = tolerance("0", "0", NanRule::Never);
    let value = |row: usize, column: usize| (row * 10 + column * column) as f32;
    for (rows, columns) in [(4, 4), (3, 5)] {
        let expected: Vec<f32> = (0..rows * columns).map(|at| value(at / columns, at % columns)).collect();
        let mut got: Vec<f32> = (0..rows * columns).map(|at| value(at % rows, at / rows)).collect();
        let shape = [2, rows as u64, columns as u64];
        let twice = |one: &[f32]| [one, one].concat();
        let hint =
            |got: &[f32]| floats(&shape, &rule, &twice(&expected), &twice(got)).unwrap().unwrap().pattern;
        assert!(hint(&got).contains("transposed"), "{}", hint(&got));
        got[1] += 0.5;
        assert!(!hint(&got).contains("transposed"), "{}", hint(&got));
    }
    // A row is no matrix.
    let miss = floats(&[1, 4], &rule, &[1.0, 2.0, 3.0, 4.0], &[4.0, 3.0, 2.0, 1.0]).unwrap().unwrap();
    assert!(!miss.pattern.contains("transposed"), "{}", miss.pattern);
}

#[test]
fn a_constant_factor_is_told_where_every_wrong_element_has_it() {
    let pattern = |wrong: &dyn Fn(usize) -> Option<f32>| said(128, wrong).pattern;
    let doubled = |index: usize| Some(2.0 * index as f32);
    assert_eq!(
        pattern(&doubled),
        "only the first element is right, off by a constant factor of about 2.0000"
    );
    let negated = |index: usize| (index > 63).then(|| -(index as f32));
    assert_eq!(
        pattern(&negated),
        "the first 64 elements right and all others wrong, as where only the first block works, sign flipped"
    );
    assert!(pattern(&|index| (index > 3).then_some(0.0)).ends_with("zero where wrong"));
    // One element of another factor, two elements, and values that hardly differ bear out nothing.
    assert!(!pattern(&|index| Some(if index == 77 { 3.0 } else { 2.0 } * index as f32)).contains("factor"));
    assert_eq!(
        pattern(&|index| [40, 41].contains(&index).then_some(2.0 * index as f32)),
        "one block: indices 40 to 41"
    );
    let rule = tolerance("0", "0", NanRule::Never);
    let miss = floats(&[4], &rule, &[5.0; 4], &[10.0; 4]).unwrap().unwrap();
    assert_eq!(miss.pattern, "every element, constant offset of about 5.0000e0");
}

#[test]
fn a_first_block_is_claimed_only_where_all_after_it_is_wrong() {
    let square = |index: usize| -((index * index) as f32) - 1.0;
    let from = |first: usize| said(512, |index| (index >= first).then(|| square(index))).pattern;
    assert!(from(128).contains("only the first block works"), "{}", from(128));
    assert_eq!(from(100), "only from index 100 on");
    assert_eq!(from(384), "only from index 384 on", "the lesser part is no other blocks");
    let holed = said(512, |index| (index >= 128 && index != 300).then(|| square(index))).pattern;
    assert!(!holed.contains("block"), "{holed}");
}
