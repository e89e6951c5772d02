//! Kernels for the screens: wrong ones with the screen that must find the fault, and right ones that none may object to.
//!
//! All have the same shape: `f(const float* x, float* y, int n)` with 64 threads a block unless they say otherwise.

use fleet_config::domain::Screen;

/// A kernel under the screens.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// What stands before the kernel, and its body.
    pub(crate) before: &'static str,
    pub(crate) body: &'static str,
    pub(crate) grid: u64,
    pub(crate) block: u64,
    pub(crate) shared: u64,
    /// The screen that must find a fault; `None` for a right kernel.
    pub(crate) found_by: Option<Screen>,
    /// Words of the message, so that a fault is found for the right reason.
    pub(crate) says: &'static str,
}

const fn subject(name: &'static str, body: &'static str) -> Subject {
    Subject { name, before: "", body, grid: 4, block: 64, shared: 0, found_by: None, says: "" }
}

const fn wrong(name: &'static str, screen: Screen, says: &'static str, body: &'static str) -> Subject {
    Subject { found_by: Some(screen), says, ..subject(name, body) }
}

/// A product of 32 × 32 tiles of 8 × 8 over matrices of 16 × 16; barriers by their macro.
macro_rules! tiled_product {
    ($first:literal, $second:literal) => {
        concat!(
            "__shared__ float a[8][8], b[8][8];\nint tx = threadIdx.x % 8, ty = threadIdx.x / 8;\n",
            "int row = blockIdx.x / 2 * 8 + ty, col = blockIdx.x % 2 * 8 + tx;\nfloat sum = 0;\n",
            "for (int k = 0; k < 16; k += 8) {\n",
            "a[ty][tx] = x[row * 16 + k + tx]; b[ty][tx] = x[(k + ty) * 16 + col];\n",
            $first,
            "\nfor (int i = 0; i < 8; ++i) sum += a[ty][i] * b[i][tx];\n",
            $second,
            "\n}\ny[row * 16 + col] = sum;"
        )
    };
}

