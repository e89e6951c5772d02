__device__ volatile int flag;
extern "C" __global__ void run(const int* x, int* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) { while (flag == 0) { } }
  y[i] = 2 * x[i];
}
