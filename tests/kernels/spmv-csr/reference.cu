// Sparse matrix in compressed rows times a vector: one thread for each result.
extern "C" __global__ void spmv(const int* start, const int* columns, const float* a, const float* x, float* y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double sum = 0;
  for (int i = start[r]; i < start[r + 1]; ++i) sum += (double)a[i] * x[columns[i]];
  y[r] = (float)sum;
}
