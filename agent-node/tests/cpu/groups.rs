//! Votes, matches and reductions of a warp, and cooperative groups, against what each lane should see.

use crate::bench::{Bench, Given, bench_with, ints, launch};
use fleet_config::domain::FaultKind;
use std::path::PathBuf;

fn both(check: impl Fn(&Bench)) {
    for compiler in ["/usr/bin/g++", "/usr/bin/clang++"] {
        if let Some(bench) = bench_with(&[PathBuf::from(compiler)]) {
            check(&bench);
        }
    }
}

fn raw(values: &[i32]) -> Given {
    Given::In(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// Runs `source` on one block over `x`; `per_thread` integers of each thread.
fn run(bench: &Bench, source: &str, x: &[i32], per_thread: usize) -> Vec<Vec<i32>> {
    let given = vec![raw(x), Given::Out(x.len() * per_thread * 4)];
    let out = bench.run(source, "k", &launch(1, x.len() as u64, given)).unwrap();
    ints(&out[1]).chunks_exact(per_thread).map(<[i32]>::to_vec).collect()
}

/// Lanes of `t`'s warp for which `holds`.
fn lanes(x: &[i32], t: usize, holds: impl Fn(usize) -> bool) -> i32 {
    let first = t / 32 * 32;
    (first..(first + 32).min(x.len())).filter(|u| holds(*u)).fold(0u32, |mask, u| mask | 1 << (u - first))
        as i32
}

#[test]
fn matches_and_reductions_see_the_lanes_of_their_mask() {
    const SOURCE: &str = r#"
extern "C" __global__ void k(const int* x, int* y) {
  int t = threadIdx.x, v = x[t];
  unsigned full = __activemask();
  y += t * 10;
  y[0] = (int)full; y[1] = (int)__match_any_sync(full, v);
  int all; y[2] = (int)__match_all_sync(full, v > -100, &all); y[3] = all;
  y[4] = __reduce_add_sync(full, v); y[5] = __reduce_min_sync(full, v); y[6] = __reduce_max_sync(full, v);
  y[7] = (int)__reduce_xor_sync(full, (unsigned)v);
  y[8] = -1; y[9] = -1;
  if (v & 1) {
    unsigned odd = __activemask();
    y[8] = (int)odd;
    y[9] = __reduce_add_sync(odd, 1);
  } else {
    y[8] = (int)__activemask();
  }
}"#;
    both(|bench| {
        // The second warp is not full.
        let x: Vec<i32> = (0..50).map(|t| (t * t + 3 * t) % 7 - (t % 2) * 2).collect();
        for (t, got) in run(bench, SOURCE, &x, 10).iter().enumerate() {
            let warp: Vec<i32> = x[t / 32 * 32..(t / 32 * 32 + 32).min(x.len())].to_vec();
            let full = lanes(&x, t, |_| true);
            let odd = |u: usize| x[u] & 1 == 1;
            let same = lanes(&x, t, |u| odd(u) == odd(t));
            let count = if odd(t) { same.count_ones() as i32 } else { -1 };
            let expected = [
                full,
                lanes(&x, t, |u| x[u] == x[t]),
                full,
                1,
                warp.iter().sum(),
                *warp.iter().min().unwrap(),
                *warp.iter().max().unwrap(),
                warp.iter().fold(0, |a, b| a ^ b),
                same,
                count,
            ];
            assert_eq!(got[..], expected, "thread {t}");
        }
    });
}

#[test]
fn tiles_count_and_exchange_inside_themselves() {
    const SOURCE: &str = r#"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const int* x, int* y) {
  cg::thread_block block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto eight = cg::tiled_partition<8>(warp);
  int t = block.thread_rank(), v = x[t];
  y += t * 10;
  y[0] = cg::reduce(eight, v, cg::plus<int>());
  y[1] = cg::inclusive_scan(eight, v); y[2] = cg::exclusive_scan(eight, v);
  y[3] = eight.shfl(v, 3); y[4] = eight.shfl_down(v, 2); y[5] = eight.shfl_xor(v, 1);
  y[6] = (int)eight.ballot(v & 1); y[7] = eight.meta_group_rank() * 10 + eight.meta_group_size();
  y[8] = cg::reduce(warp, v, [](int a, int b) { return a > b ? a : b; });
  y[9] = eight.thread_rank() + (eight.any(v == 0) ? 100 : 0) + (eight.all(v >= 0) ? 1000 : 0);
  block.sync();
}"#;
    both(|bench| {
        let x: Vec<i32> = (0..64).map(|t| (t * 29 + 5) % 17 - 4).collect();
        for (t, got) in run(bench, SOURCE, &x, 10).iter().enumerate() {
            let (first, rank) = (t / 8 * 8, t % 8);
            let tile = &x[first..first + 8];
            let expected = [
                tile.iter().sum(),
                tile[..=rank].iter().sum(),
                tile[..rank].iter().sum(),
                tile[3],
                if rank + 2 < 8 { tile[rank + 2] } else { tile[rank] },
                tile[rank ^ 1],
                (0..8).filter(|r| tile[*r] & 1 == 1).fold(0, |mask, r| mask | 1 << r),
                (t as i32 % 32 / 8) * 10 + 4,
                *x[t / 32 * 32..t / 32 * 32 + 32].iter().max().unwrap(),
                rank as i32
                    + if tile.contains(&0) { 100 } else { 0 }
                    + if tile.iter().all(|v| *v >= 0) { 1000 } else { 0 },
            ];
            assert_eq!(got[..], expected, "thread {t}");
        }
    });
}

#[test]
fn coalesced_and_partitioned_groups_rank_their_own_lanes() {
    const SOURCE: &str = r#"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const int* x, int* y) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int t = threadIdx.x, v = x[t];
  y += t * 8;
  for (int i = 0; i < 8; ++i) y[i] = -1;
  if (v > 4) {
    cg::coalesced_group g = cg::coalesced_threads();
    y[0] = g.size() * 100 + g.thread_rank();
    y[1] = g.shfl(v, 0);
    y[2] = cg::reduce(g, v, cg::greater<int>());
    y[3] = g.shfl_up(v, 1);
  }
  auto sides = cg::binary_partition(warp, v & 1);
  y[4] = sides.size() * 100 + sides.thread_rank();
  auto kinds = cg::labeled_partition(warp, v % 3);
  y[5] = cg::reduce(kinds, 1, cg::plus<int>()); y[6] = kinds.meta_group_size();
  auto pairs = cg::tiled_partition(kinds, 2);
  y[7] = pairs.size() * 100 + pairs.thread_rank();
}"#;
    both(|bench| {
        let x: Vec<i32> = (0..32).map(|t| (t * 7 + t * t) % 11).collect();
        let all: Vec<usize> = (0..32).collect();
        for (t, got) in run(bench, SOURCE, &x, 8).iter().enumerate() {
            let group = |holds: &dyn Fn(usize) -> bool| -> Vec<usize> {
                all.iter().copied().filter(|u| holds(*u)).collect()
            };
            let place =
                |group: &[usize]| (group.len() * 100 + group.iter().position(|u| *u == t).unwrap()) as i32;
            let mut expected = vec![-1; 8];
            let big = group(&|u| x[u] > 4);
            if x[t] > 4 {
                let rank = big.iter().position(|u| *u == t).unwrap();
                expected[0] = place(&big);
                expected[1] = x[big[0]];
                expected[2] = *big.iter().map(|u| &x[*u]).max().unwrap();
                expected[3] = x[big[rank.saturating_sub(1)]];
            }
            expected[4] = place(&group(&|u| x[u] & 1 == x[t] & 1));
            let kind = group(&|u| x[u] % 3 == x[t] % 3);
            expected[5] = kind.len() as i32;
            expected[6] = (0..3).filter(|k| x.iter().any(|v| v % 3 == *k)).count() as i32;
            let rank = kind.iter().position(|u| *u == t).unwrap();
            let pair: Vec<usize> = kind.iter().copied().skip(rank / 2 * 2).take(2).collect();
            expected[7] = place(&pair);
            assert_eq!(*got, expected, "thread {t}");
        }
    });
}

