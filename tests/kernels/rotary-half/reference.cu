// Rotary position embedding of half precision, 64 features: one thread for each result.
#include <cuda_fp16.h>
extern "C" __global__ void rotate(const __half* x, __half* y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  for (int p = 0; p < 32; ++p) {
    double angle = (r % 128) * exp2(-p / 4.0), s = sin(angle), c = cos(angle);
    double a = __half2float(x[r * 64 + 2 * p]), b = __half2float(x[r * 64 + 2 * p + 1]);
    y[r * 64 + 2 * p] = __double2half(a * c - b * s);
    y[r * 64 + 2 * p + 1] = __double2half(a * s + b * c);
  }
}
