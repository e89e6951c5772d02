//! Half precision and bfloat16: every pattern through the conversions, arithmetic against exact results rounded once.

use crate::bench::{Bench, Given, bench, bench_with, launch};
use fleet_config::domain::half::{bf16_from_f64, bf16_to_f64, f16_from_f64, f16_to_f64};
use std::path::PathBuf;

/// One format: its type in CUDA, the word in its conversions' names, and this house's own conversions.
struct Format {
    kind: &'static str,
    word: &'static str,
    header: &'static str,
    narrow: fn(f64) -> u16,
    widen: fn(u16) -> f64,
}

const FORMATS: [Format; 2] = [
    Format { kind: "__half", word: "half", header: "cuda_fp16.h", narrow: f16_from_f64, widen: f16_to_f64 },
    Format {
        kind: "__nv_bfloat16",
        word: "bfloat16",
        header: "cuda_bf16.h",
        narrow: bf16_from_f64,
        widen: bf16_to_f64,
    },
];

impl Format {
    fn source(&self, text: &str) -> String {
        let text = text.replace("TYPE", self.kind).replace("WORD", self.word);
        format!("#include <{}>\n{text}", self.header)
    }

    fn check(&self, what: &str, got: u16, expected: u16, operands: &dyn std::fmt::Debug) {
        let same = got == expected || ((self.widen)(got).is_nan() && (self.widen)(expected).is_nan());
        let kind = self.kind;
        assert!(same, "{kind} {what} of {operands:x?}: {got:#06x} instead of {expected:#06x}");
    }
}

fn words(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|chunk| u16::from_le_bytes(chunk.try_into().unwrap())).collect()
}

fn packed(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014) from a fixed seed.
fn draws(seed: u64, count: usize) -> Vec<u64> {
    let mut state = seed;
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..count).map(|_| draw()).collect()
}

fn benches() -> Vec<Bench> {
    let compilers = ["/usr/bin/g++", "/usr/bin/clang++"];
    let found: Vec<Bench> = compilers.iter().filter_map(|path| bench_with(&[PathBuf::from(path)])).collect();
    if found.is_empty() { bench().into_iter().collect() } else { found }
}

#[test]
fn every_pattern_of_sixteen_bits_survives_the_conversions() {
    const SOURCE: &str = r#"
extern "C" __global__ void all(float* wide, unsigned short* back, int* whole, unsigned short* root) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  TYPE a = __ushort_as_WORD((unsigned short)i);
  wide[i] = __WORD2float(a);
  back[i] = __WORD_as_ushort(__float2WORD_rn(wide[i]));
  whole[i] = __WORD2int_rz(a);
  root[i] = __WORD_as_ushort(hsqrt(a));
}"#;
    const COUNT: usize = 1 << 16;
    for bench in benches() {
        for format in &FORMATS {
            let given = vec![
                Given::Out(COUNT * 4),
                Given::Out(COUNT * 2),
                Given::Out(COUNT * 4),
                Given::Out(COUNT * 2),
            ];
            let out = bench.run(&format.source(SOURCE), "all", &launch(256, 256, given)).unwrap();
            let (wide, whole) = (crate::bench::floats(&out[0]), crate::bench::ints(&out[2]));
            let (back, root) = (words(&out[1]), words(&out[3]));
            for pattern in 0..=u16::MAX {
                let (at, exact) = (usize::from(pattern), (format.widen)(pattern));
                if exact.is_nan() {
                    assert!(
                        wide[at].is_nan() && back[at] & 0x7fff == 0x7fff && whole[at] == 0,
                        "{pattern:#x}"
                    );
                } else {
                    assert_eq!(f64::from(wide[at]).to_bits(), exact.to_bits(), "{pattern:#x}");
                    assert_eq!(back[at], pattern);
                    // A cast of Rust saturates as the GPU does.
                    assert_eq!(whole[at], exact.trunc() as i32, "{pattern:#x}");
                }
                format.check("root", root[at], (format.narrow)(exact.sqrt()), &pattern);
            }
        }
    }
}