#[test]
fn the_active_lanes_of_a_loop_are_those_that_still_turn() {
    const SOURCE: &str = r#"
extern "C" __global__ void k(const int* x, int* y) {
  int seen = 0;
  for (int i = 0; i < x[threadIdx.x]; ++i) seen += __popc(__activemask());
  if (x[threadIdx.x] == 1) seen += 1000 * __popc(__activemask());
  __syncthreads();
  y[threadIdx.x] = seen;
}"#;
    both(|bench| {
        let x: Vec<i32> = (0..40).map(|t| 1 + t % 5).collect();
        for (t, got) in run(bench, SOURCE, &x, 1).iter().enumerate() {
            let turning = |turn: i32| lanes(&x, t, |u| x[u] > turn).count_ones() as i32;
            let alone = if x[t] == 1 { 1000 * lanes(&x, t, |u| x[u] == 1).count_ones() as i32 } else { 0 };
            assert_eq!(got[0], (0..x[t]).map(turning).sum::<i32>() + alone, "thread {t}");
        }
    });
}

#[test]
fn collectives_under_wrong_masks_are_named() {
    const HEAD: &str = "extern \"C\" __global__ void k(const int* x, int* y) {\n";
    let cases = [
        (
            "if (threadIdx.x < 4) y[threadIdx.x] = __reduce_add_sync(0xf0u, x[0]); }",
            FaultKind::BarrierDivergence,
        ),
        (
            "if (threadIdx.x < 4) y[0] = __match_any_sync(0xffu, x[0]); else __syncthreads(); }",
            FaultKind::BarrierDivergence,
        ),
    ];
    both(|bench| {
        for (body, kind) in cases {
            let given = vec![raw(&[0; 32]), Given::Out(128)];
            let failure = bench.run(&format!("{HEAD}{body}"), "k", &launch(1, 32, given)).unwrap_err();
            let cause = failure.outcome.cause.as_ref().unwrap();
            assert_eq!(cause.fault, Some(kind), "{body}\n{:?}", failure.outcome);
            assert_eq!(cause.source.as_ref().map(|place| place.line), Some(2), "{body}");
        }
    });
}
