//! The CPU device on aarch64: compiled here by a cross compiler, and not run.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Debian: `apt-get install g++-aarch64-linux-gnu`.
const CROSS: &str = "/usr/bin/aarch64-linux-gnu-g++";
/// `EM_AARCH64`, the machine in the header of an ELF file (elf(5)), two bytes at 18.
const MACHINE: [u8; 2] = [183, 0];
/// What every compile for this architecture has (`agent-node/src/backend/cpu/toolchain.rs`).
const FLAGS: [&str; 8] = [
    "-march=armv8-a",
    "-std=gnu++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-strict-aliasing",
    "-pthread",
    "-w",
];

/// One of each: every header of the shim, and what of it has code of its own for this architecture.
const ALL_HEADERS: &str = r#"
#include <assert.h>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_pipeline.h>
#include <math_constants.h>
namespace cg = cooperative_groups;
extern "C" __global__ void all(float* x, __half* h, __nv_bfloat16* b, __nv_fp8_e4m3* q, int n) {
  __shared__ float s[256];
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : CUDART_INF_F;
  __syncthreads();
  float v = cg::reduce(tile, s[threadIdx.x], cg::plus<float>()) + __shfl_xor_sync(0xffffffffu, s[1], 1) + sqrtf(s[0]);
  if (i < n) { x[i] = __fmaf_rn(v, v, v); h[i] = __float2half(v); b[i] = __float2bfloat16(v); q[i] = __nv_fp8_e4m3(v); atomicAdd(x, 1.0f); }
  if (__any_sync(__activemask(), i == 0)) printf("%f at %d", v, i);
}
"#;

#[expect(clippy::disallowed_methods, reason = "the cross compiler is no child of a node")]
fn compile(source: &Path, folder: &Path, kind: u32, further: &[&str]) -> Output {
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backend/cpu/shim");
    let mut command = Command::new(CROSS);
    command.args(FLAGS).arg(format!("-DMUSTER_SCREEN={kind}")).arg("-I").arg(&shim).args(further);
    command.args(["-x", "c++", "-c"]).arg(source).arg("-o").arg(folder.join("object.o"));
    command.output().unwrap()
}

fn is_there() -> bool {
    let there = Path::new(CROSS).exists();
    if !there {
        let _said = writeln!(
            std::io::stderr().lock(),
            "\nSKIPPED: the CPU device on aarch64: no {CROSS}; apt-get install g++-aarch64-linux-gnu"
        );
    }
    there
}

#[track_caller]
fn assert_compiles(source: &Path, folder: &Path, kind: u32, further: &[&str]) {
    let output = compile(source, folder, kind, further);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} for screen {kind}: {said}", source.display());
    let object = fs::read(folder.join("object.o")).unwrap();
    assert_eq!(object[18..20], MACHINE, "{}", source.display());
}

#[test]
fn runtime_and_screens_compile_for_aarch64() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backend/cpu/shim");
    for (unit, kinds) in [("runtime.cpp", 0..4), ("screen_main.cpp", 1..4)] {
        kinds.for_each(|kind| assert_compiles(&shim.join(unit), folder.path(), kind, &["-O1", "-g"]));
    }
}

#[test]
fn candidates_and_their_screens_compile_for_aarch64() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let all = folder.path().join("all.cu");
    fs::write(&all, ALL_HEADERS).unwrap();
    let prelude = ["-include", "muster_cuda.h"];
    let with = |further: &[&'static str]| [prelude.as_slice(), further].concat();
    assert_compiles(&all, folder.path(), 0, &with(&["-O2"]));
    assert_compiles(&all, folder.path(), 1, &with(&["-O1", "-g", "-fsanitize=address,bounds"]));
    for kind in [2, 3] {
        assert_compiles(&all, folder.path(), kind, &with(&["-O1", "-g", "-fsanitize=thread"]));
    }
    let tasks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kernels");
    for task in ["argmax-rows", "attention-online", "axpy-half"] {
        let source: PathBuf = tasks.join(task).join("candidate.cu");
        assert_compiles(&source, folder.path(), 0, &with(&["-O1"]));
    }
    // What is of another machine is seen.
    fs::write(&all, "extern \"C\" void f() { asm volatile(\"movq %rax, %rbx\"); }\n").unwrap();
    let refused = compile(&all, folder.path(), 0, &["-O1"]);
    assert!(!refused.status.success());
}
