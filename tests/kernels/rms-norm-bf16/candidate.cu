// Pairs of bfloat16 in and out, everything between in single precision.
#include <cuda_bf16.h>
extern "C" __global__ void rms_norm(const __nv_bfloat16* x, const __nv_bfloat16* g, __nv_bfloat16* y, int rows, int n) {
  __shared__ float parts[4];
  const __nv_bfloat162* row = reinterpret_cast<const __nv_bfloat162*>(x + (size_t)blockIdx.x * n);
  const __nv_bfloat162* gain = reinterpret_cast<const __nv_bfloat162*>(g);
  __nv_bfloat162* out = reinterpret_cast<__nv_bfloat162*>(y + (size_t)blockIdx.x * n);
  float sum = 0.f;
  for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
    float2 v = __bfloat1622float2(row[i]);
    sum += v.x * v.x + v.y * v.y;
  }
  for (int with = 16; with; with >>= 1) sum += __shfl_xor_sync(~0u, sum, with);
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = sum;
  __syncthreads();
  float scale = rsqrtf((parts[0] + parts[1] + parts[2] + parts[3]) / n + 1e-6f);
  for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
    float2 v = __bfloat1622float2(row[i]), w = __bfloat1622float2(gain[i]);
    out[i] = __floats2bfloat162_rn(v.x * scale * w.x, v.y * scale * w.y);
  }
}
