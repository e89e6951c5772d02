// A function template over the element type, and conversions by overload.
#include <cuda_bf16.h>
__device__ inline float widen(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ inline void narrow(__nv_bfloat16* to, float v) { *to = __float2bfloat16_rn(v); }
template <typename T, typename F> __device__ void map(const T* x, T* y, int n, F f) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) narrow(&y[i], f(widen(x[i])));
}
extern "C" __global__ void gelu(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
  map(x, y, n, [](float v) { return v * normcdff(v); });
}
