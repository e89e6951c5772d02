// GELU with the error function, bfloat16: one thread for each result.
#include <cuda_bf16.h>
extern "C" __global__ void gelu(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double v = __bfloat162float(x[i]);
  y[i] = __double2bfloat16(0.5 * v * erfc(-v * 0.7071067811865476));
}
