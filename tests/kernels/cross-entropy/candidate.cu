// Maximum and sum in one pass per lane, merged across the warp.
extern "C" __global__ void cross_entropy(const float* x, const int* label, float* y, int rows, int n) {
  int r = blockIdx.x * blockDim.y + threadIdx.y;
  if (r >= rows) return;
  float most = -__int_as_float(0x7f800000), sum = 0.f;
  for (int i = threadIdx.x; i < n; i += 32) {
    float v = x[(size_t)r * n + i], above = fmaxf(most, v);
    sum = sum * expf(most - above) + expf(v - above);
    most = above;
  }
#pragma unroll
  for (int with = 16; with; with >>= 1) {
    float other = __shfl_xor_sync(0xffffffffu, most, with), others = __shfl_xor_sync(0xffffffffu, sum, with);
    float above = fmaxf(most, other);
    sum = sum * expf(most - above) + others * expf(other - above);
    most = above;
  }
  if (threadIdx.x == 0) y[r] = most + logf(sum) - x[(size_t)r * n + label[r]];
}
