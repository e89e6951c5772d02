// Sorts each row of 512 elements: one thread for each result.
extern "C" __global__ void sort_rows(const float* x, float* y, int rows) {
  int r = blockIdx.x, t = threadIdx.x;
  const float* row = x + (size_t)r * 512;
  for (int i = t; i < 512; i += blockDim.x) {
    int rank = 0;
    for (int j = 0; j < 512; ++j) rank += row[j] < row[i] || (row[j] == row[i] && j < i);
    y[(size_t)r * 512 + rank] = row[i];
  }
}
