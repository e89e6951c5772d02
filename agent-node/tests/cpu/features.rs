//! What kernels may use beside arithmetic and barriers: variables, output, a heap, other headers, more intrinsics.

use crate::bench::{Bench, Given, bench_with, evaluate, floats, ints, launch};
use std::path::PathBuf;

fn both(check: impl Fn(&Bench)) {
    for compiler in ["/usr/bin/g++", "/usr/bin/clang++", "/usr/bin/clang++-19"] {
        if let Some(bench) = bench_with(&[PathBuf::from(compiler)]) {
            check(&bench);
        }
    }
}

#[test]
fn variables_of_the_source_begin_anew_with_every_launch_of_the_plan() {
    const SOURCE: &str = r#"
__device__ int launches = 7;
__device__ float table[5000];
__constant__ int steps[3] = {1, 2, 3};
extern "C" __global__ void k(int* y) {
  static int calls = 0;
  if (threadIdx.x == 0) {
    launches += steps[1];
    calls += 1;
    table[4999] += 1.f;
    y[0] = launches; y[1] = calls; y[2] = (int)table[4999];
  }
}"#;
    both(|bench| {
        let artefact = bench.compile(SOURCE, "k", None).unwrap();
        let mut worker = bench.worker(&artefact, crate::bench::PATIENT).unwrap();
        for _ in 0..3 {
            let out = evaluate(worker.as_mut(), "k", &launch(1, 32, vec![Given::Out(12)])).unwrap();
            assert_eq!(ints(&out[0]), [9, 1, 1]);
        }
        worker.finish();
    });
}

#[test]
fn output_is_bounded_and_decides_nothing() {
    const SOURCE: &str = r#"
#include <cstdio>
extern "C" __global__ void k(int* y) {
  for (int i = 0; i < 2000; ++i) printf("status: ok %d %s %f\n", i, "passed", 1.5f);
  y[threadIdx.x] = printf("%d\n", 42);
}"#;
    both(|bench| {
        let artefact = bench.compile(SOURCE, "k", None).unwrap();
        let mut worker = bench.worker(&artefact, crate::bench::PATIENT).unwrap();
        for _ in 0..20 {
            let out = evaluate(worker.as_mut(), "k", &launch(1, 2, vec![Given::Out(8)])).unwrap();
            assert_eq!(ints(&out[0]), [3, 3]);
        }
        worker.finish();
    });
}

#[test]
fn the_heap_of_kernels_is_bounded_and_returns_with_every_launch() {
    const SOURCE: &str = r#"
struct Node { int value; Node* next; };
extern "C" __global__ void k(int* y) {
  Node* list = nullptr;
  for (int i = 0; i < 10; ++i) list = new Node{i, list};
  int sum = 0;
  for (Node* at = list; at; at = at->next) sum += at->value;
  while (list) { Node* next = list->next; delete list; list = next; }
  y[0] = sum;
  char* big = (char*)malloc(6 << 20);
  y[1] = big != nullptr;
  big[(6 << 20) - 1] = 1;
  y[2] = malloc(6 << 20) != nullptr;
  y[3] = malloc(~(size_t)0) != nullptr;
  free(big);
}"#;
    both(|bench| {
        let artefact = bench.compile(SOURCE, "k", None).unwrap();
        let mut worker = bench.worker(&artefact, crate::bench::PATIENT).unwrap();
        for _ in 0..3 {
            let out = evaluate(worker.as_mut(), "k", &launch(1, 1, vec![Given::Out(16)])).unwrap();
            assert_eq!(ints(&out[0]), [45, 1, 0, 0]);
        }
        worker.finish();
    });
}

