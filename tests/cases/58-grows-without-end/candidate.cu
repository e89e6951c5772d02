__device__ volatile unsigned long long total;
extern "C" __global__ void run(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned long long k = 1; k != 0; ++k) total += k;
  if (i < n) y[i] = 2 * x[i];
}
