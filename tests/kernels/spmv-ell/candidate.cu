// Neighbouring threads read neighbouring entries; the vector comes through the read-only path.
extern "C" __global__ void spmv_ell(const int* column, const float* a, const float* x, float* y, int rows) {
  for (int r = blockIdx.x * blockDim.x + threadIdx.x; r < rows; r += gridDim.x * blockDim.x) {
    float sum = 0.f;
#pragma unroll
    for (int e = 0; e < 9; ++e) {
      int c = column[(size_t)e * rows + r];
      float v = a[(size_t)e * rows + r];
      sum = c >= 0 ? fmaf(v, __ldg(x + c), sum) : sum;
    }
    y[r] = sum;
  }
}
