// One warp a row: a shuffle scan of 32 elements at a time, the carry in every lane.
__device__ int inclusive(int v, int lane) {
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    int below = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += below;
  }
  return v;
}
extern "C" __global__ void prefix(const int* x, int* y, int rows, int n) {
  int lane = threadIdx.x % warpSize, row = blockIdx.x * (blockDim.x / warpSize) + threadIdx.x / warpSize;
  if (row >= rows) return;
  int carry = 0;
  for (int base = 0; base < n; base += 32) {
    int i = base + lane;
    int v = inclusive(i < n ? x[(size_t)row * n + i] : 0, lane) + carry;
    if (i < n) y[(size_t)row * n + i] = v;
    carry = __shfl_sync(0xffffffffu, v, 31);
  }
}
