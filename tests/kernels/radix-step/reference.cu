// One stable pass of a radix sort by the lowest four bits: one thread, a digit after the other.
extern "C" __global__ void radix_step(const unsigned int* x, unsigned int* y, int n) {
  if (threadIdx.x != 0) return;
  int at = 0;
  for (unsigned int digit = 0; digit < 16; ++digit)
    for (int i = 0; i < n; ++i)
      if ((x[i] & 15u) == digit) y[at++] = x[i];
}
