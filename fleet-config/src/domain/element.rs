//! Element types of buffers and scalars.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What one element of a buffer is. The fp8 and fp4 names are reserved: the format holds them, no backend runs
/// them yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElementType {
    F64,
    F32,
    F16,
    Bf16,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
    /// OCP 8-bit float, 4 exponent and 3 mantissa bits. Reserved.
    Fp8E4m3,
    /// OCP 8-bit float, 5 exponent and 2 mantissa bits. Reserved.
    Fp8E5m2,
    /// OCP 4-bit float, 2 exponent and 1 mantissa bit. Reserved.
    Fp4E2m1,
}

impl ElementType {
    /// Every type that backends may run, reserved ones left out.
    pub const USABLE: [Self; 13] = [
        Self::F64,
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::I64,
        Self::I32,
        Self::I16,
        Self::I8,
        Self::U64,
        Self::U32,
        Self::U16,
        Self::U8,
        Self::Bool,
    ];

    /// Size of one element in bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 64,
            Self::F32 | Self::I32 | Self::U32 => 32,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 16,
            Self::I8 | Self::U8 | Self::Bool | Self::Fp8E4m3 | Self::Fp8E5m2 => 8,
            Self::Fp4E2m1 => 4,
        }
    }
    /// Size of one element in bytes; `None` for packed types, which have no whole number of bytes.
    pub fn bytes(self) -> Option<u64> {
        self.bits().is_multiple_of(8).then(|| u64::from(self.bits() / 8))
    }
    /// Smallest normal and largest number of a float type that can be run; `None` for all others.
    pub fn float_limits(self) -> Option<(f64, f64)> {
        match self {
            Self::F64 => Some((f64::MIN_POSITIVE, f64::MAX)),
            Self::F32 => Some((f32::MIN_POSITIVE.into(), f32::MAX.into())),
            // 2^-14 and (2 - 2^-10) · 2^15, IEEE 754 binary16.
            Self::F16 => Some((1.0 / 16_384.0, 65_504.0)),
            // (2 - 2^-7) · 2^127: the exponents of binary32 and eight bits of its significand.
            Self::Bf16 => Some((f32::MIN_POSITIVE.into(), 3.389_531_389_251_535_5e38)),
            Self::I64
            | Self::I32
            | Self::I16
            | Self::I8
            | Self::U64
            | Self::U32
            | Self::U16
            | Self::U8
            | Self::Bool
            | Self::Fp8E4m3
            | Self::Fp8E5m2
            | Self::Fp4E2m1 => None,
        }
    }
    /// Whether equality is exact: integers and bool are compared bit for bit whatever the tolerance says.
    pub fn is_exact(self) -> bool {
        match self {
            Self::I64
            | Self::I32
            | Self::I16
            | Self::I8
            | Self::U64
            | Self::U32
            | Self::U16
            | Self::U8
            | Self::Bool => true,
            Self::F64
            | Self::F32
            | Self::F16
            | Self::Bf16
            | Self::Fp8E4m3
            | Self::Fp8E5m2
            | Self::Fp4E2m1 => false,
        }
    }
    /// Whether the format only reserves the name.
    pub fn is_reserved(self) -> bool {
        matches!(self, Self::Fp8E4m3 | Self::Fp8E5m2 | Self::Fp4E2m1)
    }
    /// The name used in task files and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U64 => "u64",
            Self::U32 => "u32",
            Self::U16 => "u16",
            Self::U8 => "u8",
            Self::Bool => "bool",
            Self::Fp8E4m3 => "fp8_e4m3",
            Self::Fp8E5m2 => "fp8_e5m2",
            Self::Fp4E2m1 => "fp4_e2m1",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
