//! Elements as little-endian bytes, and back.

use super::ElementType;
use super::half::{bf16_from_f64, bf16_to_f64, f16_from_f64, f16_to_f64};

/// Appends `value` as one `element`. Floats are rounded once, to nearest, ties to even; overflow gives the
/// largest finite value, so that no draw is infinite. Integers take the floor, held within their range. A bool
/// is true from one half on. Reserved types append nothing.
pub fn push_real(bytes: &mut Vec<u8>, element: ElementType, value: f64) {
    match element {
        ElementType::F64 => bytes.extend(value.clamp(f64::MIN, f64::MAX).to_le_bytes()),
        ElementType::F32 => bytes.extend((value as f32).clamp(f32::MIN, f32::MAX).to_le_bytes()),
        ElementType::F16 => bytes.extend(f16_from_f64(value.clamp(-65504.0, 65504.0)).to_le_bytes()),
        ElementType::Bf16 => {
            let largest = bf16_to_f64(0x7f7f);
            bytes.extend(bf16_from_f64(value.clamp(-largest, largest)).to_le_bytes());
        }
        // A cast from float to integer saturates.
        ElementType::I64 => bytes.extend((value.floor() as i64).to_le_bytes()),
        ElementType::I32 => bytes.extend((value.floor() as i32).to_le_bytes()),
        ElementType::I16 => bytes.extend((value.floor() as i16).to_le_bytes()),
        ElementType::I8 => bytes.extend((value.floor() as i8).to_le_bytes()),
        ElementType::U64 => bytes.extend((value.floor() as u64).to_le_bytes()),
        ElementType::U32 => bytes.extend((value.floor() as u32).to_le_bytes()),
        ElementType::U16 => bytes.extend((value.floor() as u16).to_le_bytes()),
        ElementType::U8 => bytes.extend((value.floor() as u8).to_le_bytes()),
        ElementType::Bool => bytes.push(u8::from(value >= 0.5)),
        ElementType::Fp8E4m3 | ElementType::Fp8E5m2 | ElementType::Fp4E2m1 => {}
    }
}

/// Appends an integer that was checked to fit: exactly for integers and bool, through a double for floats.
pub fn push_integer(bytes: &mut Vec<u8>, element: ElementType, value: i64) {
    match element {
        ElementType::F64 | ElementType::F32 | ElementType::F16 | ElementType::Bf16 => {
            push_real(bytes, element, value as f64);
        }
        ElementType::I64 | ElementType::U64 => bytes.extend(value.to_le_bytes()),
        ElementType::I32 | ElementType::U32 => bytes.extend((value as u32).to_le_bytes()),
        ElementType::I16 | ElementType::U16 => bytes.extend((value as u16).to_le_bytes()),
        ElementType::I8 | ElementType::U8 | ElementType::Bool => bytes.push(value as u8),
        ElementType::Fp8E4m3 | ElementType::Fp8E5m2 | ElementType::Fp4E2m1 => {}
    }
}

/// The bytes of a non-finite float; `None` for types that have none.
pub fn non_finite(element: ElementType, value: f64) -> Option<Vec<u8>> {
    match element {
        ElementType::F64 => Some(value.to_le_bytes().to_vec()),
        ElementType::F32 => Some((value as f32).to_le_bytes().to_vec()),
        ElementType::F16 => Some(f16_from_f64(value).to_le_bytes().to_vec()),
        ElementType::Bf16 => Some(bf16_from_f64(value).to_le_bytes().to_vec()),
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

/// One element as a number: floats as doubles (exact), integers and bool as wide integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Real(f64),
    Integer(i128),
}

/// The number in the first bytes of `bytes`; `None` if they are too few or the type is reserved.
pub fn read(element: ElementType, bytes: &[u8]) -> Option<Number> {
    /// The first bytes as an array.
    fn take<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.first_chunk().copied()
    }
    Some(match element {
        ElementType::F64 => Number::Real(f64::from_le_bytes(take(bytes)?)),
        ElementType::F32 => Number::Real(f64::from(f32::from_le_bytes(take(bytes)?))),
        ElementType::F16 => Number::Real(f16_to_f64(u16::from_le_bytes(take(bytes)?))),
        ElementType::Bf16 => Number::Real(bf16_to_f64(u16::from_le_bytes(take(bytes)?))),
        ElementType::I64 => Number::Integer(i64::from_le_bytes(take(bytes)?).into()),
        ElementType::I32 => Number::Integer(i32::from_le_bytes(take(bytes)?).into()),
        ElementType::I16 => Number::Integer(i16::from_le_bytes(take(bytes)?).into()),
        ElementType::I8 => Number::Integer(i8::from_le_bytes(take(bytes)?).into()),
        ElementType::U64 => Number::Integer(u64::from_le_bytes(take(bytes)?).into()),
        ElementType::U32 => Number::Integer(u32::from_le_bytes(take(bytes)?).into()),
        ElementType::U16 => Number::Integer(u16::from_le_bytes(take(bytes)?).into()),
        ElementType::U8 | ElementType::Bool => Number::Integer(u8::from_le_bytes(take(bytes)?).into()),
        ElementType::Fp8E4m3 | ElementType::Fp8E5m2 | ElementType::Fp4E2m1 => return None,
    })
}
