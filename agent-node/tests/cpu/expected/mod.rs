//! What each kernel of `tests/kernels` should give, in double precision and in the plainest way.

mod exact;
mod real;

use crate::gallery::Values;
use fleet_config::domain::Scope;

/// Computes the outputs of a case from its dimensions and inputs, in place.
pub(crate) type Compute = fn(&Scope, &mut Values);

/// Every kernel with its computation.
pub(crate) fn all() -> impl Iterator<Item = &'static (&'static str, Compute)> {
    TABLE.iter().chain(exact::TABLE).chain(real::TABLE)
}

const TABLE: &[(&str, Compute)] = &[
    ("argmax-rows", |d, v| by_row(d, v, "x", "y", |row| vec![argmax(row) as f64])),
    ("attention-online", attention),
    ("axpy-half", |_, v| {
        let x = v["x"].clone();
        v.get_mut("y").unwrap().iter_mut().zip(x).for_each(|(y, x)| *y += 2.5 * x);
    }),
    ("batch-norm", batch_norm),
    ("bfs-step", breadth_first),
    ("bitonic-sort", |d, v| by_row(d, v, "x", "y", sorted)),
    ("bodies", bodies),
    ("compact-ballot", |d, v| {
        let kept = |row: &[f64]| row.iter().copied().filter(|x| *x > 0.0).collect::<Vec<_>>();
        by_row(d, v, "x", "count", |row| vec![kept(row).len() as f64]);
        by_row(d, v, "x", "y", |row| {
            let mut kept = kept(row);
            kept.resize(row.len(), 0.0);
            kept
        });
    }),
    ("convolution-line", |_, v| {
        let (x, w) = (v["x"].clone(), v["w"].clone());
        let y = (0..x.len()).map(|i| window(&x, i, &w)).collect();
        v.insert("y".to_owned(), y);
    }),
    ("convolution-plane", convolution_plane),
    ("count-coalesced", |_, v| {
        let count = v["x"].iter().filter(|x| **x > 100.0).count();
        v.insert("y".to_owned(), vec![count as f64]);
    }),
    ("cross-entropy", |d, v| {
        let label = v["label"].clone();
        let mut labels = label.iter();
        by_row(d, v, "x", "y", |row| {
            let label = *labels.next().unwrap() as usize;
            vec![row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[label]]
        });
    }),
    ("dot-double", |_, v| {
        let rows = v["y"].len();
        let n = v["a"].len() / rows;
        let dot = |r: usize| (0..n).map(|i| v["a"][r * n + i] * v["b"][r * n + i]).sum();
        let y = (0..rows).map(dot).collect();
        v.insert("y".to_owned(), y);
    }),
    ("edit-distance", |_, v| {
        let y = v["a"].chunks(64).zip(v["b"].chunks(64)).map(|(a, b)| edit_distance(a, b)).collect();
        v.insert("y".to_owned(), y);
    }),
    ("embedding-gather", |d, v| {
        let n = side(d, "n");
        // The factor is the single-precision number that the candidate multiplies by, within the tolerance.
        let row = |id: &f64| v["table"][*id as usize * n..][..n].iter().map(|x| 0.3 * x).collect::<Vec<_>>();
        let y = v["id"].iter().flat_map(row).collect();
        v.insert("y".to_owned(), y);
    }),
    ("fourier-shared", |_, v| by_chunk(v, 512, fourier)),
    ("gelu-bf16", |_, v| {
        let y = v["x"].iter().map(|x| x * normal_below(*x)).collect();
        v.insert("y".to_owned(), y);
    }),
    ("gemv-dp4a", |d, v| {
        let x = v["x"].clone();
        by_row(d, v, "a", "y", |row| vec![row.iter().zip(&x).map(|(a, x)| a * x).sum()]);
    }),
    ("hash-words", |d, v| by_row(d, v, "x", "y", |row| vec![f64::from(hash(row))])),
    ("histogram-match", histogram),
    ("histogram-shared", histogram),
    ("layer-norm", |d, v| {
        let g = v["g"].clone();
        by_row(d, v, "x", "y", |row| {
            let (mean, variance) = moments(row);
            row.iter().zip(&g).map(|(x, g)| (x - mean) / (variance + 1e-5).sqrt() * g).collect()
        });
    }),
    ("life-bytes", life),
    ("matmul-half", |d, v| product(d, v, Second::ByColumns)),
    ("matmul-register", |d, v| product(d, v, Second::ByRows)),
    ("matmul-tiled", |d, v| product(d, v, Second::ByRows)),
    ("max-pool", max_pool),
    ("monte-carlo", monte_carlo),
    ("quantise-fp8", quantise),
    ("reduce-groups", |d, v| by_row(d, v, "x", "y", |row| vec![row.iter().map(|x| x * x).sum()])),
    ("reduce-shuffle", |d, v| by_row(d, v, "x", "y", |row| vec![row.iter().sum()])),
    ("rms-norm-bf16", |d, v| {
        let g = v["g"].clone();
        by_row(d, v, "x", "y", |row| {
            let square = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            row.iter().zip(&g).map(|(x, g)| x / (square + 1e-6).sqrt() * g).collect()
        });
    }),
    ("rotary-half", |d, v| {
        let mut at = 0;
        by_row(d, v, "x", "y", |row| {
            let turned = rotate(row, f64::from(at % 128));
            at += 1;
            turned
        });
    }),
    ("scan-blocks", |_, v| {
        let before = |sum: &mut f64, x: &f64| {
            let before = *sum;
            *sum += x;
            Some(before)
        };
        let y = v["x"].iter().scan(0.0, before).collect();
        v.insert("y".to_owned(), y);
    }),
    ("scan-warp", |d, v| {
        by_row(d, v, "x", "y", |row| (0..row.len()).map(|i| row[..=i].iter().sum()).collect());
    }),
    ("softmax-template", |d, v| {
        by_row(d, v, "x", "y", |row| {
            let sum: f64 = row.iter().map(|x| x.exp()).sum();
            row.iter().map(|x| x.exp() / sum).collect()
        });
    }),
    ("spmv-csr", |_, v| {
        let row = |ends: &[f64]| {
            let range = ends[0] as usize..ends[1] as usize;
            range.map(|i| v["a"][i] * v["x"][v["columns"][i] as usize]).sum()
        };
        let y = v["start"].windows(2).map(row).collect();
        v.insert("y".to_owned(), y);
    }),
    ("stencil-constant", |_, v| {
        let w = [0.031_25, 0.109_375, 0.218_75, 0.281_25, 0.218_75, 0.109_375, 0.031_25];
        let x = v["x"].clone();
        let y = (0..x.len()).map(|i| window(&x, i, &w)).collect();
        v.insert("y".to_owned(), y);
    }),
    ("stencil-plane", diffuse),
    ("top-four", |d, v| {
        by_row(d, v, "x", "y", |row| sorted(row).into_iter().rev().take(4).collect());
    }),
    ("transpose-padded", |d, v| {
        let (h, w) = (side(d, "h"), side(d, "w"));
        let y = (0..h * w).map(|i| v["x"][i % h * w + i / h]).collect();
        v.insert("y".to_owned(), y);
    }),
];