#[test]
fn arithmetic_is_exact_and_rounded_once() {
    const SOURCE: &str = r#"
extern "C" __global__ void all(const unsigned short* x, unsigned short* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  TYPE a = __ushort_as_WORD(x[3 * i]), b = __ushort_as_WORD(x[3 * i + 1]), c = __ushort_as_WORD(x[3 * i + 2]);
  TYPE out[8] = {a + b, __hsub(a, b), a * b, __hdiv(a, b), __hfma(a, b, c), __hmax(a, b), __hmin(a, b), __hneg(a)};
  for (int k = 0; k < 8; ++k) y[8 * i + k] = __WORD_as_ushort(out[k]);
}"#;
    const COUNT: usize = 200_000;
    for bench in benches() {
        for format in &FORMATS {
            let operands: Vec<u16> = draws(7, COUNT * 3).iter().map(|drawn| *drawn as u16).collect();
            let n = i32::try_from(COUNT).unwrap();
            let given = vec![Given::In(packed(&operands)), Given::Out(COUNT * 16), Given::Int(n)];
            let blocks = COUNT.div_ceil(256) as u64;
            let out = bench.run(&format.source(SOURCE), "all", &launch(blocks, 256, given)).unwrap();
            for (got, given) in words(&out[1]).chunks_exact(8).zip(operands.chunks_exact(3)) {
                let [a, b] = [(format.widen)(given[0]), (format.widen)(given[1])];
                // Sums and products of so few digits are exact in double, or rounded with digits to spare.
                let expected = [a + b, a - b, a * b, a / b];
                for (name, (got, exact)) in ["+", "-", "*", "/"].iter().zip(got.iter().zip(expected)) {
                    format.check(name, *got, (format.narrow)(exact), &given);
                }
                format.check("max", got[5], (format.narrow)(a.max(b)), &given);
                format.check("min", got[6], (format.narrow)(a.min(b)), &given);
                format.check("neg", got[7], (format.narrow)(-a), &given);
                if let Some(exact) = fused(a, b, (format.widen)(given[2])) {
                    format.check("fma", got[4], (format.narrow)(exact), &given);
                }
            }
        }
    }
}

/// `a b + c` in integers of 128 bits, cut to 50 digits with a last one that says whether more followed, so that it is
/// rounded once afterwards. `None` where the integers do not reach.
fn fused(a: f64, b: f64, c: f64) -> Option<f64> {
    const UNIT: f64 = 281_474_976_710_656.0; // 2^48, below the smallest product of two binary16
    let scaled = |value: f64, by: f64| {
        let scaled = value * by;
        (scaled.fract() == 0.0 && scaled.abs() < 1e36).then_some(scaled as i128)
    };
    let sum = scaled(a * b, UNIT)? + scaled(c, UNIT)?;
    let negative = sum < 0;
    let magnitude = sum.unsigned_abs();
    if magnitude == 0 {
        // The sign of an exact zero is the hardware's rule for sums.
        return Some(a * b + c);
    }
    let drop = (128 - magnitude.leading_zeros()).saturating_sub(50);
    let kept = magnitude >> drop;
    let sticky = u128::from(kept << drop != magnitude);
    let value = (kept | sticky) as f64 * f64::from(drop).exp2() / UNIT;
    Some(if negative { -value } else { value })
}

#[test]
fn the_four_directions_of_rounding_are_kept() {
    const SOURCE: &str = r#"
extern "C" __global__ void all(const float* x, unsigned short* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[4 * i] = __WORD_as_ushort(__float2WORD_rn(x[i]));
  y[4 * i + 1] = __WORD_as_ushort(__float2WORD_rz(x[i]));
  y[4 * i + 2] = __WORD_as_ushort(__float2WORD_ru(x[i]));
  y[4 * i + 3] = __WORD_as_ushort(__float2WORD_rd(x[i]));
}"#;
    const COUNT: usize = 100_000;
    for bench in benches() {
        for format in &FORMATS {
            // Half of them near the format's range, where subnormals and overflow are.
            let value = |drawn: &u64| match drawn >> 63 {
                0 => f32::from_bits(*drawn as u32),
                _ => f32::from_bits((*drawn as u32 & 0x8fff_ffff) | 0x3000_0000),
            };
            let x: Vec<f32> = draws(11, COUNT).iter().map(value).filter(|x| x.is_finite()).collect();
            let n = i32::try_from(x.len()).unwrap();
            let given = vec![crate::bench::input(&x), Given::Out(x.len() * 8), Given::Int(n)];
            let blocks = x.len().div_ceil(256) as u64;
            let out = bench.run(&format.source(SOURCE), "all", &launch(blocks, 256, given)).unwrap();
            for (got, x) in words(&out[1]).chunks_exact(4).zip(&x) {
                let exact = f64::from(*x);
                format.check("rn", got[0], (format.narrow)(exact), x);
                let [zero, up, down] = [got[1], got[2], got[3]].map(format.widen);
                assert!(down <= exact && exact <= up, "{x:e}: {down:e} to {up:e}");
                assert!(zero.abs() <= exact.abs() && (zero == up || zero == down), "{x:e}: {zero:e}");
                // Neighbours in the format: nothing lies between them.
                if up.is_finite() && down.is_finite() && up != down {
                    let [low, high] = [up.abs().min(down.abs()), up.abs().max(down.abs())].map(format.narrow);
                    assert_eq!(high - low, 1, "{x:e}: {down:e} to {up:e}");
                } else if up == down {
                    assert_eq!(up, exact);
                }
            }
        }
    }
}
