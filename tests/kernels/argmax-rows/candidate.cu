// Value and index travel together through a butterfly of shuffles.
struct Best { float value; int index; };
__device__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
__device__ Best across(Best best) {
  for (int with = 16; with > 0; with >>= 1) {
    Best other;
    other.value = __shfl_xor_sync(~0u, best.value, with);
    other.index = __shfl_xor_sync(~0u, best.index, with);
    best = better(best, other);
  }
  return best;
}
extern "C" __global__ void argmax(const float* x, int* y, int rows, int n) {
  __shared__ Best parts[4];
  Best best = {-__int_as_float(0x7f800000), 0x7fffffff};
  for (int i = threadIdx.x; i < n; i += blockDim.x) best = better(best, Best{x[(size_t)blockIdx.x * n + i], i});
  best = across(best);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 4; ++w) best = better(best, parts[w]);
    y[blockIdx.x] = best.index;
  }
}
