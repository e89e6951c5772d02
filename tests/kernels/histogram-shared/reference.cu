// Counts of 64 values: one thread for each result.
extern "C" __global__ void histogram(const unsigned char* x, unsigned int* h, int n) {
  int bin = threadIdx.x;
  unsigned count = 0;
  for (int i = 0; i < n; ++i) count += x[i] == bin;
  h[bin] = count;
}
