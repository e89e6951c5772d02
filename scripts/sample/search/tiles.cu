// Each thread keeps a tile of ${rows} × ${columns} elements of C in registers: one load of A serves ${columns} products and one
// load of B serves ${rows}.
#define ROWS ${rows}
#define COLUMNS ${columns}

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  int column = (blockIdx.x * blockDim.x + threadIdx.x) * COLUMNS;
  int row = (blockIdx.y * blockDim.y + threadIdx.y) * ROWS;
  if (row >= m || column >= n) return;
  float sum[ROWS][COLUMNS] = {};
  if (row + ROWS <= m && column + COLUMNS <= n) {
#pragma unroll ${unroll}
    for (int i = 0; i < k; ++i) {
      for (int r = 0; r < ROWS; ++r) {
        float left = a[(row + r) * k + i];
        for (int j = 0; j < COLUMNS; ++j) sum[r][j] += left * b[i * n + column + j];
      }
    }
    for (int r = 0; r < ROWS; ++r) {
      for (int j = 0; j < COLUMNS; ++j) c[(row + r) * n + column + j] = sum[r][j];
    }
    return;
  }
  // A tile that hangs over an edge computes what lies inside.
  for (int r = 0; r < ROWS && row + r < m; ++r) {
    for (int j = 0; j < COLUMNS && column + j < n; ++j) {
      float one = 0.0f;
      for (int i = 0; i < k; ++i) one += a[(row + r) * k + i] * b[i * n + column + j];
      c[(row + r) * n + column + j] = one;
    }
  }
}
