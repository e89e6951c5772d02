extern "C" __global__ void run(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const volatile float* from = x;
  float v = 0.f;
  for (int k = 0; k < 600; ++k) v = from[i];
  y[i] = v * 2.f;
}