#[test]
fn headers_of_the_library_that_works_on_the_host_are_the_hosts_own() {
    const SOURCE: &str = r#"
#include <cuda/std/array>
#include <cuda/std/cstdint>
#include <cuda/std/limits>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/cmath>
#include <cuda/std/complex>
#include <cuda/std/functional>
#include <cuda/std/utility>
#include <cuda/std/atomic>
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <vector_types.h>
#include <math_constants.h>
#include <cuda_pipeline.h>
extern "C" __global__ void k(int* y) {
  __shared__ int staged[4];
  cuda::std::array<int, 3> a{1, 2, 3};
  cuda::std::tuple<int, float> t{4, 5.f};
  static_assert(cuda::std::is_same<cuda::std::int32_t, int>::value, "");
  y += 4 * threadIdx.x;
  y[0] = a[2] + cuda::std::get<0>(t) + (cuda::std::numeric_limits<int>::max() == 0x7fffffff);
  y[1] = (int)cuda::std::sqrt(16.f) + (int)cuda::std::complex<float>(3.f, 4.f).real() + (int)CUDART_PI_F;
  __pipeline_memcpy_async(staged, a.data(), 8, 0);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  y[2] = staged[0] + staged[1];
  __shared__ int counter;
  if (threadIdx.x == 0) counter = 0;
  __syncthreads();
  cuda::atomic_ref<int, cuda::thread_scope_block> ref(counter);
  ref.fetch_add(2, cuda::memory_order_relaxed);
  ref.fetch_max(1);
  __syncthreads();
  y[3] = ref.load();
}"#;
    both(|bench| {
        let out = bench.run(SOURCE, "k", &launch(1, 8, vec![Given::Out(128)])).unwrap();
        for row in ints(&out[0]).chunks(4) {
            assert_eq!(row, [8, 10, 3, 16]);
        }
    });
}

#[test]
fn a_thread_that_sleeps_lets_the_one_that_it_waits_for_run() {
    const SOURCE: &str = r#"
extern "C" __global__ void k(int* y) {
  __shared__ volatile int turn;
  if (threadIdx.x == 0) turn = 0;
  __syncthreads();
  int mine = blockDim.x - 1 - threadIdx.x;
  while (turn != mine) __nanosleep(100);
  y[mine] = threadIdx.x;
  turn = mine + 1;
}"#;
    both(|bench| {
        let out = bench.run(SOURCE, "k", &launch(2, 64, vec![Given::Out(256)])).unwrap();
        assert_eq!(ints(&out[0]), (0..64).rev().collect::<Vec<i32>>());
    });
}

#[test]
fn packed_and_wide_integer_intrinsics_are_right() {
    const SOURCE: &str = r#"
extern "C" __global__ void k(int* y) {
  int i = 0;
  y[i++] = __dp4a(0x01ff0304, 0x02020202, 1);
  y[i++] = (int)__dp4a(0xffu, 0xffu, 0u);
  y[i++] = __dp2a_lo(0x0003ffff, 0x00000201, 0);
  y[i++] = (int)__vadd4(0x01ff7f80u, 0x01010101u);
  y[i++] = (int)__vaddss4(0x7f80017fu, 0x01ff0101u);
  y[i++] = (int)__vcmpgtu2(0x00020001u, 0x00010001u);
  y[i++] = (int)__vsadu4(0x01020304u, 0x04030201u);
  y[i++] = (int)__vavgu2(0x00010003u, 0x00020004u);
  y[i++] = __mul24(-3, 5);
  y[i++] = (int)__umul24(0x1000003u, 5u);
  y[i++] = (int)(__umul64hi(1ull << 63, 6ull));
  y[i++] = __hadd(-3, 6);
  y[i++] = (int)__funnelshift_rc(1u, 2u, 40u);
  y[i++] = (int)__byte_perm(0x800000ffu, 0u, 0x8b30u);
  y[i++] = (int)__fns(0xf0u, 0u, 3);
  y[i++] = (int)__sad(-2, 5, 1u);
  y[i++] = __viaddmax_s32(1, 2, 4);
  y[i++] = __vimin3_s32_relu(-1, 2, 4);
  y[i++] = __float2int_rn(3e9f);
  y[i++] = __float2int_ru(-1.5f) + __float2int_rd(-1.5f) * 10;
  y[i++] = (int)(__float2ll_rz(1e12f) / 1000000);
  y[i++] = __double2hiint(1.0);
}"#;
    both(|bench| {
        let out = bench.run(SOURCE, "k", &launch(1, 1, vec![Given::Out(22 * 4)])).unwrap();
        let expected = [
            15,
            255 * 255,
            // -1 × 1 and 3 × 2.
            5,
            0x0200_8081,
            0x7f80_027f,
            0xffff_0000_u32 as i32,
            3 + 1 + 1 + 3,
            0x0002_0004,
            -15,
            15,
            3,
            1,
            2,
            0xffff_80ff_u32 as i32,
            6,
            8,
            4,
            0,
            i32::MAX,
            -1 - 20,
            999_999,
            0x3ff0_0000,
        ];
        for (at, (got, expected)) in ints(&out[0]).iter().zip(expected).enumerate() {
            assert_eq!(*got, expected, "result {at}: {got:#x}");
        }
    });
}

