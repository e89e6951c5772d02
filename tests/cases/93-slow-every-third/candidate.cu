__device__ unsigned blocks;
extern "C" __global__ void run(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0 && (atomicAdd(&blocks, 1u) / gridDim.x) % 3 == 0) { volatile float w = 0.f; for (int k = 0; k < 20000; ++k) w = w + 1.f; }
  if (i < n) y[i] = x[i] * 2.f;
}
