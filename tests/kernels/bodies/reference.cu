// Softened gravity between bodies: one thread for each result.
extern "C" __global__ void accelerate(const float* p, float* a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double sum[3] = {0, 0, 0};
  for (int j = 0; j < n; ++j) {
    double d[3], square = 0.01;
    for (int c = 0; c < 3; ++c) { d[c] = (double)p[j * 4 + c] - p[i * 4 + c]; square += d[c] * d[c]; }
    double force = p[j * 4 + 3] / (square * sqrt(square));
    for (int c = 0; c < 3; ++c) sum[c] += force * d[c];
  }
  for (int c = 0; c < 3; ++c) a[i * 4 + c] = (float)sum[c];
  a[i * 4 + 3] = 0;
}
