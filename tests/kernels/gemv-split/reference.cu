// Transposed matrix times a vector: one thread for each column.
extern "C" __global__ void weigh(const float* a, const float* x, float* y, int rows, int n) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= n) return;
  double sum = 0;
  for (int r = 0; r < rows; ++r) sum += (double)a[(size_t)r * n + c] * (double)x[r];
  y[c] = (float)sum;
}
