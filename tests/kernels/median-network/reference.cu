// Median of three by three pixels, the rim stays: one thread for each pixel, by insertion.
extern "C" __global__ void median(const unsigned char* x, unsigned char* y, int h, int w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= w || j >= h) return;
  if (i == 0 || j == 0 || i == w - 1 || j == h - 1) { y[j * w + i] = x[j * w + i]; return; }
  unsigned char sorted[9];
  for (int k = 0; k < 9; ++k) {
    unsigned char v = x[(j + k / 3 - 1) * w + i + k % 3 - 1];
    int at = k;
    for (; at > 0 && sorted[at - 1] > v; --at) sorted[at] = sorted[at - 1];
    sorted[at] = v;
  }
  y[j * w + i] = sorted[4];
}