/// Wrong kernels.
pub(crate) const WRONG: &[Subject] = &[
    // Overruns.
    wrong("global past the end", Screen::Fences, "past the end of `b1`", "y[I] = x[I % n];"),
    wrong("global before the start", Screen::Fences, "before the start of `b1`", "y[I % n - 1] = x[I % n];"),
    wrong("global past the end, read", Screen::Address, "read at byte 1024", "if (I < n) y[I] = x[I + 1];"),
    wrong(
        "global past the end, located",
        Screen::Address,
        "write at byte 1024",
        "if (I <= n) y[I] = x[I % n];",
    ),
    wrong(
        "row of a static shared array",
        Screen::Address,
        "index 33 out of bounds for type 'float [33]'",
        "__shared__ float s[31][33];\nfor (int i = 0; i <= 33; ++i) s[T % 31][i] = x[i];\n__syncthreads();\nif (I < n) y[I] = s[T % 31][5];",
    ),
    wrong(
        "end of a static shared array",
        Screen::Address,
        "past the end of `s` (256 bytes)",
        "__shared__ float s[64];\nfloat* p = s;\np[T + 1] = x[I % n];\n__syncthreads();\nif (I < n) y[I] = p[1];",
    ),
    Subject {
        shared: 250,
        ..wrong(
            "dynamic shared memory",
            Screen::Address,
            "past the end of the dynamic shared memory (250 bytes)",
            "extern __shared__ float s[];\ns[T] = x[I % n];\n__syncthreads();\nif (I < n) y[I] = s[0];",
        )
    },
    wrong(
        "local array",
        Screen::Address,
        "past the end of `a` (32 bytes)",
        "float a[8]; float* p = a;\nfor (int i = 0; i < 8; ++i) p[i] = x[i];\n__syncthreads();\nif (I < n) y[I] = p[T / 7];",
    ),
    Subject {
        before: "__constant__ float table[16] = {1, 2, 3};",
        ..wrong(
            "constant array",
            Screen::Address,
            "past the end of `table` (64 bytes)",
            "const float* p = table;\nif (I < n) y[I] = p[T % 17];",
        )
    },
    // Races inside a block.
    wrong("no first barrier", Screen::RacesInBlock, "race on `", tiled_product!("", "__syncthreads();")),
    wrong("no second barrier", Screen::RacesInBlock, "race on `", tiled_product!("__syncthreads();", "")),
    wrong(
        "scan in place",
        Screen::RacesInBlock,
        "race on `s`",
        "__shared__ float s[64];\ns[T] = x[I % n];\n__syncthreads();\nfor (int d = 1; d < 64; d *= 2) {\nif (T >= d) s[T] += s[T - d];\n__syncthreads(); }\nif (I < n) y[I] = s[T];",
    ),
    wrong(
        "warp-synchronous reduction",
        Screen::RacesInBlock,
        "race on `s`",
        "__shared__ volatile float s[64];\ns[T] = x[I % n];\n__syncthreads();\nif (T < 32) {\ns[T] += s[T + 32]; s[T] += s[T + 16]; s[T] += s[T + 8]; s[T] += s[T + 4]; s[T] += s[T + 2]; s[T] += s[T + 1]; }\nif (T == 0) y[blockIdx.x] = s[0];",
    ),
    wrong(
        "histogram without atomics",
        Screen::RacesInBlock,
        "race on `bins`",
        "__shared__ int bins[8];\nif (T < 8) bins[T] = 0;\n__syncthreads();\nbins[T % 8]++;\n__syncthreads();\nif (T < 8) y[blockIdx.x * 8 + T] = bins[T];",
    ),
    Subject {
        shared: 256,
        ..wrong(
            "dynamic shared memory without barrier",
            Screen::RacesInBlock,
            "race on `dynamic shared memory`",
            "extern __shared__ float s[];\ns[T] = x[I % n];\nif (I < n) y[I] = s[63 - T];",
        )
    },
    wrong(
        "global memory inside a block",
        Screen::RacesInBlock,
        "race on `b1`",
        "if (I < n) y[I] = x[I];\nif (I < n && T > 0) y[I] += y[I - 1];",
    ),
    wrong(
        "double buffer with one barrier too few",
        Screen::RacesInBlock,
        "race on `s`",
        "__shared__ float s[2][64];\nfloat v = 0;\nfor (int i = 0; i < 6; ++i) {\ns[i & 1][T] = x[(I + i) % n];\nif (i % 3 != 2) __syncthreads();\nv += s[i & 1][63 - T]; }\nif (I < n) y[I] = v;",
    ),
    wrong(
        "tile larger than its barrier",
        Screen::RacesInBlock,
        "race on `s`",
        "__shared__ float s[64];\ns[T] = x[I % n];\n__syncwarp();\nif (I < n) y[I] = s[T ^ 32];",
    ),
    // Races between blocks.
    wrong(
        "sum of all blocks",
        Screen::RacesBetweenBlocks,
        "race on `b1`",
        "if (T == 0) y[0] += x[blockIdx.x];",
    ),
    wrong(
        "halo written by the neighbour",
        Screen::RacesBetweenBlocks,
        "race on `b1`",
        "if (I < n) y[I] = x[I];\nif (I > 0 && T == 0) y[I - 1] += 1.f;",
    ),
    wrong(
        "plain read beside atomics",
        Screen::RacesBetweenBlocks,
        "race on `b1`",
        "if (T == 0) atomicAdd(y, x[blockIdx.x]);\nif (T == 1 && blockIdx.x == 3) y[1] = y[0];",
    ),
    // Uninitialised shared memory.
    wrong(
        "shared memory read before it is written",
        Screen::UninitialisedShared,
        "`b1` depends on what shared memory held",
        "__shared__ float s[64];\nif (T < 63) s[T] = x[I % n];\n__syncthreads();\nif (I < n) y[I] = s[63 - T];",
    ),
    wrong(
        "counter that nobody sets to zero",
        Screen::UninitialisedShared,
        "`b1` depends on what shared memory held",
        "__shared__ int count;\natomicAdd(&count, 1);\n__syncthreads();\nif (I < n) y[I] = count;",
    ),
    // Uninitialised outputs.
    wrong(
        "sum onto an output that nobody set to zero",
        Screen::UninitialisedMemory,
        "`b1` depends on what outputs or scratch memory held",
        "if (I < n) y[I] += x[I];",
    ),
    wrong(
        "output as a place for partial sums",
        Screen::UninitialisedMemory,
        "`b1` depends on what outputs or scratch memory held",
        "if (T == 0) { for (int i = 0; i < 64; ++i) y[I] = y[I] + x[I + i]; }",
    ),
    // Barriers and masks.
    wrong(
        "barrier on one side of a branch",
        Screen::DivergentBarriers,
        "deadlock",
        "if (T < 32) __syncthreads(); else __syncwarp(0x80000000u >> (T % 2) | 1u << (T % 32) | 1u);\nif (I < n) y[I] = x[I];",
    ),
    wrong(
        "two barriers of a branch",
        Screen::DivergentBarriers,
        "divergent __syncthreads",
        "if (T % 2) { __syncthreads(); } else {\n__syncthreads(); }\nif (I < n) y[I] = x[I];",
    ),
    wrong(
        "mask without its caller",
        Screen::ShuffleMasks,
        "its mask does not name",
        "float v = x[I % n];\nv += __shfl_down_sync(0x0000ffffu, v, 8);\nif (I < n) y[I] = v;",
    ),
    wrong(
        "mask with lanes that do not come",
        Screen::ShuffleMasks,
        "wait in warp operations",
        "float v = x[I % n];\nif (T % 32 < 16) v += __shfl_down_sync(0xffffffffu, v, 8);\nelse v += __shfl_xor_sync(0xffff0001u, v, 1);\nif (I < n) y[I] = v;",
    ),
    wrong(
        "reading a lane that takes no part",
        Screen::ShuffleMasks,
        "depends on the answer of a warp operation",
        "float v = x[I % n];\nif (T % 32 < 16) v += __shfl_down_sync(0x0000ffffu, v, 8);\nif (I < n) y[I] = v;",
    ),
    // Orders.
    wrong(
        "the last thread wins",
        Screen::Orders,
        "",
        "if (T == 0) y[blockIdx.x] = 0;\n__syncthreads();\ny[blockIdx.x] = T;",
    ),
];

