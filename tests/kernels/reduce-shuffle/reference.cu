// Sum of each row: one thread for each result.
extern "C" __global__ void row_sum(const float* x, float* y, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += x[(size_t)r * n + i];
  y[r] = (float)sum;
}
