//! Kernels whose results are exact: integers, and numbers that are moved or scaled by powers of two.

use super::{Compute, by_row, side};
use crate::gallery::Values;
use fleet_config::domain::Scope;

pub(super) const TABLE: &[(&str, Compute)] = &[
    ("add-wide", |_, v| {
        let sum = |(a, b): (&[f64], &[f64])| {
            let mut carry = 0u64;
            let word = |(a, b): (&f64, &f64)| {
                carry = (carry >> 32) + *a as u64 + *b as u64;
                (carry & 0xffff_ffff) as f64
            };
            a.iter().zip(b).map(word).collect::<Vec<_>>()
        };
        let y = v["a"].chunks(32).zip(v["b"].chunks(32)).flat_map(sum).collect();
        v.insert("y".to_owned(), y);
    }),
    ("bits-transpose", |d, v| {
        by_row(d, v, "x", "y", |row| {
            let bit = |word: f64, at: usize| f64::from(u8::from(word as u64 >> at & 1 == 1));
            let column =
                |at| row.iter().enumerate().map(|(i, word)| bit(*word, at) * 2f64.powi(i as i32)).sum();
            (0..32).map(column).collect()
        });
    }),
    ("compact-scan", |_, v| {
        let mut kept: Vec<f64> = v["x"].iter().copied().filter(|x| *x > 0.0).collect();
        v.insert("count".to_owned(), vec![kept.len() as f64]);
        kept.resize(v["x"].len(), 0.0);
        v.insert("y".to_owned(), kept);
    }),
    ("crc-table", |d, v| by_row(d, v, "x", "y", |row| vec![f64::from(checksum(row))])),
    ("histogram-global", |_, v| {
        let mut h = vec![0.0; 32];
        v["x"].iter().for_each(|x| h[(x * 32.0).floor() as usize] += 1.0);
        v.insert("h".to_owned(), h);
    }),
    ("histogram-private", |_, v| {
        let mut h = vec![0.0; 256];
        v["x"].iter().for_each(|x| h[*x as usize] += 1.0);
        v.insert("h".to_owned(), h);
    }),
    ("integral-image", |d, v| {
        let (h, w) = (side(d, "h"), side(d, "w"));
        let mut y = vec![0.0; h * w];
        for at in 0..h * w {
            let (r, c) = (at / w, at % w);
            let left: f64 = v["x"][r * w..=at].iter().sum();
            y[at] = left + if r > 0 { y[(r - 1) * w + c] } else { 0.0 };
        }
        v.insert("y".to_owned(), y);
    }),
    ("kmeans-step", cluster),
    ("label-step", |_, v| {
        let label = &v["label"];
        let mut next = label.clone();
        for edge in v["ends"].chunks(2) {
            let (a, b) = (edge[0] as usize, edge[1] as usize);
            next[a] = next[a].min(label[b]);
            next[b] = next[b].min(label[a]);
        }
        v.insert("next".to_owned(), next);
    }),
    ("mandelbrot-fixed", |_, v| {
        let rounds = v["re"].iter().zip(&v["im"]).map(|(re, im)| escape(*re as i64, *im as i64)).collect();
        v.insert("rounds".to_owned(), rounds);
    }),
    ("median-network", |d, v| {
        let (h, w) = (side(d, "h"), side(d, "w"));
        let one = |at: usize| {
            let (r, c) = (at / w, at % w);
            if r == 0 || c == 0 || r == h - 1 || c == w - 1 {
                return v["x"][at];
            }
            let mut around: Vec<f64> = (0..9).map(|i| v["x"][(r + i / 3 - 1) * w + c + i % 3 - 1]).collect();
            around.sort_by(f64::total_cmp);
            around[4]
        };
        let y = (0..h * w).map(one).collect();
        v.insert("y".to_owned(), y);
    }),
    ("merge-sort", |d, v| by_row(d, v, "x", "y", super::sorted)),
    ("min-plus-product", |d, v| {
        let (m, n, k) = (side(d, "m"), side(d, "n"), side(d, "k"));
        let way = |at: usize, i: usize| v["a"][at / n * k + i] + v["b"][i * n + at % n];
        let c = (0..m * n).map(|at| (0..k).map(|i| way(at, i)).fold(f64::INFINITY, f64::min)).collect();
        v.insert("c".to_owned(), c);
    }),
    ("permute-axes", |dims, v| {
        let (h, s, d) = (side(dims, "h"), side(dims, "s"), side(dims, "d"));
        let y = (0..h * s * d).map(|i| v["x"][(i / d % h * s + i / d / h) * d + i % d]).collect();
        v.insert("y".to_owned(), y);
    }),
    ("quantise-rows", |d, v| {
        by_row(d, v, "x", "scale", |row| vec![scale(row)]);
        by_row(d, v, "x", "q", |row| {
            let scale = scale(row);
            row.iter().map(|x| (x / scale).round_ties_even().clamp(-127.0, 127.0)).collect()
        });
    }),
    ("radix-step", |_, v| {
        let mut y = v["x"].clone();
        y.sort_by_key(|x| *x as u64 & 15);
        v.insert("y".to_owned(), y);
    }),
    ("scan-decoupled", |_, v| {
        let so_far = |sum: &mut f64, x: &f64| {
            *sum += x;
            Some(*sum)
        };
        let y = v["x"].iter().scan(0.0, so_far).collect();
        v.insert("y".to_owned(), y);
    }),
    ("scan-segmented", |d, v| {
        let flags = v["flag"].clone();
        let mut flags = flags.iter();
        by_row(d, v, "x", "y", |row| {
            let mut sum = 0.0;
            let next = |x: &f64| {
                sum = if flags.next() == Some(&0.0) { *x } else { sum + x };
                sum
            };
            row.iter().map(next).collect()
        });
    }),
];

