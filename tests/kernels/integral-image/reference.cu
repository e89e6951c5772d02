// Sums of all pixels above and to the left: one thread for each pixel.
extern "C" __global__ void integral(const unsigned char* x, unsigned int* y, int h, int w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
  if (i >= w) return;
  unsigned int sum = 0;
  for (int r = 0; r <= j; ++r)
    for (int c = 0; c <= i; ++c) sum += x[(size_t)r * w + c];
  y[(size_t)j * w + i] = sum;
}
