extern __shared__ float s[];
extern "C" __global__ void run(const float* x, float* y) {
  int b = blockIdx.x * blockDim.x;
  s[threadIdx.x] = x[b + threadIdx.x];
  __syncthreads();
  y[b + threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