/// The remainder by the polynomial of CRC-32, as a long division of bits (ISO 3309).
fn checksum(row: &[f64]) -> u32 {
    let mut rest = u32::MAX;
    for byte in row {
        for bit in 0..8 {
            let odd = (rest ^ (*byte as u32 >> bit)) & 1;
            rest = (rest >> 1) ^ (0xedb8_8320 * odd);
        }
    }
    !rest
}

fn cluster(_: &Scope, v: &mut Values) {
    let (mut count, mut sum, mut label) = (vec![0.0; 12], vec![0.0; 48], Vec::new());
    for point in v["x"].chunks(4) {
        let square = |centre: &[f64]| centre.iter().zip(point).map(|(c, p)| (c - p) * (c - p)).sum::<f64>();
        let squares: Vec<f64> = v["centre"].chunks(4).map(square).collect();
        let least = squares.iter().copied().fold(f64::INFINITY, f64::min);
        let own = squares.iter().position(|square| *square == least).unwrap();
        label.push(own as f64);
        count[own] += 1.0;
        point.iter().enumerate().for_each(|(f, x)| sum[own * 4 + f] += x);
    }
    v.extend([("label".to_owned(), label), ("count".to_owned(), count), ("sum".to_owned(), sum)]);
}

/// Rounds of z² + c with 20 bits behind the point, rounded downwards, until |z|² is above 4 or 60 are done.
fn escape(re: i64, im: i64) -> f64 {
    let (mut x, mut y, mut rounds) = (0i64, 0i64, 0);
    while rounds < 60 && (x * x).div_euclid(1 << 20) + (y * y).div_euclid(1 << 20) <= 4 << 20 {
        let next = (x * x).div_euclid(1 << 20) - (y * y).div_euclid(1 << 20) + re;
        y = (x * y).div_euclid(1 << 19) + im;
        x = next;
        rounds += 1;
    }
    f64::from(rounds)
}

/// The least power of two of which the largest magnitude is less than 128 times.
fn scale(row: &[f64]) -> f64 {
    let most = row.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let mut scale = f64::from(f32::MIN_POSITIVE);
    while scale * 128.0 <= most {
        scale *= 2.0;
    }
    scale
}
