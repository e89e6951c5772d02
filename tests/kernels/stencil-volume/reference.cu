// One step of diffusion in a volume, the rim stays: one thread for each cell.
extern "C" __global__ void diffuse(const float* x, float* y, int d, int h, int w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y, k = blockIdx.z;
  if (i >= w) return;
  size_t at = ((size_t)k * h + j) * w + i, plane = (size_t)h * w;
  bool rim = i == 0 || j == 0 || k == 0 || i == w - 1 || j == h - 1 || k == d - 1;
  if (rim) { y[at] = x[at]; return; }
  double around = (double)x[at - 1] + x[at + 1] + x[at - w] + x[at + w] + x[at - plane] + x[at + plane];
  y[at] = (float)(0.4 * x[at] + 0.1 * around);
}