fn side(dims: &Scope, name: &str) -> usize {
    usize::try_from(dims[name]).unwrap()
}

/// Fills `to` with what `compute` makes of each row of `from`.
fn by_row(dims: &Scope, v: &mut Values, from: &str, to: &str, compute: impl FnMut(&[f64]) -> Vec<f64>) {
    let width = v[from].len() / side(dims, "rows");
    let filled: Vec<f64> = v[from].chunks(width).flat_map(compute).collect();
    v.insert(to.to_owned(), filled);
}

fn by_chunk(v: &mut Values, width: usize, compute: fn(&[f64]) -> Vec<f64>) {
    let y = v["x"].chunks(width).flat_map(compute).collect();
    v.insert("y".to_owned(), y);
}

fn sorted(row: &[f64]) -> Vec<f64> {
    let mut row = row.to_vec();
    row.sort_by(f64::total_cmp);
    row
}

fn argmax(row: &[f64]) -> usize {
    let best = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    row.iter().position(|x| *x == best).unwrap()
}

fn moments(row: &[f64]) -> (f64, f64) {
    let n = row.len() as f64;
    let mean = row.iter().sum::<f64>() / n;
    (mean, row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n)
}

/// The weighted sum around element `i`, zeros beyond the ends.
fn window(x: &[f64], i: usize, weights: &[f64]) -> f64 {
    let reach = weights.len() / 2;
    let at = |k: usize| (i + k).checked_sub(reach).and_then(|at| x.get(at)).copied().unwrap_or(0.0);
    weights.iter().enumerate().map(|(k, w)| w * at(k)).sum()
}

