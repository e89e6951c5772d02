// Discrete cosine transform of blocks of eight by eight, sides a multiple of 8: one thread for each coefficient.
extern "C" __global__ void cosines(const float* x, float* y, int h, int w) {
  int u = threadIdx.x, v = threadIdx.y;
  const float* block = x + (size_t)blockIdx.y * 8 * w + blockIdx.x * 8;
  double sum = 0;
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 8; ++i)
      sum += (double)block[(size_t)j * w + i] * cospi((2 * i + 1) * u / 16.0) * cospi((2 * j + 1) * v / 16.0);
  double scale = (u == 0 ? 0.35355339059327373 : 0.5) * (v == 0 ? 0.35355339059327373 : 0.5);
  y[((size_t)blockIdx.y * 8 + v) * w + blockIdx.x * 8 + u] = (float)(scale * sum);
}
