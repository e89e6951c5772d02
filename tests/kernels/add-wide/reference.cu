// Sums of integers of 1024 bits: lowest word first, what goes beyond is lost; one thread for each row.
extern "C" __global__ void add_wide(const unsigned int* a, const unsigned int* b, unsigned int* y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  unsigned long long carry = 0;
  for (int i = 0; i < 32; ++i) {
    carry += (unsigned long long)a[(size_t)r * 32 + i] + b[(size_t)r * 32 + i];
    y[(size_t)r * 32 + i] = (unsigned int)carry;
    carry >>= 32;
  }
}
