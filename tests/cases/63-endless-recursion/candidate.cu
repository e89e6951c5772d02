__device__ __noinline__ float down(const float* x, int d) {
  volatile float pad[64];
  pad[d & 63] = x[0];
  return d < 0 ? 0.f : down(x, d + 1) + pad[d & 63];
}
extern "C" __global__ void run(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = down(x, 1);
}
