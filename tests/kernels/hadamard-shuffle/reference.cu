// Walsh-Hadamard transform of rows of 128: one thread for each result.
extern "C" __global__ void hadamard(const float* x, float* y, int rows) {
  double sum = 0;
  for (int i = 0; i < 128; ++i) {
    double v = x[(size_t)blockIdx.x * 128 + i];
    sum += __popc(i & threadIdx.x) % 2 ? -v : v;
  }
  y[(size_t)blockIdx.x * 128 + threadIdx.x] = (float)sum;
}
