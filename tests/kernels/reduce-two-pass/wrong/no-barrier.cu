// Wrong: sums of warps are read before all are written.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
  return v;
}
template <int THREADS, int EACH>
__global__ void __launch_bounds__(THREADS) add_up(const float* __restrict__ x, float* parts, int n) {
  __shared__ float warps[THREADS / 32];
  float sums[EACH] = {};
  for (int base = blockIdx.x * THREADS * EACH; base < n; base += gridDim.x * THREADS * EACH) {
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      int i = base + e * THREADS + (int)threadIdx.x;
      if (i < n) sums[e] += x[i];
    }
  }
  float sum = 0.f;
  for (int e = 0; e < EACH; ++e) sum += sums[e];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  
  if (threadIdx.x < 32) {
    sum = warp_sum(threadIdx.x < THREADS / 32 ? warps[threadIdx.x] : 0.f);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
  }
}
extern "C" __global__ void finish(const float* parts, float* y) {
  __shared__ float halves[2];
  float sum = warp_sum(threadIdx.x < 48 ? parts[threadIdx.x] : 0.f);
  if (threadIdx.x % 32 == 0) halves[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) y[0] = halves[0] + halves[1];
}
