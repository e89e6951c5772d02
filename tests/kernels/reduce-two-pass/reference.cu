// Sum of a long vector of numbers: one thread.
extern "C" __global__ void total(const float* x, float* y, int n) {
  if (threadIdx.x != 0) return;
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i];
  y[0] = (float)sum;
}