/// Right kernels.
pub(crate) const RIGHT: &[Subject] = &[
    subject("copy", "if (I < n) y[I] = x[I];"),
    subject("tiled product", tiled_product!("__syncthreads();", "__syncthreads();")),
    subject(
        "double buffer",
        "__shared__ float s[2][64];\nfloat v = 0;\nfor (int i = 0; i < 6; ++i) { s[i & 1][T] = x[(I + i) % n]; __syncthreads(); v += s[i & 1][63 - T]; }\nif (I < n) y[I] = v;",
    ),
    subject(
        "warp reduction",
        "float v = x[I % n];\nfor (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);\n__shared__ float s[2];\nif (T % 32 == 0) s[T / 32] = v;\n__syncthreads();\nif (T == 0) y[blockIdx.x] = s[0] + s[1];",
    ),
    subject(
        "partial masks",
        "float v = x[I % n];\nif (T % 32 < 16) { v += __shfl_xor_sync(0x0000ffffu, v, 8); v += __shfl_xor_sync(0x0000ffffu, v, 4); }\nelse v += __shfl_xor_sync(0xffff0000u, v, 1);\nif (I < n) y[I] = v;",
    ),
    subject(
        "changing masks through shared memory",
        "__shared__ float s[64];\nint lane = T % 32;\nfor (unsigned half = 16; half > 0; half /= 2) {\ns[T] = x[I % n]; unsigned mask = __ballot_sync(0xffffffffu, lane < half);\nif (lane < half) { s[T] += 1; __syncwarp(mask); s[T] += s[T]; }\n__syncwarp(); }\nif (I < n) y[I] = s[T] + s[T ^ 1];",
    ),
    subject(
        "histogram",
        "__shared__ int bins[8];\nif (T < 8) bins[T] = 0;\n__syncthreads();\natomicAdd(&bins[T % 8], 1);\n__syncthreads();\nif (T < 8) y[blockIdx.x * 8 + T] = bins[T];",
    ),
    subject(
        "scan",
        "__shared__ float s[64];\ns[T] = x[I % n];\n__syncthreads();\nfor (int d = 1; d < 64; d *= 2) {\nfloat v = T >= d ? s[T - d] : 0.f;\n__syncthreads();\ns[T] += v;\n__syncthreads(); }\nif (I < n) y[I] = s[T];",
    ),
    subject(
        "threads that leave before the barriers",
        "__shared__ float s[64];\nif (T >= 40) return;\ns[T] = x[I % n];\n__syncthreads();\nif (I < n) y[I] = s[39 - T];",
    ),
    Subject {
        shared: 256,
        ..subject(
            "dynamic shared memory",
            "extern __shared__ float s[];\ns[T] = x[I % n];\n__syncthreads();\nif (I < n) y[I] = s[63 - T];",
        )
    },
    subject(
        "static shared memory by both words",
        "static __shared__ float s[31][33];\nfor (int i = 0; i < 33; ++i) if (T < 31) s[T][i] = x[i];\n__syncthreads();\nif (I < n) y[I] = s[T % 31][T % 33];",
    ),
    subject("atomic sum of all blocks", "if (T == 0) atomicAdd(&y[0], x[blockIdx.x]);"),
    Subject {
        before: "__device__ unsigned count;",
        ..subject(
            "the last block sums",
            "__shared__ bool last;\nif (T == 0) { ((volatile float*)y)[blockIdx.x + 1] = x[blockIdx.x]; __threadfence(); last = atomicAdd(&count, 1u) % gridDim.x == gridDim.x - 1; }\n__syncthreads();\nif (last && T == 0) { float v = 0; for (int i = 0; i < gridDim.x; ++i) v += y[i + 1]; y[0] = v; }",
        )
    },
    Subject {
        before: "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;",
        ..subject(
            "tiles of cooperative groups",
            "cg::thread_block block = cg::this_thread_block();\nauto tile = cg::tiled_partition<16>(block);\n__shared__ float s[64];\ns[T] = x[I % n];\ntile.sync();\nfloat v = s[T ^ 5];\nfor (int d = 8; d > 0; d /= 2) v += tile.shfl_down(v, d);\nblock.sync();\nif (tile.thread_rank() == 0) y[blockIdx.x * 4 + T / 16] = v;",
        )
    },
    subject(
        "local arrays",
        "float a[8];\nfor (int i = 0; i < 8; ++i) a[i] = x[(I + i) % n];\n__syncthreads();\nif (I < n) y[I] = a[T % 8] + a[(T + 3) % 8];",
    ),
    subject(
        "local arrays of threads that never wait",
        "float a[8];\nfor (int i = 0; i < 8; ++i) a[(I + i) % 8] = x[(I + i) % n];\nif (I < n) y[I] = a[T % 7];",
    ),
    subject(
        "local arrays of threads that leave early",
        "float a[8];\nfor (int i = 0; i < 8; ++i) a[(I + i) % 8] = x[(I + i) % n];\nif (a[T % 8] > 0) { if (I < n) y[I] = a[T % 7]; return; }\nunsigned same = __match_any_sync(__ballot_sync(__activemask(), 1), int(a[1]));\nif (I < n) y[I] = __popc(same) > 40 ? 1 : a[0];",
    ),
    Subject {
        block: 256,
        ..subject(
            "many threads",
            "__shared__ float s[256];\nfor (int k = 0; k < 4; ++k) { s[T] = x[(I + k) % n]; __syncthreads(); if (T < 64) y[T + 64 * (blockIdx.x % 4)] = s[255 - T]; __syncthreads(); }",
        )
    },
];
