extern "C" __global__ void run(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = 0.f;
  for (int k = 0; k < 50; ++k) { volatile float w = x[i]; v += w; }
  y[i] = v / 25.f;
}
