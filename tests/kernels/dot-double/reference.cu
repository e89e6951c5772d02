// Dot product of rows in double precision: one thread for each result.
extern "C" __global__ void dot(const double* a, const double* b, double* y, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a[(size_t)r * n + i] * b[(size_t)r * n + i];
  y[r] = sum;
}
