// Square tiles in shared memory.
template <int TILE>
__device__ void multiply(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[TILE][TILE], bs[TILE][TILE + 1];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.f;
  for (int t = 0; t < k; t += TILE) {
    as[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[(size_t)row * k + t + threadIdx.x] : 0.f;
    bs[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? b[(size_t)(t + threadIdx.y) * n + col] : 0.f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[(size_t)row * n + col] = sum;
}
extern "C" __global__ void matmul_tiled(const float* a, const float* b, float* c, int m, int n, int k) { multiply<16>(a, b, c, m, n, k); }
