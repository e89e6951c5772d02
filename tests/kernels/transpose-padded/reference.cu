// Transpose of a matrix: one thread for each result.
extern "C" __global__ void transpose(const float* x, float* y, int h, int w) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (c < w && r < h) y[(size_t)c * h + r] = x[(size_t)r * w + c];
}
