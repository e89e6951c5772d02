//! The embedded shim: headers and runtime as text, written into a folder of the node for the compiler to read.

use fleet_config::domain::Digest;
use std::fs;
use std::io;
use std::path::Path;

/// Force-included before every candidate.
pub(super) const PRELUDE: &str = "muster_cuda.h";
/// Compiled once per toolchain and linked into every artefact.
pub(super) const RUNTIME: &str = "runtime.cpp";

/// The program around a candidate that is built with a sanitizer.
pub(super) const SCREEN_MAIN: &str = "screen_main.cpp";

/// A header of the shim by the name under which it is included.
macro_rules! header {
    ($name:literal) => {
        ($name, include_str!(concat!("shim/", $name)))
    };
}

const FILES: &[(&str, &str)] = &[
    (PRELUDE, include_str!("shim/muster_cuda.h")),
    header!("muster_types.h"),
    header!("muster_warp.h"),
    header!("muster_atomic.h"),
    header!("muster_rounding.h"),
    header!("muster_float.h"),
    header!("muster_math.h"),
    header!("muster_integer.h"),
    header!("muster_simd.h"),
    header!("muster_refused.h"),
    header!("muster_narrow.h"),
    header!("muster_narrow_types.h"),
    header!("muster_narrow_scalar.h"),
    header!("muster_narrow_pair.h"),
    header!("muster_narrow_names.h"),
    header!("muster_groups.h"),
    header!("muster_state.h"),
    header!("cooperative_groups.h"),
    header!("cooperative_groups/functional.h"),
    header!("cooperative_groups/memcpy_async.h"),
    header!("cooperative_groups/reduce.h"),
    header!("cooperative_groups/scan.h"),
    header!("cuda/atomic"),
    header!("cuda/muster_scope.h"),
    header!("cuda_bf16.h"),
    header!("cuda_fp16.h"),
    header!("cuda_fp8.h"),
    header!("cuda_pipeline.h"),
    ("cuda_pipeline_primitives.h", include_str!("shim/cuda_pipeline.h")),
    header!("math_constants.h"),
    header!("assert.h"),
    header!("sanitizer_hooks.h"),
    (RUNTIME, include_str!("shim/runtime.cpp")),
    (SCREEN_MAIN, include_str!("shim/screen_main.cpp")),
];

/// Headers of CUDA whose contents are in the prelude.
const IN_PRELUDE: &[&str] = &[
    "builtin_types.h",
    "cuda_device_runtime_api.h",
    "cuda_runtime.h",
    "cuda_runtime_api.h",
    "device_atomic_functions.h",
    "device_functions.h",
    "device_launch_parameters.h",
    "device_types.h",
    "driver_types.h",
    "host_defines.h",
    "math_functions.h",
    "sm_20_intrinsics.h",
    "sm_30_intrinsics.h",
    "sm_32_intrinsics.h",
    "sm_35_intrinsics.h",
    "vector_functions.h",
    "vector_types.h",
];

/// Headers of `cuda::std` that are the host's own under another name.
const STANDARD: &[&str] = &[
    "algorithm",
    "array",
    "atomic",
    "bit",
    "cassert",
    "cfloat",
    "climits",
    "cmath",
    "complex",
    "cstddef",
    "cstdint",
    "cstdlib",
    "cstring",
    "functional",
    "initializer_list",
    "iterator",
    "limits",
    "numeric",
    "optional",
    "ratio",
    "span",
    "string_view",
    "tuple",
    "type_traits",
    "utility",
    "variant",
];

/// Headers that a candidate may ask for and that this device refuses: name, reason, hint. They stand in front of a
/// toolkit that the machine may have, whose headers a host compiler cannot read. Headers that are not named here and
/// do not exist are told apart by their names in the log.
const REFUSED_HEADERS: &[(&str, &str, &str)] = &[
    ("mma.h", "matrix_unit", NVIDIA),
    ("crt/mma.h", "matrix_unit", NVIDIA),
    ("cuda_fp4.h", "element_type", NVIDIA),
    ("cuda_fp6.h", "element_type", NVIDIA),
    ("cuda/annotated_ptr", "header", NVIDIA),
    ("cuda/barrier", "header", BLOCK),
    ("cuda/latch", "header", BLOCK),
    ("cuda/pipeline", "header", BLOCK),
    ("cuda/semaphore", "header", BLOCK),
    ("cuda/std/barrier", "header", BLOCK),
    ("cuda/std/latch", "header", BLOCK),
    ("cuda/std/semaphore", "header", BLOCK),
    ("cuda/std/mdspan", "header", NVIDIA),
    ("cuda/std/chrono", "header", NVIDIA),
    ("cuda/ptx", "inline_assembly", NVIDIA),
    ("cuda_texture_types.h", "header", NVIDIA),
    ("cuda.h", "header", "a kernel needs no driver interface: leave this header out"),
    ("cudaTypedefs.h", "header", "a kernel needs no driver interface: leave this header out"),
    ("curand_kernel.h", "library", "use a generator of the source's own, or an NVIDIA device class"),
    ("cub/cub.cuh", "library", NVIDIA),
    ("cub/block/block_reduce.cuh", "library", NVIDIA),
    ("thrust/device_vector.h", "library", NVIDIA),
    ("cublas_v2.h", "library", NVIDIA),
    ("cublasdx.hpp", "library", NVIDIA),
    ("cutlass/cutlass.h", "library", NVIDIA),
    ("cute/tensor.hpp", "library", NVIDIA),
    ("torch/extension.h", "library", "submit the kernel alone; host code is not run"),
];

const NVIDIA: &str = "offer this candidate to an NVIDIA device class";
const BLOCK: &str =
    "use __syncthreads or cooperative groups, or offer this candidate to an NVIDIA device class";

/// Every file: name and text.
fn files() -> impl Iterator<Item = (String, String)> {
    let own = FILES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let empty = IN_PRELUDE
        .iter()
        .map(|name| ((*name).to_owned(), "// Everything is in the force-included prelude.\n".to_owned()));
    let forwarded = STANDARD.iter().map(|name| {
        let text =
            format!("#pragma once\n#include <{name}>\nnamespace cuda {{ namespace std {{ using namespace ::std; }} }}\n");
        (format!("cuda/std/{name}"), text)
    });
    let refused = REFUSED_HEADERS.iter().map(|(name, reason, hint)| {
        ((*name).to_owned(), format!("#error muster-unsupported|{reason}|{name}|{hint}|\n"))
    });
    own.chain(empty).chain(forwarded).chain(refused)
}

/// Digest of every byte of the shim.
pub(super) fn digest() -> Digest {
    let mut hasher = blake3::Hasher::new();
    for (name, text) in files() {
        for part in [name, text] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    Digest(*hasher.finalize().as_bytes())
}

/// Writes the shim into `folder`.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    for (name, text) in files() {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}
