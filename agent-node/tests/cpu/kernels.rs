//! Right kernels against a computation in double precision here.

use crate::bench::{
    Bench, Given, Launch, PATIENT, bench, bench_with, bytes, floats, input, ints, launch, output, ramp,
};
use std::path::PathBuf;

/// Compares with a relative bound of a few roundings; NaN, as from poison, fails.
fn close(got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(*got) - expected).abs();
        assert!(error <= 1e-5 + 1e-5 * expected.abs(), "element {index}: {got} instead of {expected}");
    }
}

fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

const SAXPY: &str = r#"extern "C" __global__ void saxpy(const float* __restrict__ x, const float* y, float* z, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = a * x[i] + y[i];
}"#;

fn saxpy(bench: &Bench) {
    let (x, n) = (ramp(1000), 1000);
    let given = vec![input(&x), input(&x), output(n), Given::Float(2.5), Given::Int(1000)];
    let out = bench.run(SAXPY, "saxpy", &launch(8, 128, given)).unwrap();
    close(&floats(&out[2]), &doubles(&x).iter().map(|v| 2.5 * v + v).collect::<Vec<_>>());
    assert_eq!(out[0], bytes(&x));
}

#[test]
fn saxpy_is_right() {
    let Some(bench) = bench() else { return };
    saxpy(&bench);
}

#[test]
fn clang_compiles_the_shim_too() {
    let Some(bench) = bench_with(&[PathBuf::from("/usr/bin/clang++")]) else { return };
    saxpy(&bench);
    tiled_matmul(&bench);
}

fn tiled_matmul(bench: &Bench) -> Vec<u8> {
    const SOURCE: &str = r#"
#define T 16
extern "C" __global__ void mm(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[T][T], bs[T][T + 1];
  int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
  float sum = 0.f;
  for (int t = 0; t < (k + T - 1) / T; ++t) {
    as[threadIdx.y][threadIdx.x] = row < m && t * T + threadIdx.x < k ? a[row * k + t * T + threadIdx.x] : 0.f;
    bs[threadIdx.y][threadIdx.x] = col < n && t * T + threadIdx.y < k ? b[(t * T + threadIdx.y) * n + col] : 0.f;
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < T; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}"#;
    let (m, n, k) = (31usize, 37usize, 29usize);
    let (a, b) = (ramp(m * k), ramp(k * n));
    let mut expected = vec![0f64; m * n];
    for (index, out) in expected.iter_mut().enumerate() {
        let (row, col) = (index / n, index % n);
        *out = (0..k).map(|i| f64::from(a[row * k + i]) * f64::from(b[i * n + col])).sum();
    }
    let arguments = vec![input(&a), input(&b), output(m * n), Given::Int(31), Given::Int(37), Given::Int(29)];
    let shape = Launch { grid: [3, 2, 1], block: [16, 16, 1], shared_bytes: 0, arguments, limit: PATIENT };
    let out = bench.run(SOURCE, "mm", &shape).unwrap();
    let got = floats(&out[2]);
    for (got, expected) in got.iter().zip(&expected) {
        assert!((f64::from(*got) - expected).abs() < 1e-2, "{got} instead of {expected}");
    }
    out[2].clone()
}

#[test]
fn tiled_matmul_is_right_and_equal_to_the_bit_on_two_levels() {
    let Some(mut bench) = bench() else { return };
    let mut outputs = Vec::new();
    for level in ["cpu:x86-64-v2", "cpu:x86-64-v3"] {
        let level = level.parse().unwrap();
        if agent_node::backend::cpu::is_host(&level) {
            bench.architecture = level;
            outputs.push(tiled_matmul(&bench));
        }
    }
    if outputs.is_empty() {
        outputs.push(tiled_matmul(&bench));
    }
    assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]), "the levels differ");
}

#[test]
fn reduction_in_dynamic_shared_memory_is_right() {
    const SOURCE: &str = r#"
extern __shared__ float s[];
extern "C" __global__ void sum(const float* x, float* y) {
  extern __shared__ float s[];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * blockDim.x + t];
  __syncthreads();
  for (int k = blockDim.x / 2; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
  if (t == 0) y[blockIdx.x] = s[0];
}"#;
    let Some(bench) = bench() else { return };
    let x = ramp(4 * 256);
    let mut shape = launch(4, 256, vec![input(&x), output(4)]);
    shape.shared_bytes = 1024;
    let out = bench.run(SOURCE, "sum", &shape).unwrap();
    let expected: Vec<f64> = x.chunks(256).map(|chunk| doubles(chunk).iter().sum()).collect();
    for (got, expected) in floats(&out[1]).iter().zip(expected) {
        assert!((f64::from(*got) - expected).abs() < 1e-2, "{got} instead of {expected}");
    }
}

