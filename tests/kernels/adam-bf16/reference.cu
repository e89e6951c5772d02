// One step of Adam with gradients in bfloat16: the third step, in double precision.
#include <cuda_bf16.h>
extern "C" __global__ void adam(const __nv_bfloat16* g, float* p, float* m, float* v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double slope = (double)__bfloat162float(g[i]), mean = 0.9 * m[i] + 0.1 * slope, square = 0.999 * v[i] + 0.001 * slope * slope;
  p[i] = (float)(p[i] - 0.01 * (mean / 0.271) / (sqrt(square / 0.002997001) + 1e-8));
  m[i] = (float)mean;
  v[i] = (float)square;
}
