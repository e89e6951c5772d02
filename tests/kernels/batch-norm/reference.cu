// Batch norm over the first axis: one thread for each result.
extern "C" __global__ void normalise(const float* x, float* y, int n, int c) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= c) return;
  double mean = 0, variance = 0;
  for (int i = 0; i < n; ++i) mean += x[i * c + j];
  mean /= n;
  for (int i = 0; i < n; ++i) variance += (x[i * c + j] - mean) * (x[i * c + j] - mean);
  for (int i = 0; i < n; ++i) y[i * c + j] = (float)((x[i * c + j] - mean) / sqrt(variance / n + 1e-5));
}
