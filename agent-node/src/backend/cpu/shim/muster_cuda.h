// The CUDA C language for a host compiler: force-included before every candidate. One block runs on one operating
// system thread at a time, so `__shared__` and the built-in indices are thread-local storage of that thread.
#pragma once
#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <type_traits>
#include <utility>

// A feature that this device refuses. The node parses the message, so the number of bars is fixed.
#define MUSTER_MARKER(reason, feature, hint) "muster-unsupported|" reason "|" feature "|" hint "|"
#define MUSTER_REFUSED(reason, feature, hint) __attribute__((unavailable(MUSTER_MARKER(reason, feature, hint))))

#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 0
#define CUDART_VERSION 12000
// The portable path: no tensor cores, no asynchronous copies, no inline assembly behind architecture guards.
#define __CUDA_ARCH__ 600
#define __MUSTER_CPU__ 1

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#if MUSTER_SCREEN == 1 || MUSTER_SCREEN == 2
// Where blocks run one after another on one thread, an ordinary variable does, and its name is in a report.
#define __shared__ static __attribute__((aligned(16)))
#else
#define __shared__ thread_local __attribute__((aligned(16), tls_model("local-dynamic")))
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define muster_noinline __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __maxnreg__(...)
// Said where the word is compiled, and nowhere else: a pragma may stand anywhere, and so in the midst of a declaration.
#define MUSTER_PRAGMA(text) _Pragma(#text)
#define MUSTER_ERROR(marker) MUSTER_PRAGMA(GCC error marker)
#define muster_inline_assembly                                                                             \
  MUSTER_ERROR("muster-unsupported|inline_assembly|inline assembly|offer this candidate to an NVIDIA device class|") \
  __asm__
#define muster_kernel_launch                                                                               \
  MUSTER_ERROR("muster-unsupported|not_implemented_here|a launch in the source|leave host code out, and make child kernels steps of the launch plan|")
#define __cluster_dims__(...)                                                                              \
  MUSTER_ERROR("muster-unsupported|not_implemented_here|__cluster_dims__|offer this candidate to an NVIDIA device class|")
#define __managed__                                                                                        \
  MUSTER_ERROR("muster-unsupported|not_implemented_here|__managed__|pass the data as a buffer of the task|")

#include "muster_types.h"

// All thread-local variables of an artefact are found with one call: the model says that they lie in one module.
#define MUSTER_LOCAL extern const __thread __attribute__((visibility("hidden"), tls_model("local-dynamic")))
MUSTER_LOCAL uint3 threadIdx;
MUSTER_LOCAL uint3 blockIdx;
MUSTER_LOCAL dim3 blockDim;
MUSTER_LOCAL dim3 gridDim;
// Index of the thread in its block, x fastest.
MUSTER_LOCAL unsigned muster_linear;
static constexpr int warpSize = 32;

extern "C" {
__attribute__((visibility("hidden"))) int muster_barrier(int predicate, int line) noexcept;
__attribute__((visibility("hidden"), noreturn)) void muster_stop(int kind, int line) noexcept;
}

// Default arguments carry the line of the caller, so that a report can name the barrier.
static inline void __syncthreads(int line = __builtin_LINE()) { muster_barrier(0, line); }
static inline int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
  return muster_barrier(predicate != 0, line);
}
static inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
  return muster_barrier(predicate != 0, line) != 0;
}
static inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
  return muster_barrier(predicate == 0, line) == 0;
}
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
[[noreturn]] static inline void __trap(int line = __builtin_LINE()) { muster_stop(2, line); }

extern "C" {
__attribute__((visibility("hidden"))) void muster_yield() noexcept;
__attribute__((visibility("hidden"))) int muster_print(const char* format, ...) noexcept;
__attribute__((visibility("hidden"))) void* muster_allocate(size_t bytes) noexcept;
}
// Other threads of the block run on meanwhile.
static inline void __nanosleep(unsigned) { muster_yield(); }
static inline void __brkpt(int line = __builtin_LINE()) { muster_stop(2, line); }
static inline void muster_release(void*) {}
// Macros, since the host's headers declare functions of the same name.
#define printf(...) muster_print(__VA_ARGS__)
#define malloc(...) muster_allocate(__VA_ARGS__)
#define free(...) muster_release(__VA_ARGS__)

#include "muster_warp.h"
#include "muster_atomic.h"
#include "muster_float.h"
#include "muster_math.h"
#include "muster_integer.h"
#include "muster_simd.h"
#include "muster_refused.h"

namespace muster {
// One kernel behind the shape that a GPU driver launches: an array of pointers to arguments. Used behind the candidate,
// so no name of it may be one that a candidate has a macro for.
template <class F> struct muster_kernel;
template <class... P> struct muster_kernel<void (*)(P...)> {
  static constexpr int muster_arity = sizeof...(P);
  template <void (*F)(P...), size_t... I> static inline void muster_call(void** arguments, std::index_sequence<I...>) {
    F(*static_cast<std::remove_cv_t<std::remove_reference_t<P>>*>(arguments[I])...);
    (void)arguments;
  }
  template <void (*F)(P...)> static inline void muster_call(void** arguments) {
    muster_call<F>(arguments, std::make_index_sequence<sizeof...(P)>());
  }
};
}
