// Sparse matrix of nine entries a row, column by column, times a vector: a negative column holds nothing; one thread for each row.
extern "C" __global__ void spmv_ell(const int* column, const float* a, const float* x, float* y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double sum = 0;
  for (int e = 0; e < 9; ++e) {
    int c = column[(size_t)e * rows + r];
    if (c >= 0) sum += (double)a[(size_t)e * rows + r] * (double)x[c];
  }
  y[r] = (float)sum;
}
