// Exclusive prefix sum of a long vector: one thread for each result.
extern "C" __global__ void exclusive(const int* x, int* y, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) { y[i] = sum; sum += x[i]; }
}