enum Second {
    ByRows,
    ByColumns,
}

fn product(d: &Scope, v: &mut Values, second: Second) {
    let (m, n, k) = (side(d, "m"), side(d, "n"), side(d, "k"));
    let element = |at: usize| {
        let (row, column) = (at / n, at % n);
        let b = |i: usize| match second {
            Second::ByRows => v["b"][i * n + column],
            Second::ByColumns => v["b"][column * k + i],
        };
        (0..k).map(|i| v["a"][row * k + i] * b(i)).sum()
    };
    let c = (0..m * n).map(element).collect();
    v.insert("c".to_owned(), c);
}

fn attention(_: &Scope, v: &mut Values) {
    let [q, k, values] =
        ["q", "k", "v"].map(|name| v[name].chunks(32).map(<[f64]>::to_vec).collect::<Vec<_>>());
    let one = |q: &Vec<f64>| {
        let dot = |k: &Vec<f64>| q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>() / 32_f64.sqrt();
        let weights: Vec<f64> = k.iter().map(|k| dot(k).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let feature = |f: usize| weights.iter().zip(&values).map(|(w, v)| w * v[f]).sum::<f64>() / sum;
        (0..32).map(feature).collect::<Vec<_>>()
    };
    let o = q.iter().flat_map(one).collect();
    v.insert("o".to_owned(), o);
}

fn batch_norm(d: &Scope, v: &mut Values) {
    let c = side(d, "c");
    let of: Vec<(f64, f64)> =
        (0..c).map(|j| moments(&v["x"].iter().copied().skip(j).step_by(c).collect::<Vec<_>>())).collect();
    let one = |(i, x): (usize, &f64)| (x - of[i % c].0) / (of[i % c].1 + 1e-5).sqrt();
    let y = v["x"].iter().enumerate().map(one).collect();
    v.insert("y".to_owned(), y);
}

/// Level 3 is unseen, level 1 is the frontier; unseen vertices become 2 if the frontier reaches them, else 0.
fn breadth_first(_: &Scope, v: &mut Values) {
    let level = &v["level"];
    let mut next: Vec<f64> = level.iter().map(|l| if *l == 3.0 { 0.0 } else { *l }).collect();
    for (from, out) in v["edges"].chunks(8).enumerate() {
        for to in out.iter().map(|to| *to as usize) {
            if level[from] == 1.0 && level[to] == 3.0 {
                next[to] = 2.0;
            }
        }
    }
    v.insert("next".to_owned(), next);
}

fn bodies(_: &Scope, v: &mut Values) {
    let bodies: Vec<&[f64]> = v["p"].chunks(4).collect();
    let one = |from: &&[f64]| {
        let mut sum = [0.0; 4];
        for to in &bodies {
            let apart: Vec<f64> = (0..3).map(|c| to[c] - from[c]).collect();
            let square = apart.iter().map(|x| x * x).sum::<f64>() + 0.01;
            (0..3).for_each(|c| sum[c] += to[3] * apart[c] / square.powf(1.5));
        }
        sum
    };
    let a = bodies.iter().flat_map(one).collect();
    v.insert("a".to_owned(), a);
}

fn convolution_plane(d: &Scope, v: &mut Values) {
    let (c, h, w, o) = (side(d, "c"), side(d, "h"), side(d, "w"), side(d, "o"));
    let x = |channel: usize, row: usize, column: usize| {
        // Rows and columns count from one, so that the rim of zeros is at 0 and behind the last.
        let inside = (1..=h).contains(&row) && (1..=w).contains(&column);
        if inside { v["x"][(channel * h + row - 1) * w + column - 1] } else { 0.0 }
    };
    let element = |at: usize| {
        let (out, row, column) = (at / (h * w), at / w % h, at % w);
        let tap = |i: usize| {
            let (channel, r, q) = (i / 9, i / 3 % 3, i % 3);
            v["f"][out * c * 9 + i] * x(channel, row + r, column + q)
        };
        (0..c * 9).map(tap).sum()
    };
    let y = (0..o * h * w).map(element).collect();
    v.insert("y".to_owned(), y);
}

/// The whole matrix of Wagner and Fischer.
fn edit_distance(a: &[f64], b: &[f64]) -> f64 {
    let mut d = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            d[i][j] = match (i, j) {
                (0, other) | (other, 0) => other,
                _ => {
                    let change = d[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    change.min(d[i - 1][j] + 1).min(d[i][j - 1] + 1)
                }
            };
        }
    }
    d[a.len()][b.len()] as f64
}

