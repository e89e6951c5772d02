// Wrong: the last of an odd number of elements is left out.
#include <cuda_bf16.h>
__device__ void step(float slope, float& p, float& m, float& v) {
  m = fmaf(0.9f, m, 0.1f * slope);
  v = fmaf(0.999f, v, 0.001f * slope * slope);
  p -= 0.01f * (m / 0.271f) / (sqrtf(v / 0.002997001f) + 1e-8f);
}
extern "C" __global__ void adam(const __nv_bfloat16* g, float* p, float* m, float* v, int n) {
  int first = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
  for (int i = first; i < n / 2; i += all) {
    float2 slopes = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162*>(g)[i]);
    float2 ps = reinterpret_cast<float2*>(p)[i], ms = reinterpret_cast<float2*>(m)[i], vs = reinterpret_cast<float2*>(v)[i];
    step(slopes.x, ps.x, ms.x, vs.x);
    step(slopes.y, ps.y, ms.y, vs.y);
    reinterpret_cast<float2*>(p)[i] = ps;
    reinterpret_cast<float2*>(m)[i] = ms;
    reinterpret_cast<float2*>(v)[i] = vs;
  }
  if (first == 0 && n % 2 == 2) step(__bfloat162float(g[n - 1]), p[n - 1], m[n - 1], v[n - 1]);
}
