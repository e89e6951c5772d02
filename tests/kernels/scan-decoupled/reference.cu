// Inclusive prefix sum of a long vector: one thread.
extern "C" __global__ void scan_once(const int* x, int* y, int n) {
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < n; ++i) y[i] = sum += x[i];
}
