// A picture at another size, bilinear, edges repeated: one thread for each pixel, in double precision.
extern "C" __global__ void resize(const float* x, float* y, int h, int w, int p, int q) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= q || j >= p) return;
  double u = (i + 0.5) * w / q - 0.5, v = (j + 0.5) * h / p - 0.5;
  int left = (int)floor(u), top = (int)floor(v);
  double right = u - left, low = v - top;
  auto at = [&](int r, int c) { return (double)x[(size_t)min(max(r, 0), h - 1) * w + min(max(c, 0), w - 1)]; };
  double above = at(top, left) * (1 - right) + at(top, left + 1) * right;
  double below = at(top + 1, left) * (1 - right) + at(top + 1, left + 1) * right;
  y[(size_t)j * q + i] = (float)(above * (1 - low) + below * low);
}
