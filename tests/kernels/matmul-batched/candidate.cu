// Tiles of eight by eight; the batch is the third axis of the grid.
template <class T> struct View {
  T* data;
  int rows, columns;
  __device__ T or_zero(int r, int c) const { return r < rows && c < columns ? data[(size_t)r * columns + c] : T(0); }
};
extern "C" __global__ void batched(const float* x, const float* y, float* z, int b, int m, int n, int k) {
  __shared__ float left[8][9], right[8][9];
  View<const float> a{x + (size_t)blockIdx.z * m * k, m, k}, c{y + (size_t)blockIdx.z * k * n, k, n};
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 8 + ty, col = blockIdx.x * 8 + tx;
  float sum = 0.f;
  for (int base = 0; base < k; base += 8) {
    left[ty][tx] = a.or_zero(row, base + tx);
    right[ty][tx] = c.or_zero(base + ty, col);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(left[ty][i], right[i][tx], sum);
    __syncthreads();
  }
  if (row < m && col < n) z[((size_t)blockIdx.z * m + row) * n + col] = sum;
}
