//! The embedded shim: headers and runtime as text, written into a folder of the node for the compiler to read.

use fleet_config::domain::Digest;
use std::fs;
use std::io;
use std::path::Path;

/// Force-included before every candidate.
pub(super) const PRELUDE: &str = "muster_cuda.h";
/// Compiled once per toolchain and linked into every artefact.
pub(super) const RUNTIME: &str = "runtime.cpp";

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
    header!("muster_math.h"),
    header!("muster_rounding.h"),
    header!("muster_narrow.h"),
    header!("muster_narrow_types.h"),
    header!("muster_narrow_scalar.h"),
    header!("muster_narrow_pair.h"),
    header!("muster_narrow_names.h"),
    header!("muster_groups.h"),
    header!("cooperative_groups.h"),
    header!("cooperative_groups/functional.h"),
    header!("cooperative_groups/memcpy_async.h"),
    header!("cooperative_groups/reduce.h"),
    header!("cooperative_groups/scan.h"),
    header!("cuda_bf16.h"),
    header!("cuda_fp16.h"),
    header!("cuda_runtime.h"),
    header!("device_launch_parameters.h"),
    header!("assert.h"),
    (RUNTIME, include_str!("shim/runtime.cpp")),
];

/// Headers that a candidate may ask for and that this device refuses: name, reason, hint. They stand in front of a
/// toolkit that the machine may have, whose headers a host compiler cannot read.
pub(super) const REFUSED_HEADERS: &[(&str, &str, &str)] = &[
    ("mma.h", "matrix_unit", NVIDIA),
    ("crt/mma.h", "matrix_unit", NVIDIA),
    ("cuda_fp8.h", "element_type", NOT_YET),
    ("cuda_fp4.h", "element_type", NOT_YET),
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
        write_header(folder, name, text)?;
    }
    for (name, reason, hint) in REFUSED_HEADERS {
        write_header(folder, name, &format!("#error muster-unsupported|{reason}|{name}|{hint}|\n"))?;
    }
    Ok(())
}

fn write_header(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}
