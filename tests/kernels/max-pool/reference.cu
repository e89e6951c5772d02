// Largest of each two by two cells, even sides: one thread for each result.
extern "C" __global__ void pool(const float* x, float* y, int c, int h, int w) {
  int q = blockIdx.x * blockDim.x + threadIdx.x, p = blockIdx.y * blockDim.y + threadIdx.y;
  if (q >= w / 2 || p >= h / 2) return;
  for (int k = 0; k < c; ++k) {
    float most = -__int_as_float(0x7f800000);
    for (int i = 0; i < 4; ++i) {
      float v = x[(k * h + 2 * p + i / 2) * w + 2 * q + i % 2];
      most = v > most ? v : most;
    }
    y[(k * (h / 2) + p) * (w / 2) + q] = most;
  }
}
