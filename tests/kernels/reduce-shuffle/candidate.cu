// One block a row: strided loads, a shuffle tree in each warp, a second one over the warps.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_down_sync(0xffffffffu, v, offset);
  return v;
}
extern "C" __global__ void row_sum(const float* x, float* y, int rows, int n) {
  __shared__ float parts[8];
  const float* row = x + (size_t)blockIdx.x * n;
  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i];
  sum = warp_sum(sum);
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = warp_sum(lane < blockDim.x / 32 ? parts[lane] : 0.f);
    if (lane == 0) y[blockIdx.x] = sum;
  }
}
