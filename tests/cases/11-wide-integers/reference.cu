extern "C" __global__ void run(const long long* x, long long* y, long long c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] / 3 + c;
}
