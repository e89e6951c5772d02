//! What the device refuses, told by reason, feature, file, line and hint; never a raw message of the compiler.

use crate::bench::{Bench, bench_with};
use fleet_config::domain::UnsupportedReason::{
    self, ElementType, Header, InlineAssembly, Library, MatrixUnit, NotImplementedHere,
};
use fleet_config::domain::{Blame, Status};
use std::path::PathBuf;

/// Line of the feature, reason, feature, source; the kernel begins on the line of `KERNEL`.
const REFUSED: &[(u32, UnsupportedReason, &str, &str)] = &[
    (1, InlineAssembly, "inline assembly", "KERNEL { asm volatile(\"bar.sync 0;\"); }"),
    (
        2,
        InlineAssembly,
        "inline assembly",
        "__device__ int lane() { int v;\n__asm__(\"mov.u32 %0, %laneid;\" : \"=r\"(v)); return v; }\nKERNEL { y[0] = lane(); }",
    ),
    (1, InlineAssembly, "cuda/ptx", "#include <cuda/ptx>\nKERNEL {}"),
    (1, MatrixUnit, "mma.h", "#include <mma.h>\nKERNEL { nvcuda::wmma::fill_fragment(n, 0); }"),
    (1, ElementType, "cuda_fp4.h", "#include <cuda_fp4.h>\nKERNEL {}"),
    (1, Header, "cuda/barrier", "#include <cuda/barrier>\nKERNEL {}"),
    (1, Header, "cuda/pipeline", "#include <cuda/pipeline>\nKERNEL {}"),
    (1, Header, "cuda/std/mdspan", "#include <cuda/std/mdspan>\nKERNEL {}"),
    (1, Header, "cuda/work_stealing", "#include <cuda/work_stealing>\nKERNEL {}"),
    (1, Header, "cuda.h", "#include <cuda.h>\nKERNEL {}"),
    (1, Library, "cub/cub.cuh", "#include <cub/cub.cuh>\nKERNEL {}"),
    (1, Library, "cub/warp/warp_scan.cuh", "#include <cub/warp/warp_scan.cuh>\nKERNEL {}"),
    (1, Library, "thrust/sort.h", "#include <thrust/sort.h>\nKERNEL {}"),
    (1, Library, "curand_kernel.h", "#include <curand_kernel.h>\nKERNEL {}"),
    (1, Library, "cublasdx.hpp", "#include <cublasdx.hpp>\nKERNEL {}"),
    (1, Library, "cudnn.h", "#include <cudnn.h>\nKERNEL {}"),
    (1, Library, "cutlass/gemm/gemm.h", "#include <cutlass/gemm/gemm.h>\nKERNEL {}"),
    (1, Library, "torch/extension.h", "#include <torch/extension.h>\nKERNEL {}"),
    (2, NotImplementedHere, "clock64", "KERNEL {\n  y[0] = clock64(); }"),
    (2, NotImplementedHere, "clock", "KERNEL {\n  y[0] = clock(); }"),
    (1, NotImplementedHere, "__managed__", "__device__ __managed__ int shared_with_host;\nKERNEL {}"),
    (
        1,
        NotImplementedHere,
        "__cluster_dims__",
        "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) f(float* y, int n) {}",
    ),
    (
        3,
        NotImplementedHere,
        "a launch in the source",
        "__global__ void child(float* y) {}\nKERNEL {\n  child<<<1, 32>>>(y); }",
    ),
    (
        3,
        NotImplementedHere,
        "the CUDA runtime interface",
        "KERNEL {}\nvoid host(float** y) {\n  cudaMalloc(y, 4); }",
    ),
    (
        1,
        NotImplementedHere,
        "textures and surfaces",
        "__device__ float at(cudaTextureObject_t t, int x);\nKERNEL {}",
    ),
    (2, NotImplementedHere, "textures and surfaces", "KERNEL {\n  y[0] = tex2D<float>(0ull, 1.f, 2.f); }"),
    (
        4,
        NotImplementedHere,
        "grid synchronisation",
        "#include <cooperative_groups.h>\nKERNEL {\n  auto grid = cooperative_groups::this_grid();\n  grid.sync(); }",
    ),
    (
        3,
        NotImplementedHere,
        "thread block clusters",
        "#include <cooperative_groups.h>\nKERNEL {\n  auto c = cooperative_groups::this_cluster(); }",
    ),
    (
        4,
        NotImplementedHere,
        "tiles of more than a warp",
        "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\nKERNEL {\n  auto t = cg::tiled_partition<64>(cg::this_thread_block()); t.sync(); }",
    ),
    (2, NotImplementedHere, "__shfl_down", "KERNEL {\n  y[0] = __shfl_down(n, 1); }"),
    (2, NotImplementedHere, "__ballot", "KERNEL {\n  y[0] = __ballot(n); }"),
    (2, NotImplementedHere, "__not_yet_known", "KERNEL {\n  y[0] = __not_yet_known(n); }"),
];

fn check(bench: &Bench) {
    for (line, reason, feature, source) in REFUSED {
        let text = source.replace("KERNEL", "extern \"C\" __global__ void f(float* y, int n)");
        let Err(failure) = bench.compile(&text, "f", None) else { panic!("compiled: {text}") };
        let log = String::from_utf8_lossy(failure.log.as_deref().unwrap_or(b"")).into_owned();
        let outcome = &failure.outcome;
        assert_eq!(outcome.status, Status::UnsupportedOnDevice, "{text}\n{outcome:?}\n{log}");
        assert_eq!(outcome.blame, Blame::Device);
        assert!(!outcome.hint.is_empty(), "{text}");
        let cause = outcome.cause.as_ref().unwrap();
        assert_eq!(cause.unsupported, Some(*reason), "{text}\n{}", cause.message);
        assert_eq!(cause.vendor_code.as_deref(), Some(*feature), "{text}");
        let place = cause.source.as_ref().unwrap_or_else(|| panic!("no place: {text}\n{log}"));
        assert_eq!((place.file.as_str(), place.line), ("kernels/cand.cu", *line), "{text}\n{log}");
        assert!(
            cause.message.contains(feature) && !cause.message.contains("No such file"),
            "{}",
            cause.message
        );
    }
}

#[test]
fn every_refusal_names_its_reason_feature_place_and_hint() {
    for compiler in ["/usr/bin/g++", "/usr/bin/clang++", "/usr/bin/clang++-19"] {
        if let Some(bench) = bench_with(&[PathBuf::from(compiler)]) {
            check(&bench);
        }
    }
}

#[test]
fn a_header_that_the_source_left_out_is_its_own_mistake() {
    for compiler in ["/usr/bin/g++", "/usr/bin/clang++"] {
        let Some(bench) = bench_with(&[PathBuf::from(compiler)]) else { continue };
        for source in ["__global__ void f(__half* y) {}", "__global__ void f(float* y) { undefined(y); }"] {
            let failure = bench.compile(source, "f", None).unwrap_err();
            assert_eq!(failure.outcome.status, Status::CompileError, "{source}");
        }
    }
}
