// Seven-point weighted mean of a vector, zeros beyond its ends: one thread for each result.
extern "C" __global__ void smooth(const float* x, float* y, int n) {
  const double w[7] = {0.03125, 0.109375, 0.21875, 0.28125, 0.21875, 0.109375, 0.03125};
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double sum = 0;
  for (int k = -3; k <= 3; ++k) if (i + k >= 0 && i + k < n) sum += w[k + 3] * x[i + k];
  y[i] = (float)sum;
}