#[test]
fn shuffles_with_width_and_votes_are_right() {
    const SOURCE: &str = r#"
extern "C" __global__ void warp(const int* x, int* y) {
  int t = threadIdx.x;
  int v = x[t];
  int down = v;
  for (int o = 16; o; o >>= 1) down += __shfl_down_sync(0xffffffffu, down, o);
  down = __shfl_sync(0xffffffffu, down, 0);
  int scan = v;
  for (int o = 1; o < 8; o <<= 1) { int w = __shfl_up_sync(0xffffffffu, scan, o, 8); if ((t & 7) >= o) scan += w; }
  int pair = __shfl_xor_sync(0xffffffffu, v, 1);
  unsigned odd = __ballot_sync(0xffffffffu, v & 1);
  int any = __any_sync(0xffffffffu, v == x[t]), all = __all_sync(0xffffffffu, (t & 31) < 31);
  int upper = -1;
  if (t & 16) upper = __shfl_sync(0xffff0000u, v, 16);
  __syncwarp();
  y[t * 6] = down; y[t * 6 + 1] = scan; y[t * 6 + 2] = pair;
  y[t * 6 + 3] = (int)odd; y[t * 6 + 4] = any * 2 + all; y[t * 6 + 5] = upper;
}"#;
    let Some(bench) = bench() else { return };
    let x: Vec<i32> = (0..64).map(|i| (i * 7 + 3) % 23).collect();
    let raw: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    let out = bench.run(SOURCE, "warp", &launch(1, 64, vec![Given::In(raw), Given::Out(64 * 24)])).unwrap();
    let got = ints(&out[1]);
    for t in 0..64usize {
        let warp = &x[t / 32 * 32..t / 32 * 32 + 32];
        let odd = warp.iter().enumerate().fold(0u32, |mask, (lane, v)| mask | ((*v as u32 & 1) << lane));
        let expected = [
            warp.iter().sum(),
            x[t / 8 * 8..=t].iter().sum(),
            x[t ^ 1],
            odd as i32,
            2,
            if t & 16 == 0 { -1 } else { warp[16] },
        ];
        assert_eq!(got[t * 6..t * 6 + 6], expected, "thread {t}");
    }
}

#[test]
fn histogram_with_atomics_in_shared_and_global_memory_is_right() {
    const SOURCE: &str = r#"
extern "C" __global__ void hist(const int* x, unsigned* h, float* total, int n) {
  __shared__ unsigned s[16];
  if (threadIdx.x < 16) s[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[x[i]], 1u);
  __syncthreads();
  if (threadIdx.x < 16) { atomicAdd(&h[threadIdx.x], s[threadIdx.x]); atomicAdd(total, (float)s[threadIdx.x]); atomicMax((int*)&h[16], (int)s[threadIdx.x]); }
}"#;
    let Some(bench) = bench() else { return };
    let x: Vec<i32> = (0..5000).map(|i| (i * i + 3 * i) % 16).collect();
    let raw: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    let arguments =
        vec![Given::In(raw), Given::Inout(vec![0; 68]), Given::Inout(vec![0; 4]), Given::Int(5000)];
    let out = bench.run(SOURCE, "hist", &launch(6, 96, arguments)).unwrap();
    let mut expected = [0i32; 16];
    x.iter().for_each(|v| expected[*v as usize] += 1);
    assert_eq!(ints(&out[1])[..16], expected);
    assert_eq!(floats(&out[2]), [5000.0]);
    assert!(ints(&out[1])[16] > 0);
}

#[test]
fn vectors_of_four_are_copied_whole() {
    const SOURCE: &str = r#"
extern "C" __global__ void copy(const float4* x, float4* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float4 v = __ldg(&x[i]); y[i] = make_float4(v.w, v.z, v.y, v.x); }
}"#;
    let Some(bench) = bench() else { return };
    let x = ramp(400);
    let out =
        bench.run(SOURCE, "copy", &launch(2, 64, vec![input(&x), output(400), Given::Int(100)])).unwrap();
    let expected: Vec<f32> = x.chunks(4).flat_map(|c| c.iter().rev().copied().collect::<Vec<_>>()).collect();
    assert_eq!(floats(&out[1]), expected);
}

#[test]
fn a_template_kernel_in_a_namespace_is_launched_by_its_instance() {
    const SOURCE: &str = r#"
#include "task.h"
namespace ours {
template <class T> struct Scale { T by; __device__ T operator()(T v) const { return v * by; } };
template <class T, int N> __global__ void apply(const T* x, T* y, int n) {
  auto f = Scale<T>{T(N)};
  auto shifted = [&](T v) { return f(v) + T(FROM_TASK); };
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = shifted(x[i]);
}
}"#;
    let Some(bench) = bench() else { return };
    let x = ramp(100);
    let out = bench
        .run(SOURCE, "ours::apply<float, 4>", &launch(1, 32, vec![input(&x), output(100), Given::Int(100)]))
        .unwrap();
    close(&floats(&out[1]), &doubles(&x).iter().map(|v| 4.0 * v + 3.0).collect::<Vec<_>>());
}

