// Root-mean-square norm of rows in bfloat16: one thread for each result.
#include <cuda_bf16.h>
extern "C" __global__ void rms_norm(const __nv_bfloat16* x, const __nv_bfloat16* g, __nv_bfloat16* y, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double sum = 0;
  for (int i = 0; i < n; ++i) { double v = __bfloat162float(x[(size_t)r * n + i]); sum += v * v; }
  double scale = 1 / sqrt(sum / n + 1e-6);
  for (int i = 0; i < n; ++i)
    y[(size_t)r * n + i] = __double2bfloat16((double)__bfloat162float(x[(size_t)r * n + i]) * scale * (double)__bfloat162float(g[i]));
}
