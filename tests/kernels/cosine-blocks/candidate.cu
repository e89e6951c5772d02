// Rows, then columns, as products with a matrix of cosines; four blocks of the picture in one of threads.
__device__ float element(int k, int i) { return (k == 0 ? 0.35355339f : 0.5f) * cospif((2 * i + 1) * k / 16.f); }
extern "C" __global__ void cosines(const float* x, float* y, int h, int w) {
  __shared__ float c[8][8], tile[4][8][9], half[4][8][9];
  int u = threadIdx.x, v = threadIdx.y, b = threadIdx.z, at = blockIdx.x * 32 + b * 8 + u;
  if (b == 0) c[v][u] = element(v, u);
  bool inside = at < w;
  tile[b][v][u] = inside ? x[((size_t)blockIdx.y * 8 + v) * w + at] : 0.f;
  __syncthreads();
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = fmaf(tile[b][v][i], c[u][i], sum);
  half[b][v][u] = sum;
  __syncthreads();
  sum = 0.f;
#pragma unroll
  for (int j = 0; j < 8; ++j) sum = fmaf(half[b][j][u], c[v][j], sum);
  if (inside) y[((size_t)blockIdx.y * 8 + v) * w + at] = sum;
}
