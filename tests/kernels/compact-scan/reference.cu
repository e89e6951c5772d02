// Positive elements of a long vector moved to its front, zeros behind them: one thread.
extern "C" __global__ void keep(const int* x, int* y, int* count, int n) {
  if (threadIdx.x != 0) return;
  int at = 0;
  for (int i = 0; i < n; ++i) if (x[i] > 0) y[at++] = x[i];
  count[0] = at;
  for (; at < n; ++at) y[at] = 0;
}
