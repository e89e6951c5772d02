//! Half-width floats: IEEE 754 binary16 and bfloat16, from and to doubles, rounded once to nearest, ties to even.

/// Bits of the binary16 nearest to `value`; overflow gives infinity, NaN the quiet NaN of the same sign.
pub fn f16_from_f64(value: f64) -> u16 {
    narrow(value, 5, 10)
}

/// Bits of the bfloat16 nearest to `value`; overflow gives infinity, NaN the quiet NaN of the same sign.
pub fn bf16_from_f64(value: f64) -> u16 {
    narrow(value, 8, 7)
}

/// The value of binary16 bits; exact.
pub fn f16_to_f64(bits: u16) -> f64 {
    widen(bits, 5, 10)
}

/// The value of bfloat16 bits; exact.
pub fn bf16_to_f64(bits: u16) -> f64 {
    widen(bits, 8, 7)
}

fn narrow(value: f64, exponent_bits: u32, fraction_bits: u32) -> u16 {
    let bits = value.to_bits();
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let infinity = ((1_u64 << exponent_bits) - 1) << fraction_bits;
    let biased = i64::try_from((bits >> 52) & 0x7ff).expect("invariant: eleven bits");
    let fraction = bits & ((1 << 52) - 1);
    if biased == 0x7ff {
        let quiet = if fraction == 0 { 0 } else { 1 << (fraction_bits - 1) };
        return sign | low_bits(infinity | quiet);
    }
    // Subnormal doubles lie far below the smallest subnormal of either format.
    if biased == 0 {
        return sign;
    }
    let exponent = biased - 1023;
    let smallest = 2 - (1_i64 << (exponent_bits - 1));
    let below = (smallest - exponent).max(0);
    let shift = i64::from(52 - fraction_bits) + below;
    if shift > 54 {
        return sign;
    }
    let significand = (1_u64 << 52) | fraction;
    let kept = significand >> shift;
    let rest = significand & ((1 << shift) - 1);
    let tie = 1_u64 << (shift - 1);
    let rounded = kept + u64::from(rest > tie || (rest == tie && kept & 1 == 1));
    // The significand carries its leading one, so adding it moves the exponent field by one where it must.
    let field = u64::try_from((exponent - smallest).max(0)).expect("invariant: not negative");
    let magnitude = (field << fraction_bits) + rounded;
    sign | low_bits(magnitude.min(infinity))
}

fn low_bits(magnitude: u64) -> u16 {
    u16::try_from(magnitude).expect("invariant: at most the encoding of infinity and a quiet bit")
}

fn widen(bits: u16, exponent_bits: u32, fraction_bits: u32) -> f64 {
    let negative = bits & 0x8000 != 0;
    let exponent = i32::from((bits & 0x7fff) >> fraction_bits);
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1));
    let smallest = 2 - (1_i32 << (exponent_bits - 1));
    let unit = power_of_two(smallest - 52) * power_of_two(52 - fraction_bits.cast_signed());
    let magnitude = if exponent == (1 << exponent_bits) - 1 {
        if fraction == 0.0 { f64::INFINITY } else { f64::NAN }
    } else if exponent == 0 {
        fraction * unit
    } else {
        (fraction + power_of_two(fraction_bits.cast_signed())) * unit * power_of_two(exponent - 1)
    };
    if negative { -magnitude } else { magnitude }
}

/// 2^exponent for the exponents of normal doubles.
fn power_of_two(exponent: i32) -> f64 {
    let biased = u64::try_from(exponent + 1023).expect("invariant: a normal double's exponent");
    f64::from_bits(biased << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values_have_their_known_bits() {
        for (value, bits) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.9, 0x7bff),
            (65520.0, 0x7c00),
            (f64::INFINITY, 0x7c00),
            (f64::NEG_INFINITY, 0xfc00),
            (6.103515625e-5, 0x0400),
            (5.960464477539063e-8, 1),
            (2.9802322387695312e-8, 0),
            (2.980232238769532e-8, 1),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
        ] {
            assert_eq!(f16_from_f64(value), bits, "{value}");
        }
        for (value, bits) in [(1.0, 0x3f80), (3.140625, 0x4049), (1e39, 0x7f80), (1.0 + 1.0 / 256.0, 0x3f80)]
        {
            assert_eq!(bf16_from_f64(value), bits, "{value}");
        }
        assert_eq!(f16_from_f64(f64::NAN) & 0x7fff, 0x7e00);
    }

    #[test]
    fn every_pattern_survives_the_way_out_and_back() {
        for bits in 0..=u16::MAX {
            for (back, value) in [
                (f16_from_f64(f16_to_f64(bits)), f16_to_f64(bits)),
                (bf16_from_f64(bf16_to_f64(bits)), bf16_to_f64(bits)),
            ] {
                assert!(back == bits || value.is_nan(), "{bits:#06x} became {back:#06x}");
            }
        }
        assert_eq!(bf16_to_f64(0x4049), f64::from(f32::from_bits(0x4049_0000)));
    }

    proptest! {
        #[test]
        fn the_nearest_value_is_taken(value in -70000.0..70000.0_f64) {
            let bits = f16_from_f64(value);
            let error = (f16_to_f64(bits) - value).abs();
            for other in [bits.wrapping_add(1), bits.wrapping_sub(1)] {
                let neighbour = f16_to_f64(other);
                if neighbour.is_finite() && f16_to_f64(bits).is_finite() {
                    prop_assert!(error <= (neighbour - value).abs());
                }
            }
        }
    }
}
