//! Kernels of real numbers, which agree within their task's tolerance.

use super::{Compute, Second, by_row, moments, product, side};
use crate::gallery::Values;
use fleet_config::domain::Scope;

pub(super) const TABLE: &[(&str, Compute)] = &[
    ("adam-bf16", adam),
    ("attention-causal", attend),
    ("black-scholes", price),
    ("convolution-depthwise", depthwise),
    ("cosine-blocks", cosines),
    ("dot-compensated", |d, v| {
        let b = v["b"].clone();
        let mut others = b.iter();
        by_row(d, v, "a", "y", |row| vec![row.iter().map(|a| a * others.next().unwrap()).sum()]);
    }),
    ("gemv-split", |d, v| {
        let n = side(d, "n");
        let column = |c: usize| v["x"].iter().enumerate().map(|(r, x)| x * v["a"][r * n + c]).sum();
        let y = (0..n).map(column).collect();
        v.insert("y".to_owned(), y);
    }),
    ("gemv-warp", |d, v| {
        let x = v["x"].clone();
        by_row(d, v, "a", "y", |row| vec![row.iter().zip(&x).map(|(a, x)| a * x).sum()]);
    }),
    ("group-norm", |d, v| {
        let (c, s) = (side(d, "c"), side(d, "s"));
        let of: Vec<(f64, f64)> = v["x"].chunks(4 * s).map(moments).collect();
        let one = |(i, x): (usize, &f64)| {
            let (mean, variance) = of[i / (4 * s)];
            let channel = i / s % c;
            (x - mean) / (variance + 1e-5).sqrt() * v["g"][channel] + v["b"][channel]
        };
        let y = v["x"].iter().enumerate().map(one).collect();
        v.insert("y".to_owned(), y);
    }),
    ("hadamard-shuffle", |d, v| {
        by_row(d, v, "x", "y", |row| {
            let signed =
                |(i, x): (usize, &f64), at: usize| if (i & at).count_ones() % 2 == 1 { -x } else { *x };
            (0..128).map(|at| row.iter().enumerate().map(|term| signed(term, at)).sum()).collect()
        });
    }),
    ("log-softmax", |d, v| {
        by_row(d, v, "x", "y", |row| {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
            row.iter().map(|x| x - most - sum.ln()).collect()
        });
    }),
    ("matmul-batched", |d, v| {
        let (m, n, k) = (side(d, "m"), side(d, "n"), side(d, "k"));
        let one = |at: usize| {
            let (batch, row, column) = (at / (m * n), at / n % m, at % n);
            (0..k).map(|i| v["x"][(batch * m + row) * k + i] * v["y"][(batch * k + i) * n + column]).sum()
        };
        let z = (0..side(d, "b") * m * n).map(one).collect();
        v.insert("z".to_owned(), z);
    }),
    ("matmul-buffered", |d, v| product(d, v, Second::ByRows)),
    ("pagerank-step", |d, v| {
        let n = side(d, "n") as f64;
        let given = |from: &f64| v["x"][*from as usize] / v["links"][*from as usize];
        let y =
            v["from"].chunks(8).map(|from| 0.15 / n + 0.85 * from.iter().map(given).sum::<f64>()).collect();
        v.insert("y".to_owned(), y);
    }),
    ("recurrence-scan", |d, v| {
        let a = v["a"].clone();
        let mut factors = a.iter();
        by_row(d, v, "x", "y", |row| {
            let mut last = 0.0;
            let next = |x: &f64| {
                last = factors.next().unwrap() * last + x;
                last
            };
            row.iter().map(next).collect()
        });
    }),
    ("reduce-two-pass", |_, v| {
        let sum = v["x"].iter().sum();
        v.insert("y".to_owned(), vec![sum]);
    }),
    ("resize-bilinear", resize),
    ("spmv-ell", |d, v| {
        let rows = side(d, "rows");
        let entry = |at: usize| {
            let column = v["column"][at];
            if column < 0.0 { 0.0 } else { v["a"][at] * v["x"][column as usize] }
        };
        let y = (0..rows).map(|r| (0..9).map(|e| entry(e * rows + r)).sum()).collect();
        v.insert("y".to_owned(), y);
    }),
    ("stencil-volume", |dims, v| {
        let (d, h, w) = (side(dims, "d"), side(dims, "h"), side(dims, "w"));
        let x = &v["x"];
        let one = |at: usize| {
            let (k, j, i) = (at / (h * w), at / w % h, at % w);
            if [i, j, k].contains(&0) || i == w - 1 || j == h - 1 || k == d - 1 {
                return x[at];
            }
            let around: f64 = [1, w, h * w].map(|step| x[at - step] + x[at + step]).iter().sum();
            0.4 * x[at] + 0.1 * around
        };
        let y = (0..d * h * w).map(one).collect();
        v.insert("y".to_owned(), y);
    }),
    ("swiglu-half", |_, v| {
        let z = v["x"].iter().zip(&v["y"]).map(|(x, y)| x / (1.0 + (-x).exp()) * y).collect();
        v.insert("z".to_owned(), z);
    }),
];

