//! The embedded shim: headers and runtime as text, written into a folder of the node for the compiler to read.

use fleet_config::domain::Digest;
use std::fs;
use std::io;
use std::path::Path;

/// Force-included before every candidate.
pub(super) const PRELUDE: &str = "muster_cuda.h";
/// Compiled once per toolchain and linked into every artefact.
pub(super) const RUNTIME: &str = "runtime.cpp";

const FILES: [(&str, &str); 9] = [
    (PRELUDE, include_str!("shim/muster_cuda.h")),
    ("muster_types.h", include_str!("shim/muster_types.h")),
    ("muster_warp.h", include_str!("shim/muster_warp.h")),
    ("muster_atomic.h", include_str!("shim/muster_atomic.h")),
    ("muster_math.h", include_str!("shim/muster_math.h")),
    ("assert.h", include_str!("shim/assert.h")),
    ("cuda_runtime.h", include_str!("shim/cuda_runtime.h")),
    ("device_launch_parameters.h", include_str!("shim/device_launch_parameters.h")),
    (RUNTIME, include_str!("shim/runtime.cpp")),
];

/// Headers that a candidate may ask for and that this device refuses: name, reason, hint. They stand in front of a
/// toolkit that the machine may have, whose headers a host compiler cannot read.
pub(super) const REFUSED_HEADERS: [(&str, &str, &str); 24] = [
    ("mma.h", "matrix_unit", NVIDIA),
    ("crt/mma.h", "matrix_unit", NVIDIA),
    ("cuda_fp16.h", "element_type", NOT_YET),
    ("cuda_bf16.h", "element_type", NOT_YET),
    ("cuda_fp8.h", "element_type", NOT_YET),
    ("cuda_fp4.h", "element_type", NOT_YET),
    (
        "cooperative_groups.h",
        "header",
        "use __syncthreads and the shuffle functions, or offer it to an NVIDIA device class",
    ),
    ("cooperative_groups/reduce.h", "header", NVIDIA),
    ("cooperative_groups/memcpy_async.h", "header", NVIDIA),
    ("cuda/barrier", "header", NVIDIA),
    ("cuda/pipeline", "header", NVIDIA),
    ("cuda/atomic", "header", NVIDIA),
    ("cuda/ptx", "inline_assembly", NVIDIA),
    ("cuda/std/type_traits", "header", NVIDIA),
    ("cuda_pipeline.h", "header", NVIDIA),
    ("cuda.h", "header", "a kernel needs no driver interface: leave this header out"),
    ("curand_kernel.h", "library", NVIDIA),
    ("cub/cub.cuh", "library", NVIDIA),
    ("cub/block/block_reduce.cuh", "library", NVIDIA),
    ("thrust/device_vector.h", "library", NVIDIA),
    ("cublas_v2.h", "library", NVIDIA),
    ("cutlass/cutlass.h", "library", NVIDIA),
    ("cute/tensor.hpp", "library", NVIDIA),
    ("torch/extension.h", "library", "submit the kernel alone; host code is not run"),
];

const NVIDIA: &str = "offer this candidate to an NVIDIA device class";
const NOT_YET: &str =
    "this element type is not implemented on the CPU device yet; use float, or an NVIDIA device class";

/// Digest of every byte of the shim.
pub(super) fn digest() -> Digest {
    let mut hasher = blake3::Hasher::new();
    let mut add = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    for (name, text) in FILES {
        add(name);
        add(text);
    }
    for (name, reason, hint) in REFUSED_HEADERS {
        add(name);
        add(reason);
        add(hint);
    }
    Digest(*hasher.finalize().as_bytes())
}

/// Writes the shim into `folder`.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    for (name, text) in FILES {
        fs::write(folder.join(name), text)?;
    }
    for (name, reason, hint) in REFUSED_HEADERS {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, format!("#error muster-unsupported|{reason}|{name}|{hint}|\n"))?;
    }
    Ok(())
}
