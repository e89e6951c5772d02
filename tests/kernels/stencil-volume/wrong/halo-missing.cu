// Wrong: the right edge of the tile is read and never written.
extern "C" __global__ void diffuse(const float* x, float* y, int d, int h, int w) {
  __shared__ float plane[10][18];
  int tx = threadIdx.x + 1, ty = threadIdx.y + 1, i = blockIdx.x * 16 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
  bool inside = i < w && j < h;
  auto load = [&](int at_k, int at_j, int at_i) {
    bool there = at_i >= 0 && at_i < w && at_j >= 0 && at_j < h && at_k < d;
    return there ? x[((size_t)at_k * h + at_j) * w + at_i] : 0.f;
  };
  float behind = 0.f, here = load(0, j, i), ahead = load(1, j, i);
  for (int k = 0; k < d; ++k) {
    plane[ty][tx] = here;
    if (tx == 1) plane[ty][0] = load(k, j, i - 1);
    if (ty == 1) plane[0][tx] = load(k, j - 1, i);
    if (ty == 8) plane[9][tx] = load(k, j + 1, i);
    __syncthreads();
    if (inside) {
      bool rim = i == 0 || j == 0 || k == 0 || i == w - 1 || j == h - 1 || k == d - 1;
      float around = plane[ty][tx - 1] + plane[ty][tx + 1] + plane[ty - 1][tx] + plane[ty + 1][tx] + behind + ahead;
      y[((size_t)k * h + j) * w + i] = rim ? here : fmaf(0.1f, around, 0.4f * here);
    }
    __syncthreads();
    behind = here;
    here = ahead;
    ahead = load(k + 2, j, i);
  }
}
