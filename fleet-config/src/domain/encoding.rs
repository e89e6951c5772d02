//! Elements as little-endian bytes, and back.

use super::ElementType;
use super::half::{bf16_from_f64, bf16_to_f64, f16_from_f64, f16_to_f64};
use std::ops::RangeInclusive;

/// Appends `value` as one `element`. Floats are rounded once, to nearest, ties to even; overflow gives the
/// largest finite value, so that no draw is infinite. Integers take the floor, held within their range. A bool
/// is true from one half on. Reserved types append nothing.
pub fn push_real(bytes: &mut Vec<u8>, element: ElementType, value: f64) {
    match element {
        ElementType::F64 => push_nearest(bytes, element, value.clamp(f64::MIN, f64::MAX)),
        ElementType::F32 => {
            push_nearest(bytes, element, value.clamp(f64::from(f32::MIN), f64::from(f32::MAX)));
        }
        ElementType::F16 => push_nearest(bytes, element, value.clamp(-65504.0, 65504.0)),
        ElementType::Bf16 => {
            let largest = bf16_to_f64(0x7f7f);
            push_nearest(bytes, element, value.clamp(-largest, largest));
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

/// Appends an integer that is one of [`integers`]: exactly for integers and bool, through a double for floats.
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

/// Appends a number as a C cast makes it one `element`: integers wrap, fractions are cut off, a bool is true unless
/// zero, floats are rounded to nearest through a double and overflow to infinity.
pub fn push_cast(bytes: &mut Vec<u8>, element: ElementType, number: Number) {
    let (real, integer) = match number {
        Number::Real(value) => (value, value.trunc() as i128),
        Number::Integer(value) => (value as f64, value),
    };
    match element {
        ElementType::F64 | ElementType::F32 | ElementType::F16 | ElementType::Bf16 => {
            push_nearest(bytes, element, real);
        }
        ElementType::I64 | ElementType::U64 => bytes.extend((integer as u64).to_le_bytes()),
        ElementType::I32 | ElementType::U32 => bytes.extend((integer as u32).to_le_bytes()),
        ElementType::I16 | ElementType::U16 => bytes.extend((integer as u16).to_le_bytes()),
        ElementType::I8 | ElementType::U8 => bytes.push(integer as u8),
        ElementType::Bool => bytes.push(u8::from(real != 0.0)),
        ElementType::Fp8E4m3 | ElementType::Fp8E5m2 | ElementType::Fp4E2m1 => {}
    }
}

/// Appends the float `element` nearest to `value`, ties to even, infinite on overflow; nothing for other types.
fn push_nearest(bytes: &mut Vec<u8>, element: ElementType, value: f64) {
    match element {
        ElementType::F64 => bytes.extend(value.to_le_bytes()),
        ElementType::F32 => bytes.extend((value as f32).to_le_bytes()),
        ElementType::F16 => bytes.extend(f16_from_f64(value).to_le_bytes()),
        ElementType::Bf16 => bytes.extend(bf16_from_f64(value).to_le_bytes()),
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
        | ElementType::Fp4E2m1 => {}
    }
}

/// The bytes of the float `element` nearest to `value`, infinite on overflow; `None` for types that are no floats.
pub fn nearest(element: ElementType, value: f64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    push_nearest(&mut bytes, element, value);
    (!bytes.is_empty()).then_some(bytes)
}

/// The integers that `element` holds, each of them exactly; `None` for reserved types.
pub fn integers(element: ElementType) -> Option<RangeInclusive<i128>> {
    Some(match element {
        ElementType::F64 => -(1 << 53)..=1 << 53,
        ElementType::F32 => -(1 << 24)..=1 << 24,
        ElementType::F16 => -(1 << 11)..=1 << 11,
        ElementType::Bf16 => -(1 << 8)..=1 << 8,
        ElementType::I64 => i64::MIN.into()..=i64::MAX.into(),
        ElementType::I32 => i32::MIN.into()..=i32::MAX.into(),
        ElementType::I16 => i16::MIN.into()..=i16::MAX.into(),
        ElementType::I8 => i8::MIN.into()..=i8::MAX.into(),
        // Task files write integers in 64 signed bits.
        ElementType::U64 => 0..=i64::MAX.into(),
        ElementType::U32 => 0..=u32::MAX.into(),
        ElementType::U16 => 0..=u16::MAX.into(),
        ElementType::U8 => 0..=u8::MAX.into(),
        ElementType::Bool => 0..=1,
        ElementType::Fp8E4m3 | ElementType::Fp8E5m2 | ElementType::Fp4E2m1 => return None,
    })
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