fn fourier(row: &[f64]) -> Vec<f64> {
    let n = row.len() / 2;
    let one = |f: usize| {
        let mut sum = [0.0, 0.0];
        for (t, x) in row.chunks(2).enumerate() {
            let angle = -std::f64::consts::TAU * ((f * t) % n) as f64 / n as f64;
            sum[0] += x[0] * angle.cos() - x[1] * angle.sin();
            sum[1] += x[0] * angle.sin() + x[1] * angle.cos();
        }
        sum
    };
    (0..n).flat_map(one).collect()
}

/// The normal distribution function: the power series of the error function near zero, the continued fraction of its
/// complement elsewhere (Abramowitz and Stegun 7.1.5 and 7.1.14).
fn normal_below(x: f64) -> f64 {
    let z = x.abs() / std::f64::consts::SQRT_2;
    let beyond = if z < 2.5 {
        let (mut term, mut sum) = (z, z);
        for k in 1..80 {
            term *= -z * z / f64::from(k);
            sum += term / f64::from(2 * k + 1);
        }
        1.0 - sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let fraction = (1..60).rev().fold(0.0, |rest, k| f64::from(k) / 2.0 / (z + rest));
        (-z * z).exp() / ((z + fraction) * std::f64::consts::PI.sqrt())
    };
    if x < 0.0 { beyond / 2.0 } else { 1.0 - beyond / 2.0 }
}

