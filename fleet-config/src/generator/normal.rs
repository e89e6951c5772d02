//! The inverse of the normal distribution function, by + − × ÷ √ on doubles alone, so that every machine gives
//! the same bits.
//!
//! Each of the five operations is correctly rounded by IEEE 754, and Rust never contracts a multiplication and
//! an addition into a fused one (it would need a call of `mul_add`), whatever the target's features are. So
//! the order in which the operations are written here is the specification.

/// Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37
/// (1988), routine PPND16: numerator and denominator in ascending powers, for the centre and two tails.
#[expect(clippy::excessive_precision, reason = "the digits are those of the publication")]
const CENTRE: [[f64; 8]; 2] = [
    [
        3.387_132_872_796_366_608_0,
        1.331_416_678_917_843_774_5e2,
        1.971_590_950_306_551_442_7e3,
        1.373_169_376_550_946_112_5e4,
        4.592_195_393_154_987_145_7e4,
        6.726_577_092_700_870_085_3e4,
        3.343_057_558_358_812_810_5e4,
        2.509_080_928_730_122_672_7e3,
    ],
    [
        1.0,
        4.231_333_070_160_091_125_2e1,
        6.871_870_074_920_579_083_0e2,
        5.394_196_021_424_751_107_7e3,
        2.121_379_430_158_659_586_7e4,
        3.930_789_580_009_271_061_0e4,
        2.872_908_573_572_194_267_4e4,
        5.226_495_278_852_854_561_0e3,
    ],
];
#[expect(clippy::excessive_precision, reason = "the digits are those of the publication")]
const TAIL: [[f64; 8]; 2] = [
    [
        1.423_437_110_749_683_577_34,
        4.630_337_846_156_545_295_90,
        5.769_497_221_460_691_405_50,
        3.647_848_324_763_204_605_04,
        1.270_458_252_452_368_382_58,
        2.417_807_251_774_506_117_70e-1,
        2.272_384_498_926_918_458_33e-2,
        7.745_450_142_783_414_076_40e-4,
    ],
    [
        1.0,
        2.053_191_626_637_758_821_87,
        1.676_384_830_183_803_849_40,
        6.897_673_349_851_000_045_50e-1,
        1.481_039_764_274_800_745_90e-1,
        1.519_866_656_361_645_719_66e-2,
        5.475_938_084_995_344_946_00e-4,
        1.050_750_071_644_416_843_24e-9,
    ],
];
#[expect(clippy::excessive_precision, reason = "the digits are those of the publication")]
const FAR_TAIL: [[f64; 8]; 2] = [
    [
        6.657_904_643_501_103_777_20,
        5.463_784_911_164_114_369_90,
        1.784_826_539_917_291_335_80,
        2.965_605_718_285_048_912_30e-1,
        2.653_218_952_657_612_309_30e-2,
        1.242_660_947_388_078_438_60e-3,
        2.711_555_568_743_487_578_15e-5,
        2.010_334_399_292_288_132_65e-7,
    ],
    [
        1.0,
        5.998_322_065_558_879_376_90e-1,
        1.369_298_809_227_358_053_10e-1,
        1.487_536_129_085_061_485_25e-2,
        7.868_691_311_456_132_591_00e-4,
        1.846_318_317_510_054_681_80e-5,
        1.421_511_758_316_445_888_70e-7,
        2.044_263_103_389_939_785_64e-15,
    ],
];

/// The point below which a standard normal variable lies with `probability`, which is above 0 and below 1.
pub(super) fn quantile(probability: f64) -> f64 {
    let centred = probability - 0.5;
    if centred.abs() <= 0.425 {
        return centred * ratio(&CENTRE, 0.180_625 - centred * centred);
    }
    let outside = if centred < 0.0 { probability } else { 1.0 - probability };
    let root = (-logarithm(outside)).sqrt();
    let magnitude = if root <= 5.0 { ratio(&TAIL, root - 1.6) } else { ratio(&FAR_TAIL, root - 5.0) };
    if centred < 0.0 { -magnitude } else { magnitude }
}

fn ratio(coefficients: &[[f64; 8]; 2], argument: f64) -> f64 {
    horner(&coefficients[0], argument) / horner(&coefficients[1], argument)
}

/// Highest power first: one multiplication, one addition, each rounded.
fn horner(ascending: &[f64], argument: f64) -> f64 {
    ascending.iter().rev().fold(0.0, |sum, coefficient| sum * argument + coefficient)
}

/// ln 2 in two parts; the first has twenty-one zero bits at its end, so that its product with an exponent is
/// exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN_2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);

/// The natural logarithm of a normal positive double: with x = m × 2^e and √½ ≤ m < √2,
/// ln x = e ln 2 + 2 (s + s³/3 + s⁵/5 + …) where s = (m − 1) ÷ (m + 1). At |s| < 0.1716 thirteen terms reach
/// beyond the last bit.
fn logarithm(value: f64) -> f64 {
    const TERMS: u32 = 13;
    const SQRT_2: f64 = std::f64::consts::SQRT_2;
    let bits = value.to_bits();
    let mut exponent = f64::from(((bits >> 52) as u32) & 0x7ff) - 1023.0;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa >= SQRT_2 {
        mantissa *= 0.5;
        exponent += 1.0;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = (0..TERMS).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    exponent * LN_2_HIGH + (exponent * LN_2_LOW + 2.0 * s * series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_close_to_the_library_one() {
        for step in 1..2000_u32 {
            let value = f64::from(step) / 20_000.0 * 2.0_f64.powi(-i32::try_from(step % 50).unwrap());
            let (ours, theirs) = (logarithm(value), value.ln());
            assert!((ours - theirs).abs() <= 4e-16 * theirs.abs(), "ln {value}: {ours} against {theirs}");
        }
    }

    #[test]
    fn known_quantiles_are_met() {
        for (probability, point) in [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.025, -1.959_963_984_540_054),
            (0.001, -3.090_232_306_167_813_5),
            (1e-12, -7.034_483_825_301_132),
            (2.0_f64.powi(-53), -8.209_536_151_601_387),
        ] {
            let ours = quantile(probability);
            assert!((ours - point).abs() < 1e-14 * (1.0 + point.abs()), "{probability}: {ours}");
        }
    }
}