#[test]
fn functions_beyond_the_hosts_library_are_right_and_roundings_enclose() {
    const SOURCE: &str = r#"
extern "C" __global__ void k(float* y) {
  int i = 0;
  y[i++] = erfinvf(0.5f); y[i++] = erfcinvf(1e-20f); y[i++] = normcdfinvf(0.975f); y[i++] = normcdff(-3.f);
  y[i++] = erfcxf(30.f); y[i++] = sinpif(2.25f); y[i++] = cospif(1.5f); y[i++] = rcbrtf(8.f);
  y[i++] = cyl_bessel_i0f(1.f); y[i++] = cyl_bessel_i1f(1.f); y[i++] = norm3df(1.f, 2.f, 2.f); y[i++] = rhypotf(3.f, 4.f);
  y[i++] = rnorm4df(1.f, 1.f, 1.f, 1.f); y[i++] = exp10(2.f); y[i++] = (float)erfinv(0.999999); y[i++] = rsqrt(16.f);
  y[i++] = __fadd_ru(1.f, 1e-20f) - 1.f; y[i++] = 1.f - __fsub_rd(1.f, 1e-20f); y[i++] = __fadd_rz(1.f, 1e-20f) - 1.f;
  y[i++] = __fdiv_ru(1.f, 3.f) - __fdiv_rd(1.f, 3.f); y[i++] = __fsqrt_ru(2.f) - __fsqrt_rd(2.f);
  y[i++] = __fmul_rz(-3e38f, 3e38f); y[i++] = __uint2float_ru(16777217u); y[i++] = (float)(__dadd_ru(1.0, 1e-30) - 1.0);
}"#;
    both(|bench| {
        let out = bench.run(SOURCE, "k", &launch(1, 1, vec![Given::Out(24 * 4)])).unwrap();
        let (up, down) = (f64::from(f32::EPSILON), f64::from(f32::EPSILON) / 2.0);
        // Abramowitz and Stegun's tables, and closed forms.
        let expected = [
            0.476_936_276_204_47,
            6.601_580_622_355_143,
            1.959_963_984_540_054,
            0.001_349_898_031_630_095,
            0.018_795_888_861_416_75,
            0.5_f64.sqrt(),
            0.0,
            0.5,
            1.266_065_877_752_008,
            0.565_159_103_992_485,
            3.0,
            0.2,
            0.5,
            100.0,
            3.458_910_737_279_5,
            0.25,
            up,
            down,
            0.0,
            down / 2.0,
            up,
            -f64::from(f32::MAX),
            16_777_218.0,
            f64::EPSILON,
        ];
        for (at, (got, expected)) in floats(&out[0]).iter().zip(expected).enumerate() {
            let error = (f64::from(*got) - expected).abs();
            assert!(error <= 3e-7 * expected.abs(), "result {at}: {got:e} instead of {expected:e}");
        }
    });
}
