// A vector of two from each of two rows; the grid's third axis is the channel.
extern "C" __global__ void pool(const float* x, float* y, int c, int h, int w) {
  int q = blockIdx.x * blockDim.x + threadIdx.x, p = blockIdx.y * blockDim.y + threadIdx.y, k = blockIdx.z;
  if (q >= w / 2 || p >= h / 2) return;
  const float2* above = reinterpret_cast<const float2*>(x + (size_t)(k * h + 2 * p) * w);
  const float2* below = reinterpret_cast<const float2*>(x + (size_t)(k * h + 2 * p + 1) * w);
  float2 a = above[q], b = below[q];
  y[(k * (h / 2) + p) * (w / 2) + q] = fmaxf(fmaxf(a.x, a.y), fmaxf(b.x, b.y));
}
