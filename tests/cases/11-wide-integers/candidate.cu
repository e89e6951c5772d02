extern "C" __global__ void run(const long long* x, long long* y, long long c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  long long v = x[i];
  y[i] = c + v / 3;
}
