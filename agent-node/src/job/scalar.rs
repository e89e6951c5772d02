//! Scalars passed by value, as the little-endian bytes of their element type. Pure.

use fleet_config::domain::half::{bf16_from_f64, f16_from_f64};
use fleet_config::domain::{Decimal, ElementType};

/// Why a scalar has no bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScalarError {
    #[error("the value {value} does not fit {element}")]
    Range { value: String, element: ElementType },
    #[error("scalars of type {0} cannot be passed by value")]
    Type(ElementType),
}

/// The bytes of the integer `value` as `element`; floats take integers that they hold exactly.
pub(super) fn integer(element: ElementType, value: i64) -> Result<Vec<u8>, ScalarError> {
    let range = || ScalarError::Range { value: value.to_string(), element };
    Ok(match element {
        ElementType::I64 => value.to_le_bytes().to_vec(),
        ElementType::I32 => i32::try_from(value).map_err(|_| range())?.to_le_bytes().to_vec(),
        ElementType::I16 => i16::try_from(value).map_err(|_| range())?.to_le_bytes().to_vec(),
        ElementType::I8 => i8::try_from(value).map_err(|_| range())?.to_le_bytes().to_vec(),
        ElementType::U64 => u64::try_from(value).map_err(|_| range())?.to_le_bytes().to_vec(),
        ElementType::U32 => u32::try_from(value).map_err(|_| range())?.to_le_bytes().to_vec(),
        ElementType::U16 => u16::try_from(value).map_err(|_| range())?.to_le_bytes().to_vec(),
        ElementType::U8 => u8::try_from(value).map_err(|_| range())?.to_le_bytes().to_vec(),
        ElementType::Bool => match value {
            0 | 1 => vec![u8::from(value == 1)],
            _ => return Err(range()),
        },
        ElementType::F64 | ElementType::F32 | ElementType::F16 | ElementType::Bf16 => {
            // Below 2^53 the conversion is exact.
            if value.unsigned_abs() > 1 << 53 {
                return Err(range());
            }
            real(element, value as f64).ok_or_else(range)?
        }
        ElementType::Fp8E4m3 | ElementType::Fp8E5m2 | ElementType::Fp4E2m1 => {
            return Err(ScalarError::Type(element));
        }
    })
}

/// The bytes of the decimal `value` as the float type `element`, rounded once.
pub(super) fn float(element: ElementType, value: &Decimal) -> Result<Vec<u8>, ScalarError> {
    let range = || ScalarError::Range { value: value.to_string(), element };
    match element {
        // Read straight as a float: going through a double would round twice.
        ElementType::F32 => {
            let single: f32 = value.as_str().parse().map_err(|_| range())?;
            if single.is_finite() { Ok(single.to_le_bytes().to_vec()) } else { Err(range()) }
        }
        ElementType::F64 | ElementType::F16 | ElementType::Bf16 => {
            real(element, value.value()).ok_or_else(range)
        }
        ElementType::I64
        | ElementType::I32
        | ElementType::I16
        | ElementType::I8
        | ElementType::U64
        | ElementType::U32
        | ElementType::U16
        | ElementType::U8
        | ElementType::Bool
        | ElementType::Fp8E4m3
        | ElementType::Fp8E5m2
        | ElementType::Fp4E2m1 => Err(ScalarError::Type(element)),
    }
}

/// `None` when the nearest value is infinite or the type is no float.
fn real(element: ElementType, value: f64) -> Option<Vec<u8>> {
    /// All exponent bits of binary16, of bfloat16.
    const INFINITE: [u16; 2] = [0x7c00, 0x7f80];
    match element {
        ElementType::F64 => Some(value.to_le_bytes().to_vec()),
        ElementType::F32 => {
            let single = value as f32;
            single.is_finite().then(|| single.to_le_bytes().to_vec())
        }
        ElementType::F16 => {
            let bits = f16_from_f64(value);
            (bits & INFINITE[0] != INFINITE[0]).then(|| bits.to_le_bytes().to_vec())
        }
        ElementType::Bf16 => {
            let bits = bf16_from_f64(value);
            (bits & INFINITE[1] != INFINITE[1]).then(|| bits.to_le_bytes().to_vec())
        }
        ElementType::I64
        | ElementType::I32
        | ElementType::I16
        | ElementType::I8
        | ElementType::U64
        | ElementType::U32
        | ElementType::U16
        | ElementType::U8
        | ElementType::Bool
        | ElementType::Fp8E4m3
        | ElementType::Fp8E5m2
        | ElementType::Fp4E2m1 => None,
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
    }

    #[test]
    fn floats_are_rounded_once_and_never_to_infinity() {
        let decimal = |text: &str| text.parse::<Decimal>().unwrap();
        assert_eq!(float(ElementType::F32, &decimal("0.1")).unwrap(), 0.1_f32.to_le_bytes());
        assert_eq!(float(ElementType::F16, &decimal("1")).unwrap(), 0x3c00_u16.to_le_bytes());
        assert_eq!(float(ElementType::Bf16, &decimal("1")).unwrap(), 0x3f80_u16.to_le_bytes());
        assert!(float(ElementType::F32, &decimal("1e300")).is_err());
        assert!(float(ElementType::F16, &decimal("70000")).is_err());
        assert!(float(ElementType::I32, &decimal("1")).is_err());
    }
}
