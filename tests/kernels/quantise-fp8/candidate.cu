// The type of eight bits does the rounding.
#include <cuda_fp8.h>
extern "C" __global__ void quantise(const float* x, unsigned char* code, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_fp8_e4m3 small(x[i]);
  code[i] = small.__x;
  y[i] = float(small);
}
