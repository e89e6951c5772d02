// Shortest ways of two legs: the matrix product of minimum and sum: one thread for each result.
extern "C" __global__ void shortest(const int* a, const int* b, int* c, int m, int n, int k) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col >= n || row >= m) return;
  int least = 0x7fffffff;
  for (int i = 0; i < k; ++i) least = min(least, a[row * k + i] + b[i * n + col]);
  c[row * n + col] = least;
}
