// Positive elements of each row moved to its front, zeros behind them: one thread for each result.
extern "C" __global__ void compact(const int* x, int* y, int* count, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  int kept = 0;
  for (int i = 0; i < n; ++i) if (x[(size_t)r * n + i] > 0) y[(size_t)r * n + kept++] = x[(size_t)r * n + i];
  count[r] = kept;
  for (int i = kept; i < n; ++i) y[(size_t)r * n + i] = 0;
}
