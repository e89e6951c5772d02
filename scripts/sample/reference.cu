// The trusted implementation: one thread for each element of C, summed in double precision.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column >= n) return;
  double sum = 0.0;
  for (int i = 0; i < k; ++i) {
    sum += static_cast<double>(a[row * k + i]) * static_cast<double>(b[i * n + column]);
  }
  c[row * n + column] = static_cast<float>(sum);
}
