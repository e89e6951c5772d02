// A pair of features is one complex number.
#include <cuda_fp16.h>
extern "C" __global__ void rotate(const __half* x, __half* y, int rows) {
  int p = threadIdx.x, r = blockIdx.x * blockDim.y + threadIdx.y;
  if (r >= rows) return;
  half2 pair = reinterpret_cast<const half2*>(x)[r * 32 + p];
  float s, c;
  sincosf((r % 128) * exp2f(-p * 0.25f), &s, &c);
  float a = __low2float(pair), b = __high2float(pair);
  reinterpret_cast<half2*>(y)[r * 32 + p] = __floats2half2_rn(a * c - b * s, a * s + b * c);
}
