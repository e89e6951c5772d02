// One step of diffusion on a plane, the rim stays: one thread for each result.
extern "C" __global__ void diffuse(const float* x, float* y, int h, int w) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (c >= w || r >= h) return;
  int i = r * w + c;
  if (c == 0 || r == 0 || c == w - 1 || r == h - 1) { y[i] = x[i]; return; }
  y[i] = (float)(0.5 * x[i] + 0.125 * ((double)x[i - 1] + x[i + 1] + x[i - w] + x[i + w]));
}