/// The third step of Kingma and Ba (2015), algorithm 1.
fn adam(_: &Scope, v: &mut Values) {
    for i in 0..v["g"].len() {
        let g = v["g"][i];
        let (m, square) = (0.9 * v["m"][i] + 0.1 * g, 0.999 * v["v"][i] + 0.001 * g * g);
        let step = m / (1.0 - 0.9f64.powi(3)) / ((square / (1.0 - 0.999f64.powi(3))).sqrt() + 1e-8);
        let mut set = |name: &str, value: f64| v.get_mut(name).unwrap()[i] = value;
        set("m", m);
        set("v", square);
        let p = v["p"][i];
        v.get_mut("p").unwrap()[i] = p - 0.01 * step;
    }
}

fn attend(_: &Scope, v: &mut Values) {
    let row = |name: &str, i: usize| &v[name][i * 32..(i + 1) * 32];
    let mut o = Vec::new();
    for i in 0..v["q"].len() / 32 {
        let dot =
            |j: usize| row("q", i).iter().zip(row("k", j)).map(|(q, k)| q * k).sum::<f64>() / 32f64.sqrt();
        let weights: Vec<f64> = (0..=i).map(|j| dot(j).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let feature =
            |f: usize| weights.iter().enumerate().map(|(j, w)| w * row("v", j)[f]).sum::<f64>() / sum;
        o.extend((0..32).map(feature));
    }
    v.insert("o".to_owned(), o);
}

/// Interest 2 %, volatility 30 % (Black and Scholes 1973).
fn price(_: &Scope, v: &mut Values) {
    let (mut calls, mut puts) = (Vec::new(), Vec::new());
    for ((s, k), t) in v["s"].iter().zip(&v["k"]).zip(&v["t"]) {
        let root = 0.3 * t.sqrt();
        let d = ((s / k).ln() + (0.02 + 0.3 * 0.3 / 2.0) * t) / root;
        let later = k * (-0.02 * t).exp();
        calls.push(s * super::normal_below(d) - later * super::normal_below(d - root));
        puts.push(later * super::normal_below(root - d) - s * super::normal_below(-d));
    }
    v.extend([("call".to_owned(), calls), ("put".to_owned(), puts)]);
}

fn depthwise(d: &Scope, v: &mut Values) {
    let (h, w, c) = (side(d, "h"), side(d, "w"), side(d, "c"));
    let one = |at: usize| {
        let (row, column, channel) = (at / c / w, at / c % w, at % c);
        let tap = |i: usize| {
            // Counted from one, so that the rim of zeros is at 0 and behind the last.
            let (r, q) = (row + i / 3, column + i % 3);
            let inside = (1..=h).contains(&r) && (1..=w).contains(&q);
            if inside { v["x"][((r - 1) * w + q - 1) * c + channel] * v["f"][i * c + channel] } else { 0.0 }
        };
        (0..9).map(tap).sum()
    };
    let y = (0..h * w * c).map(one).collect();
    v.insert("y".to_owned(), y);
}

/// The transform of JPEG (ITU-T T.81, A.3.3).
fn cosines(d: &Scope, v: &mut Values) {
    let (h, w) = (side(d, "h"), side(d, "w"));
    let wave = |k: usize, i: usize| {
        let angle = ((2 * i + 1) * k) as f64 * std::f64::consts::PI / 16.0;
        angle.cos() * if k == 0 { 0.125f64.sqrt() } else { 0.5 }
    };
    let one = |at: usize| {
        let (row, column) = (at / w, at % w);
        let pixel = |i: usize| v["x"][(row / 8 * 8 + i / 8) * w + column / 8 * 8 + i % 8];
        (0..64).map(|i| pixel(i) * wave(row % 8, i / 8) * wave(column % 8, i % 8)).sum()
    };
    let y = (0..h * w).map(one).collect();
    v.insert("y".to_owned(), y);
}

/// A pixel's middle is at half; what lies outside is the nearest inside.
fn resize(d: &Scope, v: &mut Values) {
    let (h, w, p, q) = (side(d, "h"), side(d, "w"), side(d, "p"), side(d, "q"));
    let share = |i: usize, from: usize, to: usize, at: usize| {
        let middle = (i as f64 + 0.5) * from as f64 / to as f64 - 0.5;
        let inside = middle.clamp(0.0, (from - 1) as f64);
        (1.0 - (inside - at as f64).abs()).max(0.0)
    };
    let one = |at: usize| {
        let (row, column) = (at / q, at % q);
        let pixel = |i: usize| v["x"][i] * share(row, h, p, i / w) * share(column, w, q, i % w);
        (0..h * w).map(pixel).sum()
    };
    let y = (0..p * q).map(one).collect();
    v.insert("y".to_owned(), y);
}
