// Products of many small matrices: one thread for each result.
extern "C" __global__ void batched(const float* x, const float* y, float* z, int b, int m, int n, int k) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col >= n || row >= m) return;
  double sum = 0;
  for (int i = 0; i < k; ++i)
    sum += (double)x[((size_t)blockIdx.z * m + row) * k + i] * (double)y[((size_t)blockIdx.z * k + i) * n + col];
  z[((size_t)blockIdx.z * m + row) * n + col] = (float)sum;
}
