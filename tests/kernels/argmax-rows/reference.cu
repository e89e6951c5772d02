// Index of the largest element of each row, the first one of equals: one thread for each result.
extern "C" __global__ void argmax(const float* x, int* y, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  int best = 0;
  for (int i = 1; i < n; ++i) if (x[(size_t)r * n + i] > x[(size_t)r * n + best]) best = i;
  y[r] = best;
}
