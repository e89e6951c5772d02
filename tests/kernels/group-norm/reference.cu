// Norm over groups of four channels, with gain and offset: one thread for each channel, in double precision.
extern "C" __global__ void group_norm(const float* x, const float* g, const float* b, float* y, int n, int c, int s) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n * c) return;
  const float* group = x + (size_t)(at / 4 * 4) * s;
  double mean = 0, square = 0;
  for (int i = 0; i < 4 * s; ++i) mean += group[i];
  mean /= 4 * s;
  for (int i = 0; i < 4 * s; ++i) square += (group[i] - mean) * (group[i] - mean);
  double scale = rsqrt(square / (4 * s) + 1e-5);
  for (int i = 0; i < s; ++i) {
    double normal = ((double)x[(size_t)at * s + i] - mean) * scale;
    y[(size_t)at * s + i] = (float)(normal * g[at % c] + b[at % c]);
  }
}
