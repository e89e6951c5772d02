// A linear recurrence along each row: y = a y + x: one thread for each row, in double precision.
extern "C" __global__ void recur(const float* a, const float* x, float* y, int rows, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double last = 0;
  for (size_t i = (size_t)r * n; i < (size_t)(r + 1) * n; ++i) {
    last = (double)a[i] * last + (double)x[i];
    y[i] = (float)last;
  }
}
