// Vectors of two doubles and a tree in shared memory with a volatile-free last warp.
extern "C" __global__ void dot(const double* a, const double* b, double* y, int rows, int n) {
  __shared__ double s[128];
  const double* p = a + (size_t)blockIdx.x * n;
  const double* q = b + (size_t)blockIdx.x * n;
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += 128) sum = fma(p[i], q[i], sum);
  s[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 64; half >= 32; half /= 2) {
    if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    sum = s[threadIdx.x];
    for (int down = 16; down; down /= 2) sum += __shfl_down_sync(0xffffffffu, sum, down);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
  }
}
