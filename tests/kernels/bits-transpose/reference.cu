// Transpose of matrices of 32 by 32 bits: one thread for each word.
extern "C" __global__ void bits(const unsigned int* x, unsigned int* y, int rows) {
  unsigned int word = 0;
  for (int i = 0; i < 32; ++i) word |= (x[(size_t)blockIdx.x * 32 + i] >> threadIdx.x & 1u) << i;
  y[(size_t)blockIdx.x * 32 + threadIdx.x] = word;
}
