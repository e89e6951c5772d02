// Mean and variance in one pass, merged pairwise (Chan, Golub and LeVeque 1979).
struct Moments { float count, mean, square; };
__device__ Moments merge(Moments a, Moments b) {
  float count = a.count + b.count;
  if (count == 0.f) return a;
  float delta = b.mean - a.mean, share = b.count / count;
  return {count, a.mean + delta * share, a.square + b.square + delta * delta * a.count * share};
}
__device__ Moments from(Moments m, int with) {
  return {__shfl_xor_sync(~0u, m.count, with), __shfl_xor_sync(~0u, m.mean, with), __shfl_xor_sync(~0u, m.square, with)};
}
extern "C" __global__ void layer_norm(const float* x, const float* g, float* y, int rows, int n) {
  __shared__ Moments parts[8];
  const float* row = x + (size_t)blockIdx.x * n;
  Moments m = {0.f, 0.f, 0.f};
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = merge(m, Moments{1.f, row[i], 0.f});
  for (int with = 1; with < 32; with *= 2) m = merge(m, from(m, with));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = m;
  __syncthreads();
  m = parts[0];
  for (int w = 1; w < blockDim.x / 32; ++w) m = merge(m, parts[w]);
  float scale = rsqrtf(m.square / m.count + 1e-5f);
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[(size_t)blockIdx.x * n + i] = (row[i] - m.mean) * scale * g[i];
}
