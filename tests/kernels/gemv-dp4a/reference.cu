// Matrix of 8-bit integers times a vector, the inner side a multiple of 4: one thread for each result.
extern "C" __global__ void gemv_int8(const signed char* a, const signed char* x, int* y, int rows, int k) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  int sum = 0;
  for (int i = 0; i < k; ++i) sum += (int)a[(size_t)r * k + i] * (int)x[i];
  y[r] = sum;
}
