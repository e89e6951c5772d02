// Matrix times a vector, the inner side a multiple of 4: one thread for each row.
extern "C" __global__ void multiply(const float* a, const float* x, float* y, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += (double)a[(size_t)r * n + i] * (double)x[i];
  y[r] = (float)sum;
}
