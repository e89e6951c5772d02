// Matrix product, again: one thread for each result.
extern "C" __global__ void buffered(const float* a, const float* b, float* c, int m, int n, int k) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col >= n || row >= m) return;
  double sum = 0;
  for (int i = 0; i < k; ++i) sum += (double)a[(size_t)row * k + i] * (double)b[(size_t)i * n + col];
  c[(size_t)row * n + col] = (float)sum;
}