#[test]
fn transpose_on_a_grid_of_two_dimensions_is_right() {
    const SOURCE: &str = r#"
extern "C" __global__ void __launch_bounds__(256) transpose(const float* x, float* y, int w, int h) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) if (c < w && r + j < h) tile[threadIdx.y + j][threadIdx.x] = x[(r + j) * w + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x; r = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) if (c < h && r + j < w) y[(r + j) * h + c] = tile[threadIdx.x][threadIdx.y + j];
}"#;
    let Some(bench) = bench() else { return };
    let (w, h) = (70usize, 45usize);
    let x = ramp(w * h);
    let arguments = vec![input(&x), output(w * h), Given::Int(70), Given::Int(45)];
    let shape = Launch { grid: [3, 2, 1], block: [32, 8, 1], shared_bytes: 0, arguments, limit: PATIENT };
    let got = floats(&bench.run(SOURCE, "transpose", &shape).unwrap()[1]);
    let expected: Vec<f32> = (0..w * h).map(|i| x[i % h * w + i / h]).collect();
    assert_eq!(got, expected);
}

#[test]
fn softmax_rows_sum_to_one() {
    const SOURCE: &str = r#"
__device__ __forceinline__ float warp_max(float v) { for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o)); return v; }
__device__ __noinline__ float warp_sum(float v) { for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o); return v; }
extern "C" __global__ void softmax(const float* x, float* y, int cols) {
  __shared__ float part[8];
  int t = threadIdx.x; const float* r = x + blockIdx.x * cols; float* o = y + blockIdx.x * cols;
  float m = -INFINITY, z = 0.f;
  for (int c = t; c < cols; c += blockDim.x) m = max(m, r[c]);
  m = warp_max(m); if ((t & 31) == 0) part[t / 32] = m; __syncthreads();
  m = part[0]; for (int i = 1; i < blockDim.x / 32; ++i) m = max(m, part[i]); __syncthreads();
  for (int c = t; c < cols; c += blockDim.x) z += __expf(r[c] - m);
  z = warp_sum(z); if ((t & 31) == 0) part[t / 32] = z; __syncthreads();
  z = 0.f; for (int i = 0; i < blockDim.x / 32; ++i) z += part[i];
  for (int c = t; c < cols; c += blockDim.x) o[c] = __fdividef(__expf(r[c] - m), z);
}"#;
    let Some(bench) = bench() else { return };
    let x = ramp(3 * 500);
    let out = bench
        .run(SOURCE, "softmax", &launch(3, 128, vec![input(&x), output(1500), Given::Int(500)]))
        .unwrap();
    let mut expected = Vec::new();
    for row in x.chunks(500) {
        let exp: Vec<f64> = doubles(row).iter().map(|v| v.exp()).collect();
        let sum: f64 = exp.iter().sum();
        expected.extend(exp.iter().map(|v| v / sum));
    }
    close(&floats(&out[1]), &expected);
}

#[test]
fn threads_that_return_early_do_not_hold_up_a_barrier() {
    const SOURCE: &str = r#"
extern "C" __global__ void early(float* y, int n) {
  int t = threadIdx.x;
  if (t >= n) return;
  __shared__ float s[64];
  s[t] = t; __syncthreads();
  y[t] = s[n - 1 - t] + __syncthreads_count(t % 2);
}"#;
    let Some(bench) = bench() else { return };
    let out = bench.run(SOURCE, "early", &launch(1, 64, vec![output(40), Given::Int(40)])).unwrap();
    let expected: Vec<f32> = (0..40).map(|t| (39 - t + 20) as f32).collect();
    assert_eq!(floats(&out[0]), expected);
}

#[test]
fn integer_intrinsics_are_right() {
    const SOURCE: &str = r#"
extern "C" __global__ void bits(int* y) {
  y[0] = __popc(0xf0f0u); y[1] = __clz(1); y[2] = __ffs(8); y[3] = (int)__brev(1u); y[4] = __float_as_int(1.0f);
  y[5] = __mulhi(1 << 20, 1 << 20); y[6] = min(-1, 2); y[7] = max(3u, 2); y[8] = (int)(10.f * __saturatef(7.f));
  y[9] = __byte_perm(0x33221100, 0x77665544, 0x7401); y[10] = __float2int_rn(2.5f); y[11] = __clz(0);
  dim3 d(4, 2); y[12] = d.x * d.y * d.z; y[13] = (int)(rsqrtf(4.f) * 8.f); y[14] = warpSize;
}"#;
    let Some(bench) = bench() else { return };
    let out = bench.run(SOURCE, "bits", &launch(1, 1, vec![Given::Out(60)])).unwrap();
    let one = 1.0f32.to_bits() as i32;
    let expected = [8, 31, 4, i32::MIN, one, 256, -1, 3, 10, 0x7744_0011, 2, 32, 8, 4, 32];
    assert_eq!(ints(&out[0]), expected);
}