fn hash(row: &[f64]) -> u32 {
    let step = |h: u32, k: &f64| {
        let k = (*k as u32).wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (h ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    };
    let h = row.iter().fold(0x811c_9dc5, step);
    h ^ (h >> 16)
}

fn histogram(_: &Scope, v: &mut Values) {
    let mut h = vec![0.0; 64];
    v["x"].iter().for_each(|x| h[*x as usize] += 1.0);
    v.insert("h".to_owned(), h);
}

fn life(d: &Scope, v: &mut Values) {
    let (h, w) = (side(d, "h"), side(d, "w"));
    let one = |at: usize| {
        let (r, c) = (at / w, at % w);
        let cell = |dr: usize, dc: usize| v["x"][(r + dr + h - 1) % h * w + (c + dc + w - 1) % w];
        let all: f64 = (0..9).map(|i| cell(i / 3, i % 3)).sum();
        let around = all - cell(1, 1);
        f64::from(u8::from(around == 3.0 || (around == 2.0 && cell(1, 1) == 1.0)))
    };
    let y = (0..h * w).map(one).collect();
    v.insert("y".to_owned(), y);
}

fn max_pool(d: &Scope, v: &mut Values) {
    let (c, h, w) = (side(d, "c"), side(d, "h"), side(d, "w"));
    let (high, wide) = (h / 2, w / 2);
    let one = |at: usize| {
        let (k, p, q) = (at / (high * wide), at / wide % high, at % wide);
        let cell = |i: usize| v["x"][(k * h + 2 * p + i / 2) * w + 2 * q + i % 2];
        (0..4).map(cell).fold(f64::NEG_INFINITY, f64::max)
    };
    let y = (0..c * high * wide).map(one).collect();
    v.insert("y".to_owned(), y);
}

fn monte_carlo(d: &Scope, v: &mut Values) {
    // lowbias32 (Wellons).
    let mix = |mut v: u32| {
        v = (v ^ (v >> 16)).wrapping_mul(0x7feb_352d);
        v = (v ^ (v >> 15)).wrapping_mul(0x846c_a68b);
        v ^ (v >> 16)
    };
    let n = u32::try_from(side(d, "n")).unwrap();
    let inside = |seed: u32, i: u32| {
        let h = mix(seed.wrapping_add(i.wrapping_mul(0x9e37_79b9)));
        let [u, v] = [h & 0xffff, h >> 16].map(u64::from);
        u * u + v * v < 1 << 32
    };
    let count = |seed: &f64| (0..n).filter(|i| inside(*seed as u32, *i)).count() as f64;
    let y = v["seed"].iter().map(count).collect();
    v.insert("y".to_owned(), y);
}

/// Among all 127 finite magnitudes the nearest, of two equally near ones the even code.
fn quantise(_: &Scope, v: &mut Values) {
    let value = |code: u8| {
        let digits = f64::from(code & 7);
        match code >> 3 {
            0 => digits / 512.0,
            exponent => (8.0 + digits) * (f64::from(exponent) - 10.0).exp2(),
        }
    };
    let nearest = |x: &f64| {
        let apart = |code: u8| (value(code) - x.abs()).abs();
        let better = |best: u8, code: u8| {
            let closer = apart(code) < apart(best) || (apart(code) == apart(best) && code.is_multiple_of(2));
            if closer { code } else { best }
        };
        (0..=126u8).fold(0, better)
    };
    let codes: Vec<(f64, f64)> = v["x"]
        .iter()
        .map(|x| {
            let (code, sign) = (nearest(x), x.is_sign_negative());
            (f64::from(code) + if sign { 128.0 } else { 0.0 }, if sign { -value(code) } else { value(code) })
        })
        .collect();
    v.insert("code".to_owned(), codes.iter().map(|(code, _)| *code).collect());
    v.insert("y".to_owned(), codes.iter().map(|(_, value)| *value).collect());
}

fn rotate(row: &[f64], position: f64) -> Vec<f64> {
    let one = |(p, pair): (usize, &[f64])| {
        let (s, c) = (position * (-(p as f64) / 4.0).exp2()).sin_cos();
        [pair[0] * c - pair[1] * s, pair[0] * s + pair[1] * c]
    };
    row.chunks(2).enumerate().flat_map(one).collect()
}

fn diffuse(d: &Scope, v: &mut Values) {
    let (h, w) = (side(d, "h"), side(d, "w"));
    let x = &v["x"];
    let one = |i: usize| {
        let (r, c) = (i / w, i % w);
        if r == 0 || c == 0 || r == h - 1 || c == w - 1 {
            return x[i];
        }
        0.5 * x[i] + 0.125 * (x[i - 1] + x[i + 1] + x[i - w] + x[i + w])
    };
    let y = (0..h * w).map(one).collect();
    v.insert("y".to_owned(), y);
}

#[test]
fn the_normal_distribution_of_this_file_is_right_at_known_places() {
    // Abramowitz and Stegun, table 26.1.
    for (x, expected) in [
        (0.0, 0.5),
        (1.0, 0.841_344_746_068_543),
        (-2.0, 0.022_750_131_948_179),
        (4.0, 0.999_968_328_758_167),
    ] {
        assert!((normal_below(x) - expected).abs() < 1e-13, "{x}");
    }
}
