// Logarithm of the softmax of each row: one thread for each row, in double precision.
extern "C" __global__ void log_softmax(const float* x, float* y, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  const float* row = x + (size_t)r * n;
  double most = row[0], sum = 0;
  for (int i = 0; i < n; ++i) most = fmax(most, (double)row[i]);
  for (int i = 0; i < n; ++i) sum += exp(row[i] - most);
  for (int i = 0; i < n; ++i) y[(size_t)r * n + i] = (float)(row[i] - most - log(sum));
}
