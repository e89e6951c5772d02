//! Scalars passed by value, as the little-endian bytes of their element type. Pure.

use fleet_config::domain::encoding::{self, Number};
use fleet_config::domain::{Decimal, ElementType};

/// Why a scalar has no bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScalarError {
    #[error("the value {value} does not fit {element}")]
    Range { value: String, element: ElementType },
    #[error("scalars of type {0} cannot be passed by value")]
    Type(ElementType),
}

/// The bytes of the integer `value` as `element`; floats round it once.
pub(super) fn integer(element: ElementType, value: i64) -> Result<Vec<u8>, ScalarError> {
    if element.is_reserved() {
        return Err(ScalarError::Type(element));
    }
    let range = || ScalarError::Range { value: value.to_string(), element };
    if !element.is_exact() {
        // Below 2^53 the conversion to a double is exact.
        let double = (value.unsigned_abs() <= 1 << 53).then_some(value as f64);
        return double.and_then(|double| finite(element, double)).ok_or_else(range);
    }
    if encoding::integers(element).is_none_or(|range| !range.contains(&value.into())) {
        return Err(range());
    }
    let mut bytes = Vec::new();
    encoding::push_integer(&mut bytes, element, value);
    Ok(bytes)
}

/// The bytes of the decimal `value` as the float type `element`, rounded once.
pub(super) fn float(element: ElementType, value: &Decimal) -> Result<Vec<u8>, ScalarError> {
    if element.is_exact() || element.is_reserved() {
        return Err(ScalarError::Type(element));
    }
    // Read straight as a single where it becomes one: going through a double would round twice.
    let real = if element == ElementType::F32 {
        value.as_str().parse::<f32>().ok().map(f64::from)
    } else {
        Some(value.value())
    };
    real.and_then(|real| finite(element, real))
        .ok_or_else(|| ScalarError::Range { value: value.to_string(), element })
}

/// `None` when the nearest value is infinite or the type is no float.
fn finite(element: ElementType, value: f64) -> Option<Vec<u8>> {
    let bytes = encoding::nearest(element, value)?;
    match encoding::read(element, &bytes)? {
        Number::Real(real) => real.is_finite().then_some(bytes),
        Number::Integer(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_checked_against_their_type() {
        assert_eq!(integer(ElementType::I32, -2).unwrap(), [0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(integer(ElementType::U8, 255).unwrap(), [255]);
        assert!(integer(ElementType::U8, 256).is_err());
        assert!(integer(ElementType::U64, -1).is_err());
        assert!(integer(ElementType::Bool, 2).is_err());
        assert_eq!(integer(ElementType::F32, 3).unwrap(), 3.0_f32.to_le_bytes());
        assert!(integer(ElementType::F64, i64::MAX).is_err());
        assert!(integer(ElementType::F16, 65_520).is_err(), "rounds to infinity");
        assert_eq!(integer(ElementType::F32, (1 << 24) + 1).unwrap(), 16_777_216.0_f32.to_le_bytes());
        assert_eq!(integer(ElementType::U64, i64::MAX).unwrap(), i64::MAX.to_le_bytes());
        assert_eq!(integer(ElementType::Bool, 1).unwrap(), [1]);
        assert_eq!(integer(ElementType::Fp8E4m3, 1), Err(ScalarError::Type(ElementType::Fp8E4m3)));
    }

    #[test]
    fn floats_are_rounded_once_and_never_to_infinity() {
        let decimal = |text: &str| text.parse::<Decimal>().unwrap();
        assert_eq!(float(ElementType::F32, &decimal("0.1")).unwrap(), 0.1_f32.to_le_bytes());
        assert_eq!(float(ElementType::F16, &decimal("1")).unwrap(), 0x3c00_u16.to_le_bytes());
        assert_eq!(float(ElementType::Bf16, &decimal("1")).unwrap(), 0x3f80_u16.to_le_bytes());
        assert!(float(ElementType::F32, &decimal("1e300")).is_err());
        assert!(float(ElementType::F16, &decimal("70000")).is_err());
        assert!(float(ElementType::Bf16, &decimal("3.4e38")).is_err());
        assert!(float(ElementType::I32, &decimal("1")).is_err());
    }
}
