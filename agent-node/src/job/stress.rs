//! Hard values in place of drawn ones: at the edges of a number format kernels lose what they keep in the middle. Pure.

use fleet_config::domain::encoding::{Number, push_real, read};
use fleet_config::domain::{ElementType, Input, Stress};

/// By what mixed scales differ from the draw: a power of two, so that nothing is rounded.
const SCALE: f64 = 1024.0;
/// How many of the largest values may be summed without overflow.
const SUMMANDS: f64 = 2048.0;

/// Whether values drawn so may be replaced: those that no seed changes mean what they say.
pub(super) fn applies(element: ElementType, input: &Input) -> bool {
    element.float_limits().is_some() && matches!(input, Input::Normal { .. } | Input::Uniform { .. })
}

/// `drawn` with every element as `kind` wants it. `number` makes buffers differ from one another.
pub(super) fn stressed(kind: Stress, element: ElementType, drawn: &[u8], number: u64) -> Vec<u8> {
    let (Some((smallest, largest)), Some(width)) = (element.float_limits(), element.bytes()) else {
        return drawn.to_vec();
    };
    let mut bytes = Vec::with_capacity(drawn.len());
    let width = usize::try_from(width).unwrap_or(1);
    for (index, chunk) in (0_u64..).zip(drawn.chunks_exact(width)) {
        let unit = unit(index ^ (number << 48));
        let value = match (kind, read(element, chunk)) {
            (Stress::Zeros, _) => 0.0,
            (Stress::Equal, _) => 0.5,
            (Stress::NearZero, _) => smallest * (4.0 * unit - 2.0),
            (Stress::NearMax, _) => largest / SUMMANDS * (0.5 + unit / 2.0),
            (Stress::MixedScale, Some(Number::Real(value))) => {
                value.abs() * if unit < 0.5 { SCALE } else { 1.0 / SCALE }
            }
            (Stress::MixedScale, Some(Number::Integer(_)) | None) => 0.0,
        };
        push_real(&mut bytes, element, value);
    }
    bytes
}

/// From 0 up to 1, by SplitMix64 (Steele, Lea and Flood 2014) of the index.
fn unit(index: u64) -> f64 {
    let mut word = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^= word >> 31;
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(kind: Stress, element: ElementType) -> Vec<f64> {
        let mut drawn = Vec::new();
        for index in 0..1000 {
            push_real(&mut drawn, element, f64::from(index) / 100.0 - 5.0);
        }
        let bytes = stressed(kind, element, &drawn, 1);
        assert_eq!(bytes.len(), drawn.len());
        let width = usize::try_from(element.bytes().unwrap()).unwrap();
        let real = |chunk: &[u8]| match read(element, chunk) {
            Some(Number::Real(value)) => value,
            other => panic!("{other:?}"),
        };
        bytes.chunks_exact(width).map(real).collect()
    }

    #[test]
    fn hard_values_are_finite_and_where_their_kind_says() {
        for element in [ElementType::F64, ElementType::F32, ElementType::F16, ElementType::Bf16] {
            let (smallest, largest) = element.float_limits().unwrap();
            assert!(values(Stress::Zeros, element).iter().all(|value| *value == 0.0));
            assert!(values(Stress::Equal, element).iter().all(|value| *value == 0.5));
            let near = values(Stress::NearZero, element);
            assert!(near.iter().all(|value| value.abs() <= 2.0 * smallest));
            assert!(near.iter().any(|value| value.abs() < smallest && *value != 0.0), "some are denormal");
            let huge = values(Stress::NearMax, element);
            assert!(huge.iter().all(|value| *value > largest / 8192.0));
            assert!(huge.iter().sum::<f64>() <= largest, "a thousand of them are finite");
            let mixed = values(Stress::MixedScale, element);
            assert!(mixed.iter().all(|value| *value >= 0.0 && value.is_finite()));
        }
    }

    #[test]
    fn integers_and_values_that_no_seed_changes_are_left_alone() {
        let uniform = |low: &str, high: &str| Input::Uniform {
            low: low.parse().unwrap(),
            high: high.parse().unwrap(),
            specials: Vec::new(),
        };
        assert!(applies(ElementType::F16, &uniform("0", "1")));
        assert!(!applies(ElementType::I32, &uniform("0", "1")));
        assert!(!applies(ElementType::F32, &Input::Arange { start: 0, step: 1 }));
        assert!(!applies(ElementType::F32, &Input::Constant { value: "1".parse().unwrap() }));
        assert_eq!(stressed(Stress::Zeros, ElementType::I32, &[1, 2, 3, 4], 0), [1, 2, 3, 4]);
    }
}
