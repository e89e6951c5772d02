// The naive kernel: one thread for each element of C, reading a row of A and a column of B.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) {
    sum += a[row * k + i] * b[i * n + column];
  }
  c[row * n + column] = sum;
}
