// Wrong: one column beyond the right edge is read.
extern "C" __global__ void depthwise(const float* x, const float* f, float* y, int h, int w, int c) {
  int k = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 4 + threadIdx.y;
  if (k >= c || j >= h) return;
  float taps[9], columns[3][3];
#pragma unroll
  for (int t = 0; t < 9; ++t) taps[t] = f[t * c + k];
  auto load = [&](int column, int slot) {
#pragma unroll
    for (int r = 0; r < 3; ++r) {
      int row = j + r - 1;
      columns[slot][r] = row >= 0 && row < h && column >= 0 && column <= w ? x[((size_t)row * w + column) * c + k] : 0.f;
    }
  };
  load(-1, 0);
  load(0, 1);
  for (int i = 0; i < w; ++i) {
    load(i + 1, 2);
    float sum = 0.f;
#pragma unroll
    for (int t = 0; t < 9; ++t) sum = fmaf(taps[t], columns[t % 3][t / 3], sum);
    y[((size_t)j * w + i) * c + k] = sum;
#pragma unroll
    for (int r = 0; r < 3; ++r) {
      columns[0][r] = columns[1][r];
      columns[1][r] = columns[2][r];
    }
  }
}
