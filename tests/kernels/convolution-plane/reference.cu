// Three by three convolution, several channels in and out: one thread for each result.
extern "C" __global__ void convolve_plane(const float* x, const float* f, float* y, int c, int h, int w, int o) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y, out = blockIdx.z;
  if (col >= w || row >= h) return;
  double sum = 0;
  for (int in = 0; in < c; ++in)
    for (int dr = -1; dr <= 1; ++dr)
      for (int dc = -1; dc <= 1; ++dc) {
        int r = row + dr, q = col + dc;
        if (r >= 0 && r < h && q >= 0 && q < w) sum += (double)f[((out * c + in) * 3 + dr + 1) * 3 + dc + 1] * x[(in * h + r) * w + q];
      }
  y[(out * h + row) * w + col] = (float)sum;
}
