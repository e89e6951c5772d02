extern "C" __global__ void run(const float* x, float* y) {
  int b = blockIdx.x * blockDim.x;
  y[b + threadIdx.x] = x[b + blockDim.x - 1 - threadIdx.x];
}
