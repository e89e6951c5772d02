//! The sample's implementations against a computation of this process in double precision. Reference and candidates share
//! the shim, so a fault of the shim could cancel out between them; here it cannot.

use crate::bench::{Given, Launch, PATIENT, bench, bytes, floats};
use std::path::Path;

/// Sizes that are no multiples of any tile, the smallest, and one whose rows begin where vectors may.
const SIZES: [(usize, usize, usize); 3] = [(31, 37, 29), (1, 1, 1), (65, 132, 257)];

/// Exactly representable in single precision, of both signs, without a pattern that tiles could hide.
fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        // The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..count).map(|_| ((next() >> 40) as f32 / (1_u32 << 23) as f32 - 1.0) * 2.0).collect()
}

fn product(a: &[f32], b: &[f32], (m, n, k): (usize, usize, usize)) -> Vec<f64> {
    let element = |at: usize| {
        let (row, column) = (at / n, at % n);
        (0..k).map(|i| f64::from(a[row * k + i]) * f64::from(b[i * n + column])).sum()
    };
    (0..m * n).map(element).collect()
}

/// How far from the exact value an element may be.
type Bound = fn(f64) -> f64;

#[test]
fn the_samples_implementations_agree_with_double_precision_on_the_host() {
    let Some(bench) = bench() else { return };
    // The reference rounds once; the others sum in single precision, for which the task has its tolerance.
    let rounded: Bound = |exact| exact.abs() * f64::from(f32::EPSILON) + 1e-12;
    let summed: Bound = |exact| 1e-4 + 1e-4 * exact.abs();
    let files: [(&str, [u64; 2], [u64; 2], Bound); 4] = [
        ("reference.cu", [16, 16], [16, 16], rounded),
        ("baseline.cu", [16, 16], [16, 16], summed),
        ("candidates/tiled.cu", [64, 16], [8, 4], summed),
        ("candidates/vectorised.cu", [16, 16], [16, 16], summed),
    ];
    for (file, tile, block, bound) in files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/sample").join(file);
        let source = std::fs::read_to_string(path).unwrap();
        for size in SIZES {
            let (m, n, k) = size;
            let (a, b) = (values(m * k, 1), values(k * n, 2));
            let int = |value: usize| Given::Int(i32::try_from(value).unwrap());
            let launch = Launch {
                grid: [(n as u64).div_ceil(tile[0]), (m as u64).div_ceil(tile[1]), 1],
                block: [block[0], block[1], 1],
                shared_bytes: 0,
                arguments: vec![
                    Given::In(bytes(&a)),
                    Given::In(bytes(&b)),
                    Given::Out(m * n * 4),
                    int(m),
                    int(n),
                    int(k),
                ],
                limit: PATIENT,
            };
            let read =
                bench.run(&source, "matmul", &launch).unwrap_or_else(|failure| panic!("{file}: {failure:?}"));
            for (at, (got, exact)) in floats(&read[2]).iter().zip(product(&a, &b, size)).enumerate() {
                let error = (f64::from(*got) - exact).abs();
                assert!(error <= bound(exact), "{file} {size:?}: element {at} is {got} instead of {exact}");
            }
        }
    }
}
